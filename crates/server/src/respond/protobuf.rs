//! Kubernetes protobuf of documents and watch events, for clients that know the types.
//!
//! Objects are stored as JSON; this converts on the way out, by the type tables of `listwatch_kinds::proto`. Only
//! built-in kinds have a protobuf form. A document that does not fit its type is an error rather than a best effort:
//! the client would read something else than was stored. Lists are encoded item by item in `verbs/list/protobuf.rs`.

use bytes::Bytes;
use listwatch_kinds::proto;
use listwatch_wire::Status;
use listwatch_wire::event::EventType;
use listwatch_wire::json::Value;

/// A JSON document of a built-in kind, in its envelope.
///
/// # Errors
/// 500 for one that is not of the kind it says: the client would read something else than was stored.
///
/// Parses the JSON, so a document costs several times what its JSON form does.
pub(crate) fn document(json: &[u8]) -> Result<Bytes, Status> {
    let value = Value::read(json).map_err(Status::internal)?;
    encoded(text(&value, "apiVersion"), &value)
}

/// A JSON document of a kind in this version, whichever it says.
///
/// # Errors
/// As for [`document`].
pub(crate) fn document_of(version: &str, json: &[u8]) -> Result<Bytes, Status> {
    encoded(version, &Value::read(json).map_err(Status::internal)?)
}

fn encoded(version: &str, value: &Value) -> Result<Bytes, Status> {
    proto::encode(version, text(value, "kind"), value).map(Bytes::from).map_err(Status::internal)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// An event of a watch about a JSON document.
///
/// # Errors
/// As for [`document`].
pub(crate) fn event(kind: EventType, json: &[u8]) -> Result<Bytes, Status> {
    Ok(proto::watch_frame(kind.as_str(), &document(json)?).into())
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

    #[test]
    fn values_of_the_wrong_type_are_refused_rather_than_changed() {
        let wrong = br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1}}"#;
        assert_eq!(document(wrong).unwrap_err().code, 500);
        let custom = br#"{"apiVersion":"example.com/v1","kind":"Widget"}"#;
        assert_eq!(document(custom).unwrap_err().code, 500);
    }
}
