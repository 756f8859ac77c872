//! The errors for a transformation that does not fit the response: PartialObjectMetadataList of a single object, and
//! the reverse. kube-apiserver detects it after reading the object, and its message names the Go type.
//!
//! Unknown transformations are refused earlier, by [`crate::request::negotiate`].

use listwatch_wire::Status;
use listwatch_wire::status::StatusReason;

use crate::registry::Resource;

/// 406 for the metadata of one object where there is a list.
pub(super) fn list(resource: &Resource) -> Status {
    let ty = if resource.is_custom() {
        "unstructured.UnstructuredList".to_owned()
    } else {
        go_type(resource, "List")
    };
    let message = format!("you requested PartialObjectMetadata, but the requested object is a list (*{ty})");
    Status::failure(406, StatusReason::NotAcceptable, message)
}

/// 406 for the metadata of a list where there is one object. A custom object passes for a list until it is read.
pub(super) fn object(resource: &Resource) -> Status {
    if resource.is_custom() {
        return Status::failure(500, StatusReason::Unknown, "content is not a list");
    }
    not_a_list(&go_type(resource, ""))
}

/// 406 for the metadata of a list where there is a Scale, which is of the versioned type for a custom resource.
pub(super) fn scale(resource: &Resource) -> Status {
    not_a_list(if resource.is_custom() { "v1.Scale" } else { "autoscaling.Scale" })
}

fn not_a_list(ty: &str) -> Status {
    let message =
        format!("you requested PartialObjectMetadataList, but the requested object is not a list (*{ty})");
    Status::failure(406, StatusReason::NotAcceptable, message)
}

/// The internal type of a built-in kind: its package is named after the group, apart from Events, which are those of core.
fn go_type(resource: &Resource, suffix: &str) -> String {
    let package = match resource.group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        group => group,
    };
    format!("{package}.{}{suffix}", resource.kind)
}
