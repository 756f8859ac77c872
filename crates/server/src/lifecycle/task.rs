//! [`LifecycleTask`]: the tasks of the lifecycle controllers.
//!
//! [`super::driver`] calls the function of each task; [`super::queue`] decides when it is due, and [`super::lanes`] when it
//! runs.

use std::sync::Arc;

use crate::lifecycle::graph::Uid;
use crate::lifecycle::place::split;

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

/// Tasks that wait for each other. Those of different lanes run at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// Tasks about objects of a namespace.
    Namespace(Arc<str>),
    /// Tasks about objects of a kind that has no namespaces, by collection.
    Collection(Arc<str>),
    /// Tasks about an address that one Service had before another: they depend on their order.
    Address(Arc<str>),
    /// Removal of protections: these share what they read about Pods.
    Protection,
    /// Type checks of policies: each takes long and never waits for IO.
    Policies,
}

impl Lane {
    /// The number of its tasks that run at the same time.
    pub(super) fn places(&self) -> usize {
        match self {
            Self::Namespace(_) | Self::Collection(_) => 4,
            Self::Address(_) | Self::Protection | Self::Policies => 1,
        }
    }
}

impl LifecycleTask {
    /// The lane in which the task waits.
    pub(super) fn lane(&self) -> Lane {
        match self {
            Self::Dependent(key) | Self::Owner(key) | Self::Expire(key) => lane_of(key),
            Self::Namespace(name) | Self::BootstrapNamespace(name) | Self::Quotas(name) => {
                Lane::Namespace(Arc::clone(name))
            }
            Self::Address(address, _) => Lane::Address(Arc::clone(address)),
            Self::Release(..) => Lane::Protection,
            Self::Policy(_) => Lane::Policies,
        }
    }
}

/// The lane of a stored object.
fn lane_of(key: &str) -> Lane {
    let (collection, path) = split(key).unwrap_or_default();
    match path.split_once('/') {
        Some((namespace, _)) => Lane::Namespace(namespace.into()),
        None => Lane::Collection(collection.into()),
    }
}

/// The result of a task that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskProgress {
    Done,
    /// It waits for other objects. Their changes queue it again; otherwise it runs again after growing delays, since not every
    /// change that matters is followed. What others may keep waiting for days must cost nothing meanwhile.
    Waits,
    /// Dependents block the deletion of the owner with this uid.
    Blocked(Uid),
}
