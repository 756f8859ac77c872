//! [`Chain`]: the enabled admission plugins in the order they are called.
//!
//! Mutating plugins run first, all of them, and once more if a webhook or policy that ran changed the object after
//! others had seen it (`reinvocation.rs`); the validating phase is a second call after the strategy has validated. A
//! write should not ask every plugin about its interest, so each resource keeps a bit per plugin that may act on it.
//! The first rejection ends the request. The table of plugins is `admission/chain.rs`, above this module.

use std::sync::Arc;

use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Plugin};
use crate::registry::Resource;

/// The enabled plugins in the order they are called, which is kube-apiserver's and not that of the configuration:
/// later plugins rely on what earlier ones have filled in.
#[doc(alias = "chainAdmissionHandler")]
#[derive(Debug)]
pub(crate) struct Chain {
    plugins: Vec<Arc<dyn Plugin>>,
}

impl Chain {
    /// A chain of these plugins. At most 64: a resource keeps one bit for each in a word.
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

    /// Calls the mutating phase of the plugins, in order, and a second time if reinvocation asks for it.
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

    /// One round. A plugin that changes the object may lead to a second one, which webhooks ask for (`reinvocationPolicy`).
    async fn admit_once(&self, request: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        for plugin in self.plugins(request) {
            plugin.admit(request, object).await?;
        }
        Ok(())
    }

    /// Calls the validating phase of the plugins, in order.
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
