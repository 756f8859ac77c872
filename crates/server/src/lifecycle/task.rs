//! [`LifecycleTask`]: the tasks of the lifecycle controllers.
//!
//! [`super::driver`] calls the function of each task; [`super::queue`] decides when it runs.

use std::sync::Arc;

/// One piece of work, due at some time.
///
/// Hashable, so that a task that is queued already is not queued twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LifecycleTask {
    /// Decide about an object that names owners.
    Dependent(Arc<str>),
    /// Carry out foreground or orphan deletion of an owner.
    Owner(Arc<str>),
    /// Empty a namespace.
    Namespace(Arc<str>),
    /// Create the default ServiceAccount and the `kube-root-ca.crt` ConfigMap of a namespace.
    BootstrapNamespace(Arc<str>),
    /// Remove the protection of a deleted claim or volume that is not used: collection and path.
    Release(Arc<str>, Arc<str>),
    /// Write or remove the IPAddress of an address that a Service has or had: address and path of the Service.
    Address(Arc<str>, Arc<str>),
    /// Count the usage of the quotas of a namespace.
    Quotas(Arc<str>),
    /// Check the types in a policy.
    Policy(Arc<str>),
    /// Delete an event that was not written for the time that events are kept.
    Expire(Arc<str>),
}

/// The result of a task that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskProgress {
    Done,
    /// It waits for other objects. Their changes queue it again; otherwise it runs again after growing delays, since not every
    /// change that matters is followed. What others may keep waiting for days must cost nothing meanwhile.
    Waits,
}
