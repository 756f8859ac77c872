//! Shared parts of the test files: objects from a word, and the runner of script files.
#![allow(dead_code, clippy::missing_panics_doc, reason = "each test file uses a part of it")]

pub(crate) mod informer;
pub(crate) mod script;
pub(crate) mod server;
pub(crate) mod warm;

use listwatch::object::Object;
use serde_json::json;

/// `namespace/name`, a resource version and a uid.
pub(crate) fn object_with<K>(key: &str, revision: u64, uid: &str) -> Object<K> {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let metadata = json!({
        "namespace": namespace, "name": name, "uid": uid, "resourceVersion": revision.to_string()
    });
    Object::from_value(&json!({"metadata": metadata, "data": {"version": revision}})).unwrap()
}

/// `namespace/name` at a resource version; the uid follows from the name.
pub(crate) fn object<K>(key: &str, revision: u64) -> Object<K> {
    object_with(key, revision, &format!("uid of {key}"))
}
