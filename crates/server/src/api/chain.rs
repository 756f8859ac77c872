//! [`Chain`]: the enabled admission plugins in the order they are called.

use std::sync::Arc;

use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Plugin};
use crate::registry::Resource;

/// The enabled plugins in the order they are called.
#[derive(Debug)]
pub(crate) struct Chain {
    plugins: Vec<Arc<dyn Plugin>>,
}

impl Chain {
    pub(crate) fn new(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        debug_assert!(plugins.len() <= u64::BITS as usize, "a resource remembers its plugins in one word");
        Self { plugins }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.plugins.len()
    }

    /// The plugins that have something to do for this request.
    fn plugins<'c>(&'c self, request: &Attributes<'c>) -> impl Iterator<Item = &'c Arc<dyn Plugin>> {
        let (operation, subresource, api) = (request.operation, request.subresource, request.api);
        let interested = self.interested(request.resource);
        let plugins =
            self.plugins.iter().enumerate().filter(move |(index, _)| interested & (1 << index) != 0);
        plugins
            .map(|(_, plugin)| plugin)
            .filter(move |plugin| plugin.handles(operation, subresource) && !plugin.is_idle(api))
    }

    /// The plugins that may act on a resource, one bit each, found when it is first written.
    fn interested(&self, resource: &Resource) -> u64 {
        *resource.admission.get_or_init(|| {
            let wanted = self.plugins.iter().enumerate().filter(|(_, plugin)| plugin.is_interested(resource));
            wanted.fold(0, |bits, (index, _)| bits | 1 << index)
        })
    }

    /// Lets the plugins change the object.
    ///
    /// # Errors
    /// The Status of the first plugin that rejects the request.
    pub(crate) async fn admit(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        request.record.reinvocation().reset();
        self.admit_once(request, object).await?;
        if request.record.reinvocation().begin_second() {
            self.admit_once(request, object).await?;
        }
        Ok(())
    }

    async fn admit_once(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        for plugin in self.plugins(request) {
            plugin.admit(request, object).await?;
        }
        Ok(())
    }

    /// Asks the plugins whether the request may pass.
    ///
    /// # Errors
    /// The Status of the first plugin that rejects the request.
    pub(crate) async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        for plugin in self.plugins(request) {
            plugin.validate(request, object).await?;
        }
        Ok(())
    }
}
