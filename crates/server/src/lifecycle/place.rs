//! [`ObjectPlace`]: from a storage key back to the resource, namespace and name.
//!
//! The controllers follow the engine's log, which has keys and bytes only. Several resources may share a key
//! (versions, and kinds that moved between groups); the one in whose form objects are stored is preferred, so that a
//! write by a controller does not convert. Keys that nothing serves are left alone: their definition may come back.

use std::sync::Arc;

use crate::api::Api;
use crate::registry::Resource;

/// The resource, namespace and name of a stored object.
#[derive(Debug)]
pub(super) struct ObjectPlace {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// The collection, namespace and name in `/registry/<collection>/[<namespace>/]<name>`.
pub(super) fn split(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("/registry/")?.split_once('/')
}

/// Returns true if objects are stored in the form of this resource, as far as that matters: all versions of a custom
/// kind will do.
pub(super) fn keeps_form(resource: &Resource) -> bool {
    resource.builtin.is_none_or(|kind| kind.stored_as.is_none())
}

impl ObjectPlace {
    /// The place of a key; `None` if nothing serves it.
    ///
    /// Visits all served resources, which is bearable for work in the background.
    pub(super) fn of(api: &Api, key: &str) -> Option<Self> {
        let (collection, path) = split(key)?;
        let served = api.registry.served();
        let same = served.resources().iter().filter(|resource| resource.collection.name() == collection);
        let resource = same.min_by_key(|resource| !keeps_form(resource))?;
        let (namespace, name) = match path.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, path),
        };
        Some(Self { resource: Arc::clone(resource), namespace, name: name.to_owned() })
    }

    /// The namespace, if it has one.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}
