//! [`LifecycleOptions`]: the controllers that run inside the server.
//!
//! They do the part of kube-controller-manager's work without which an API server alone is of little use: deletion of
//! namespaces, garbage collection, expiry of events. Each can be disabled; disable all when kube-controller-manager runs beside
//! the server.

use std::time::Duration;

/// The controllers that run inside the server. In a cluster most of this is done by kube-controller-manager: switch
/// off what it does.
///
/// ```
/// use listwatch_server::LifecycleOptions;
///
/// // Only the API, and events that expire: the rest is kube-controller-manager's.
/// let beside_a_controller_manager = LifecycleOptions {
///     event_ttl: LifecycleOptions::default().event_ttl,
///     ..LifecycleOptions::off()
/// };
/// assert!(beside_a_controller_manager.event_ttl.is_some());
/// assert!(!beside_a_controller_manager.collect_garbage);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleOptions {
    /// Writes the bootstrap objects at the start: namespaces, RBAC roles, the `kubernetes` Service. Default true:
    /// without them only administrators have permissions.
    pub first_objects: bool,
    /// The time at which namespaces get their default ServiceAccount and `kube-root-ca.crt`.
    pub namespace_objects: NamespaceObjects,
    /// Empties deleted namespaces and removes their finalizer.
    pub empty_namespaces: bool,
    /// Collects garbage: deletes dependents whose owners no longer exist.
    pub collect_garbage: bool,
    /// Removes the protection finalizer of deleted claims and volumes that are not in use.
    pub storage_protection: bool,
    /// Recalculates the status of ResourceQuotas when objects are deleted.
    pub quota_status: bool,
    /// Maintains the IPAddress objects of Service addresses.
    pub service_addresses: bool,
    /// Expressions of ValidatingAdmissionPolicies are type-checked, with warnings in their status.
    pub policy_status: bool,
    /// The time after its last change at which an Event is deleted (`--event-ttl`); `None` keeps them. Default 1 h,
    /// as in kube-apiserver.
    pub event_ttl: Option<Duration>,
    /// The delay before a change is acted on, so that a client still sees the deletion mark of what it deleted, and
    /// owners may be written after their dependents. Default 2 s.
    pub settle: Duration,
}

impl LifecycleOptions {
    /// All controllers off: only the API.
    #[must_use]
    pub fn off() -> Self {
        Self {
            first_objects: false,
            namespace_objects: NamespaceObjects::Never,
            empty_namespaces: false,
            collect_garbage: false,
            quota_status: false,
            policy_status: false,
            storage_protection: false,
            service_addresses: false,
            event_ttl: None,
            settle: Duration::ZERO,
        }
    }
}

impl Default for LifecycleOptions {
    fn default() -> Self {
        Self {
            first_objects: true,
            namespace_objects: NamespaceObjects::WithFirstPod,
            empty_namespaces: true,
            collect_garbage: true,
            quota_status: true,
            policy_status: true,
            storage_protection: true,
            service_addresses: true,
            event_ttl: Some(Duration::from_secs(3600)),
            settle: Duration::from_secs(2),
        }
    }
}

/// The time at which a namespace gets its default ServiceAccount and the CA bundle for its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceObjects {
    /// Not at all.
    Never,
    /// With the first Pod, which is what uses them: a namespace that only holds other objects stays as it was made.
    WithFirstPod,
    /// When it is created, as in a cluster with a controller manager.
    AtOnce,
}
