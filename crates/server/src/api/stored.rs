//! [`Stored`]: one object read for a write: its tree, its bytes and the revision it is stored at.
//!
//! [`cached`] answers from memory and is nearly always current; [`fresh`] asks the engine and is the last word before
//! an error or a "not found" is returned. The tree of a recent write is reused instead of being parsed again
//! (`cache/trees.rs`), and then its byte spans let the encoder copy what did not change. Reads by clients do not
//! come here: they send stored bytes ([`crate::cache`]).

use std::sync::Arc;

use bytes::Bytes;
use listwatch_storage::KeyValue;
use listwatch_wire::json::{EarlierEncoding, Spans, Value};
use listwatch_wire::{Revision, Status};

use super::{Api, convert};
use crate::cache::WrittenTree;
use crate::cache::damage::unreadable;
use crate::cache::fresh::storage_status;
use crate::registry::target::Target;

/// An object as it is stored: the tree to decide on, and the bytes that it was read from or written as.
///
/// The two always belong together. An encoder may copy parts of the bytes in place of parts of the tree that did not
/// change.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) value: Value,
    pub(crate) revision: Revision,
    pub(crate) bytes: Bytes,
    /// The positions of the containers of the tree in the bytes, if it was written lately.
    spans: Option<Arc<Spans>>,
}

impl Stored {
    /// Reads stored bytes, unless the tree of this revision or a newer one was written by this server a moment ago.
    async fn read(api: &Api, target: &Target<'_>, bytes: Bytes, revision: Revision) -> Result<Self, Status> {
        let rules = &target.resource.rules;
        if let Some((revision, version)) = api.cache.trees.get(&target.key, revision, rules) {
            let WrittenTree { value, bytes, spans, .. } = version;
            return Ok(Self { value, revision, bytes, spans: Some(spans) });
        }
        let known = api.cache.trees.peek_bytes(&target.key, &bytes);
        let mut value = match known.map_or_else(|| Value::read(&bytes), Ok) {
            Err(_) if bytes.is_empty() => return Err(unreadable(&target.key)),
            read => read.map_err(Status::internal)?,
        };
        convert::from_stored(api, target.resource, &mut value).await?;
        Ok(Self { value, revision, bytes, spans: None })
    }

    /// The bytes that an encoding of its successor can copy from.
    pub(crate) fn written(&self) -> Option<EarlierEncoding<'_>> {
        self.spans.as_deref().map(|spans| EarlierEncoding { bytes: &self.bytes, spans })
    }

    /// Reads what the engine returned, converted to the version of the target.
    pub(crate) async fn from_engine(api: &Api, target: &Target<'_>, found: KeyValue) -> Result<Self, Status> {
        Self::read(api, target, found.value, found.revision).await
    }
}

/// Returns an object as the cache has it, which may be a moment behind the store.
///
/// # Errors
/// 500 if it cannot be read, and errors of a conversion webhook.
pub(crate) async fn cached(api: &Api, target: &Target<'_>) -> Result<Option<Stored>, Status> {
    let snapshot = target.resource.collection.snapshot();
    let Some(object) = snapshot.get(&target.key) else { return Ok(None) };
    Stored::read(api, target, object.stored().clone(), object.revision()).await.map(Some)
}

/// Returns an object as the store has it.
///
/// # Errors
/// 500 if it cannot be read, 5xx if the store fails, and errors of a conversion webhook.
pub(crate) async fn fresh(api: &Api, target: &Target<'_>) -> Result<Option<Stored>, Status> {
    let found = api.engine.get(&target.key, None).await.map_err(|error| storage_status(&error))?;
    match found {
        Some(found) => Stored::from_engine(api, target, found).await.map(Some),
        None => Ok(None),
    }
}
