//! Checks of the body of a write against its path: kind, name and namespace.
//!
//! The path has been authorized, the body has not. A body that names another object or namespace than the path is
//! refused, never followed; fields that it leaves out are filled in from the path, except for the name. Messages are
//! kube-apiserver's. The storage key and the errors about one object are [`Target`] itself, in `registry/target.rs`.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use crate::pipeline::body::Expected;
use crate::registry::Resource;
pub(crate) use crate::registry::target::Target;

impl Target<'_> {
    /// Checks that name and namespace of a body are those of the path, and fills in the namespace. The name must be
    /// there.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check_identity(&self, object: &mut Value) -> Result<(), Status> {
        let name = object.at("metadata").text("name");
        if name.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )));
        }
        if name != self.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        place(object, self.namespace)
    }
}

/// Puts an object into the namespace of the path, and removes a namespace from cluster-scoped ones.
///
/// # Errors
/// 400 if the object names another namespace.
pub(crate) fn place(object: &mut Value, namespace: Option<&str>) -> Result<(), Status> {
    let given = object.at("metadata").text("namespace");
    match namespace {
        Some(namespace) if !given.is_empty() && given != namespace => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        Some(namespace) if given == namespace => Ok(()),
        Some(namespace) => {
            if let Some(meta) = object.inner_or_new("metadata") {
                meta.put("namespace", namespace);
            }
            Ok(())
        }
        None => {
            if let Some(meta) = object.inner("metadata") {
                meta.drop_field("namespace");
            }
            Ok(())
        }
    }
}

/// The kind that a path of the resource itself takes.
pub(crate) fn expected(resource: &Resource) -> Expected<'_> {
    Expected {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        builtin: resource.builtin.is_some(),
    }
}
