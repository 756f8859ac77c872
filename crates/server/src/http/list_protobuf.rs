//! A list in protobuf.
//!
//! The envelope says how long the list is before its first item, so that all items are encoded before the first byte goes
//! out. What is held meanwhile is the encoded list, never its objects as values.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use listwatch_kinds::proto::ListWriter;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::encode::PARTIAL_PREFIX;
use super::negotiate::Shape;
use crate::cache::Object;
use crate::registry::Resource;

/// A list being encoded.
pub(crate) struct ProtobufList<'a> {
    resource: &'a Resource,
    shape: Shape,
    writer: ListWriter,
    /// The JSON of one object at a time.
    scratch: BytesMut,
}

impl<'a> ProtobufList<'a> {
    /// Begins a list with its own metadata, in JSON.
    pub(crate) fn new(resource: &'a Resource, shape: Shape, metadata: &[u8]) -> Result<Self, Status> {
        let metadata = Value::read(metadata).map_err(Status::internal)?;
        let writer = match shape {
            Shape::Metadata => ListWriter::new("meta.k8s.io/v1", "PartialObjectMetadata", &metadata),
            _ => ListWriter::new(&resource.api_version(), &resource.kind, &metadata),
        };
        let writer = writer.map_err(Status::internal)?;
        Ok(Self { resource, shape, writer, scratch: BytesMut::new() })
    }

    /// Adds an object.
    pub(crate) fn push(&mut self, object: &Arc<Object>) -> Result<(), Status> {
        let object = self.resource.present(object);
        self.scratch.clear();
        match self.shape {
            Shape::Metadata => object.write_metadata(object.revision(), PARTIAL_PREFIX, &mut self.scratch),
            _ => object.write(b"{", &mut self.scratch),
        }
        let value = Value::read(&self.scratch).map_err(Status::internal)?;
        self.writer.push(&value).map_err(Status::internal)
    }

    /// The list in its envelope.
    pub(crate) fn finish(self) -> Bytes {
        self.writer.finish().into()
    }
}
