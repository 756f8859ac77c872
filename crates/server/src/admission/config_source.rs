//! [`ConfigSource`]: the built-in resource whose objects configure a plugin, such as ResourceQuotas or webhooks.
//!
//! Every write asks each plugin that could be interested whether there is anything to do. The resource is therefore
//! looked up once, when a plugin is first asked, and not for every write: built-in resources are served as long as the server runs.
//! Resources that plugins look up by a name from a request are found through [`super::Attributes`].

use std::sync::{Arc, OnceLock};

use crate::api::Api;
use crate::registry::Resource;

/// A built-in resource by its group, version and plural.
#[derive(Debug)]
pub(super) struct ConfigSource {
    path: (&'static str, &'static str, &'static str),
    resource: OnceLock<Arc<Resource>>,
}

impl ConfigSource {
    /// Group, version and plural. Looked up at the first request, because definitions may add the resource later.
    pub(super) const fn new(path: (&'static str, &'static str, &'static str)) -> Self {
        Self { path, resource: OnceLock::new() }
    }

    /// Returns the resource; `None` if this server does not serve it.
    pub(super) fn resource(&self, api: &Api) -> Option<&Resource> {
        if let Some(known) = self.resource.get() {
            return Some(known);
        }
        let (group, version, plural) = self.path;
        let found = api.registry.find(group, version, plural)?;
        Some(self.resource.get_or_init(|| found))
    }

    /// Returns true if there are no objects. The test by which a plugin is idle.
    pub(super) fn is_empty(&self, api: &Api) -> bool {
        self.resource(api).is_none_or(|resource| resource.collection.is_empty())
    }
}
