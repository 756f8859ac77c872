//! [`Target`]: one object of a resource by its name, and the errors about it.

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;
use listwatch_wire::{Revision, Status};

use crate::registry::Resource;

/// One object by its name.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) key: Arc<str>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(resource: &'a Resource, namespace: Option<&'a str>, name: &'a str) -> Self {
        Self { resource, namespace, name, key: resource.key(namespace, name) }
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group, &self.resource.plural, self.name)
    }

    pub(crate) fn modified(&self) -> Status {
        Status::modified(&self.resource.group, &self.resource.plural, self.name)
    }

    /// True for the PriorityClasses that every cluster has.
    pub(crate) fn is_system_class(&self) -> bool {
        &*self.resource.plural == "priorityclasses"
            && &*self.resource.group == "scheduling.k8s.io"
            && matches!(self.name, "system-cluster-critical" | "system-node-critical")
    }

    pub(crate) fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.resource.group, &self.resource.plural, self.name, why)
    }

    pub(crate) fn invalid(&self, errors: &[FieldError]) -> Status {
        // Errors are about the form that is stored.
        let stored = self.resource.builtin.and_then(|kind| kind.stored_as);
        let group = stored.map_or(&*self.resource.group, |(group, _)| group);
        Status::invalid(group, &self.resource.kind, self.name, errors)
    }

    /// Refuses if there are complaints.
    pub(crate) fn valid(&self, errors: &[FieldError]) -> Result<(), Status> {
        if errors.is_empty() { Ok(()) } else { Err(self.invalid(errors)) }
    }

    /// The uid in a request must be that of the stored object.
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

    /// The resource version in a request, if it has one, must be the current one.
    pub(crate) fn check_version(&self, asked: &str, current: Revision) -> Result<(), Status> {
        if asked.is_empty() || asked == "0" {
            return Ok(());
        }
        let asked: u64 = listwatch_wire::go::parse_uint(asked).map_err(Status::bad_request)?;
        if asked == current.0 { Ok(()) } else { Err(self.modified()) }
    }
}
