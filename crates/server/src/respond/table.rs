//! Tables (`meta.k8s.io/v1`, `as=Table`): the server-side printing that `kubectl get` shows.
//!
//! Column definitions and cells of built-in kinds are data in `listwatch_kinds::columns`; those of custom resources
//! are the `additionalPrinterColumns` of their definition. Only framing is here, written straight to bytes so that a
//! list of many rows holds one row at a time. Each row carries the object, its metadata or nothing, by
//! `includeObject`.
//!
//! Tables have no protobuf form, because cells are of any type: [`crate::request::negotiate`] offers none.

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use listwatch_kinds::tree::Tree;
use listwatch_kinds::{age, columns, convert};
use listwatch_wire::Status;
use listwatch_wire::json;
use listwatch_wire::json::{Value, json};

use crate::http::request::Request;
use crate::registry::Resource;
use crate::request::negotiate::{MetaVersion, ResponseForm, ResponseShape};
use crate::respond::internal;

/// The part of its object that each row carries (`includeObject`). kubectl needs the metadata, for names and for
/// `--watch`.
#[doc(alias = "IncludeObjectPolicy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    /// The part of its object that each row carries in a response of this form.
    pub(crate) fn wanted(form: ResponseForm, request: &Request) -> Result<Self, Status> {
        if matches!(form.shape, ResponseShape::Table(_)) { Self::parse(request) } else { Ok(Self::Metadata) }
    }

    /// The `includeObject` parameter.
    ///
    /// # Errors
    /// 400 for any other word.
    fn parse(request: &Request) -> Result<Self, Status> {
        let query = &request.query;
        match query.text("includeObject") {
            "None" => Ok(Self::Nothing),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                listwatch_wire::go::quote(other),
            ))),
        }
    }
}

/// The column definitions of a resource, as JSON.
///
/// A list needs it once and a watch once for the first event, so it is not kept.
pub(crate) fn columns(resource: &Resource) -> Vec<u8> {
    let columns: Vec<Value> = match (resource.builtin, &resource.custom) {
        (Some(kind), _) => columns::definitions(kind).iter().map(definition).collect(),
        (None, Some(version)) => version.columns.definitions().collect(),
        (None, None) => Vec::new(),
    };
    json::encode(&columns.into())
}

/// Descriptions are left empty, unlike in kube-apiserver: kubectl shows none of them, and they are longer than most
/// tables.
fn definition(column: &columns::Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format, "description": "",
        "priority": column.priority,
    })
}

/// The cells of one object.
fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    match (resource.builtin, &resource.custom) {
        (Some(kind), _) => columns::row(kind, object, now),
        (None, Some(version)) => version.columns.cells(object, |time| age::since(time, now)),
        (None, None) => Vec::new(),
    }
}

/// The form that kube-apiserver prints, which is the one that it stores: an older version has the rest in annotations.
fn as_printed(resource: &Resource, sent: &Value) -> Value {
    let mut object = sent.clone();
    let Some(kind) = resource.builtin else { return object };
    if kind.stored_as.is_some_and(|(group, _)| group == kind.group) {
        convert::to_stored(kind, &mut object);
    }
    if kind.group == "apps" && sent.at("metadata").has("annotations") && !internal::drop_fields(&mut object) {
        return sent.clone();
    }
    object
}

/// Writes one row for an object, given as clients see it.
///
/// The default object of a list, such as a StorageClass, is marked in its name.
///
/// Parses the object: cells are computed from its fields, and ages from the time of writing. A row of a watch is not
/// written again when its age changes.
pub(crate) fn row(
    resource: &Resource,
    object: &[u8],
    (meta, include): (MetaVersion, Include),
    is_default: bool,
    out: &mut BytesMut,
) {
    let sent = Value::read(object).unwrap_or_default();
    let value = as_printed(resource, &sent);
    let mut cells = cells(resource, &value, Timestamp::now());
    if let Some(Value::String(name)) = cells.first_mut().filter(|_| is_default) {
        *name = format!("{name} (default)").into();
    }
    out.extend_from_slice(b"{\"cells\":");
    out.extend_from_slice(&json::encode(&cells.into()));
    let condition = resource.builtin.and_then(|kind| columns::row_condition(kind, &value));
    if let Some(condition) = condition {
        out.extend_from_slice(b",\"conditions\":");
        out.extend_from_slice(&json::encode(&vec![condition].into()));
    }
    out.extend_from_slice(b",\"object\":");
    match include {
        Include::Nothing => out.extend_from_slice(b"null"),
        Include::Object => out.extend_from_slice(object),
        Include::Metadata => {
            out.extend_from_slice(meta.partial_prefix());
            out.extend_from_slice(b"\"metadata\":");
            match value.is_same(&sent) {
                true => out.extend_from_slice(json::raw::lookup(object, &["metadata"]).unwrap_or(b"{}")),
                false => out.extend_from_slice(&json::encode(value.at("metadata"))),
            }
            out.extend_from_slice(b"}");
        }
    }
    out.extend_from_slice(b"}");
}

/// The table of one object; its version is the object's.
pub(crate) fn single(resource: &Resource, object: &[u8], meta: MetaVersion, include: Include) -> Bytes {
    let version = json::raw::lookup(object, &["metadata", "resourceVersion"]).unwrap_or(b"\"\"");
    let mut out = BytesMut::with_capacity(object.len() + 512);
    head(&mut out, meta, &[b"{\"resourceVersion\":", version, b"}"].concat(), &columns(resource));
    out.extend_from_slice(b"[");
    row(resource, object, (meta, include), false, &mut out);
    out.extend_from_slice(b"]}");
    out.freeze()
}

/// The table of a Scale, which is not an object of any resource. Custom kinds have column types of their own.
pub(crate) fn scale(scale: &Value, is_custom: bool, meta: MetaVersion, include: Include) -> Bytes {
    let (name_format, age_type) = if is_custom { ("name", "date") } else { ("", "string") };
    let column = |name: &str, kind: &str, format: &str| json!({"name": name, "type": kind, "format": format, "description": "", "priority": 0});
    let (metadata, zero) = (scale.at("metadata"), 0);
    let object = match include {
        Include::Nothing => Value::Null,
        Include::Object => scale.clone(),
        Include::Metadata => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": metadata})
        }
    };
    let cells = json!([
        metadata.at("name"),
        scale.at("spec").int("replicas").unwrap_or(zero),
        scale.at("status").int("replicas").unwrap_or(zero),
        age::since(metadata.text("creationTimestamp"), Timestamp::now()),
    ]);
    let table = json!({
        "kind": "Table",
        "apiVersion": meta.api_version(),
        "metadata": {"resourceVersion": metadata.at("resourceVersion")},
        "columnDefinitions": [
            column("Name", "string", name_format), column("Desired", "integer", ""),
            column("Available", "integer", ""), column("Age", age_type, ""),
        ],
        "rows": [{"cells": cells, "object": object}],
    });
    json::encode(&table).into()
}

/// Writes a table up to the bracket that opens the rows. `columns` is `null` in all but the first event of a watch.
///
/// The caller writes the rows, separated by commas, and the closing brackets.
pub(crate) fn head(out: &mut BytesMut, meta: MetaVersion, metadata: &[u8], columns: &[u8]) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"");
    out.extend_from_slice(meta.api_version().as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    out.extend_from_slice(metadata);
    out.extend_from_slice(b",\"columnDefinitions\":");
    out.extend_from_slice(columns);
    out.extend_from_slice(b",\"rows\":");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_one_row() {
        let object = json!({"kind": "Scale", "metadata": {"name": "d", "resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z"}, "spec": {"replicas": 3}, "status": {"replicas": 1}});
        let table = Value::read(&scale(&object, false, MetaVersion::V1, Include::Nothing)).unwrap();
        assert_eq!(table.at("metadata"), &json!({"resourceVersion": "7"}));
        let row = table.list("rows").first().unwrap();
        assert_eq!(row.list("cells").get(..3).unwrap(), &[json!("d"), json!(3), json!(1)]);
        assert_eq!(row.at("object"), &Value::Null);
    }
}
