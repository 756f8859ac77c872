//! The errors of reads whose objects a conversion webhook does not convert. For kube-apiserver such objects are
//! corrupt: it converts them when it reads them from its store.

use std::sync::Arc;

use listwatch_wire::Status;
use listwatch_wire::status::{StatusCause, StatusDetails, StatusReason};

use crate::cache::CachedObject;
use crate::registry::Resource;

/// The most objects that the error of a list names.
const MAX_NAMED: usize = 100;

/// The error of reading one object, because of the error of its conversion.
pub(crate) fn of_object(resource: &Resource, object: &CachedObject, why: &Status) -> Status {
    Status::internal(corrupt(&key(resource, object, ""), object, why))
}

/// The error of reading a list, because of the error of its conversion.
pub(crate) fn of_list(resource: &Resource, objects: &[Arc<CachedObject>], why: &Status) -> Status {
    let causes: Vec<StatusCause> = objects
        .iter()
        .take(MAX_NAMED)
        .map(|object| {
            let field = key(resource, object, "/registry");
            let (reason, message) = ("UnexpectedServerResponse".to_owned(), corrupt(&field, object, why));
            StatusCause { reason, message, field }
        })
        .collect();
    let (group, plural) = (&resource.group, &resource.plural);
    let first = causes.first().map(|cause| cause.message.as_str()).unwrap_or_default();
    let message = format!("failed to read one or more {plural}.{group} from the storage: {first}");
    let details = StatusDetails {
        name: "list".to_owned(),
        group: group.to_string(),
        kind: plural.to_string(),
        causes,
        ..StatusDetails::default()
    };
    Status::failure(500, StatusReason::Other("StorageReadError".to_owned()), message).with_details(details)
}

/// The key of an object in kube-apiserver's store.
fn key(resource: &Resource, object: &CachedObject, root: &str) -> String {
    let namespace = match object.namespace() {
        "" => String::new(),
        namespace => format!("/{namespace}"),
    };
    format!("{root}/{}/{}{namespace}/{}", resource.group, resource.plural, object.name())
}

/// The message of kube-apiserver for an object that its store cannot decode.
fn corrupt(key: &str, object: &CachedObject, why: &Status) -> String {
    let revision = object.revision();
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: {revision}, AdditionalErrorMsg: object not decodable revision={revision}: {}",
        why.message
    )
}
