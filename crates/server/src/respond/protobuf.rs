//! Kubernetes protobuf of documents and watch events, for clients that know the types.
//!
//! Objects are stored as JSON; this converts on the way out, by the type tables of `listwatch_kinds::proto`. Only
//! built-in kinds have a protobuf form. A document that does not fit its type is an error rather than a best effort:
//! the client would read something else than was stored. Lists are encoded item by item in `verbs/list/protobuf.rs`.

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_kinds::{convert, proto};
use listwatch_wire::event::EventType;
use listwatch_wire::json::Value;
use listwatch_wire::{Revision, Status};

use crate::registry::Resource;

/// A JSON document of a built-in kind, in its envelope.
///
/// Parses the JSON, so a document costs several times what its JSON form does.
///
/// # Errors
/// 500 for one that is not of the kind it states: the client would read something else than was stored.
pub(crate) fn document(json: &[u8]) -> Result<Bytes, Status> {
    let value = Value::read(json).map_err(Status::internal)?;
    let encoded = proto::encode(text(&value, "apiVersion"), text(&value, "kind"), &value);
    encoded.map(Bytes::from).map_err(Status::internal)
}

/// A JSON document of a kind in this version. The envelope has the version that the document names, which may be none.
///
/// # Errors
/// As for [`document`].
pub(crate) fn document_of(version: &str, json: &[u8]) -> Result<Bytes, Status> {
    let value = Value::read(json).map_err(Status::internal)?;
    let named = text(&value, "apiVersion");
    let encoded = proto::encode_named(version, text(&value, "kind"), named, &value);
    encoded.map(Bytes::from).map_err(Status::internal)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A stored object of a built-in kind in the version of the resource, from the tree of its stored bytes.
///
/// Encodes a stored object as [`document`] does, from its tree and without writing JSON in between.
///
/// # Errors
/// As for [`document`].
pub(crate) fn object(resource: &Resource, mut tree: Value, revision: Revision) -> Result<Bytes, Status> {
    if let Some(kind) = resource.builtin.filter(|_| resource.present.is_some()) {
        convert::from_stored(kind, &mut tree);
    }
    if let Some(meta) = tree.inner("metadata").filter(|_| revision != Revision::ZERO) {
        meta.put("resourceVersion", revision.to_string());
    }
    let encoded = proto::encode(&resource.api_version(), &resource.kind, &tree);
    encoded.map(Bytes::from).map_err(Status::internal)
}

/// An event of a watch about a document in protobuf.
pub(crate) fn framed(kind: EventType, document: &[u8]) -> Bytes {
    proto::watch_frame(kind.as_str(), document).into()
}

/// An event of a watch about a JSON document.
///
/// # Errors
/// As for [`document`].
pub(crate) fn event(kind: EventType, json: &[u8]) -> Result<Bytes, Status> {
    Ok(framed(kind, &document(json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_has_a_protobuf_form() {
        for kind in listwatch_kinds::all() {
            let (version, metadata) =
                (kind.api_version(), listwatch_wire::json::json!({"name": "a", "uid": "u"}));
            let object =
                listwatch_wire::json::json!({"apiVersion": version, "kind": kind.kind, "metadata": metadata});
            let body = document(object.to_string().as_bytes());
            let body = body.unwrap_or_else(|status| panic!("{version} {}: {status:?}", kind.kind));
            let back = proto::decode(&body, ("", "")).unwrap();
            assert_eq!(back["metadata"], metadata, "{version} {}", kind.kind);
            let listed = kind.verbs.contains(&"list");
            let list = proto::ListWriter::new(
                &version,
                kind.kind,
                &listwatch_wire::json::json!({"resourceVersion": "1"}),
            );
            assert!(!listed || list.is_ok(), "{version} {}: {list:?}", kind.kind);
        }
    }

    /// Watchers and writers may get one or the other of the same object, also in a version that it is not stored in.
    #[test]
    fn the_tree_of_an_object_and_its_json_have_the_same_protobuf_form() {
        let cache = crate::cache::Cache::new(
            std::sync::Arc::new(listwatch_storage::MemoryEngine::default()),
            crate::CacheLimits::default(),
        );
        for kind in listwatch_kinds::all() {
            let resource = Resource::builtin(kind, cache.collection(kind.plural, &[]));
            let (group, version) = &resource.stored_as;
            let stored_version =
                if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
            let stored = listwatch_wire::json::json!({
                "apiVersion": stored_version, "kind": kind.kind,
                "metadata": {"name": "a", "uid": "u", "labels": {"z": "1", "a": "2"}, "generation": 3},
            });
            let bytes: Bytes = listwatch_wire::json::encode_stored(&stored).into();
            let key = resource.key(Some("n"), "a");
            let stored_object = resource.collection.object(&key, bytes, Revision(7)).unwrap();
            let json = crate::respond::encode::object(&resource.present(&stored_object), &resource);
            let of_tree = object(&resource, stored, Revision(7)).unwrap();
            assert_eq!(of_tree, document(&json).unwrap(), "{} {}", resource.api_version(), kind.kind);
        }
    }

    #[test]
    fn values_of_the_wrong_type_are_refused_rather_than_changed() {
        let wrong = br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}"#;
        assert_eq!(document(wrong).unwrap_err().code, 500);
        let custom = br#"{"apiVersion":"example.com/v1","kind":"Widget"}"#;
        assert_eq!(document(custom).unwrap_err().code, 500);
    }
}
