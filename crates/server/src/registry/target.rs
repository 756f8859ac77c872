//! [`Target`]: one object of a resource by namespace and name, its storage key, and the errors about it.
//!
//! Every error about an object names group, resource and name the way kube-apiserver does, so they are made in one
//! place; the exceptions are commented where they occur. Preconditions on uid and resourceVersion are checked here for
//! all verbs. Checks of a body against its path are added in `pipeline/target.rs`, since this module does not depend on
//! requests.

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;
use listwatch_wire::{Revision, Status};

use crate::registry::Resource;

/// One object by its name: where a write goes, whether the object exists or not. The key is made once, and every
/// error about the object is made from it.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) resource: &'a Resource,
    /// `None` for cluster-scoped resources, never empty.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    /// The storage key.
    pub(crate) key: Arc<str>,
    /// The name of the user whose changes these are, for the history of the object.
    pub(crate) user: &'a str,
}

/// The user of the server's own changes.
pub(crate) const OWN_USER: &str = "system:apiserver";

impl<'a> Target<'a> {
    /// Allocates the key once; a write uses it for reads, the commit and messages.
    pub(crate) fn new(resource: &'a Resource, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self { resource, namespace, name, key: resource.key(namespace, name), user: OWN_USER }
    }

    /// Sets the user that changes the object, where it is not the server itself.
    pub(crate) fn by(self, user: &'a str) -> Self {
        Self { user, ..self }
    }

    /// Returns the 404 for this object.
    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group, &self.resource.plural, self.name)
    }

    /// Returns the 409 that asks the client to read the object again, for a resourceVersion that is not current.
    pub(crate) fn modified(&self) -> Status {
        Status::modified(&self.resource.group, &self.resource.plural, self.name)
    }

    /// True for the PriorityClasses that every cluster has.
    pub(crate) fn is_system_class(&self) -> bool {
        &*self.resource.plural == "priorityclasses"
            && &*self.resource.group == "scheduling.k8s.io"
            && matches!(self.name, "system-cluster-critical" | "system-node-critical")
    }

    /// Returns a 409 for another reason than the resourceVersion.
    pub(crate) fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.resource.group, &self.resource.plural, self.name, why)
    }

    /// Returns the 422 with these field errors. It names the group of the stored form, as kube-apiserver does.
    pub(crate) fn invalid(&self, errors: &[FieldError]) -> Status {
        Status::invalid(self.resource.stored_group(), &self.resource.kind, self.name, errors)
    }

    /// Returns the 422 of [`Target::invalid`] if there are field errors.
    pub(crate) fn valid(&self, errors: &[FieldError]) -> Result<(), Status> {
        if errors.is_empty() { Ok(()) } else { Err(self.invalid(errors)) }
    }

    /// Checks that the uid in a request, if it has one, is that of the stored object.
    ///
    /// # Errors
    /// 409 with the message of kube-apiserver's storage layer.
    pub(crate) fn check_uid(&self, asked: &str, stored: &Value) -> Result<(), Status> {
        let found = stored.at("metadata").text("uid");
        if asked.is_empty() || asked == found {
            return Ok(());
        }
        Err(self.conflict(&format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {found}",
            self.key
        )))
    }

    /// Checks that the resourceVersion in a request, if it has one other than 0, is the current one.
    ///
    /// `0` means any version in a write, as an empty one does. It is compared with the revision of the object and not
    /// with that of the store.
    ///
    /// # Errors
    /// 409 if it is another, 400 if it is not a number.
    pub(crate) fn check_version(&self, asked: &str, current: Revision) -> Result<(), Status> {
        if asked.is_empty() || asked == "0" {
            return Ok(());
        }
        let asked: u64 = listwatch_wire::go::parse_uint(asked).map_err(Status::bad_request)?;
        if asked == current.0 { Ok(()) } else { Err(self.modified()) }
    }
}
