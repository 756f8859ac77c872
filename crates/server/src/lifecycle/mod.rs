//! Controllers inside the server: bootstrap objects, deletion of namespaces, garbage collection, expiry of events.
//!
//! In a cluster, kube-controller-manager does most of this; a server without it would keep terminating namespaces and
//! orphans for ever. Almost all of it can be disabled ([`LifecycleOptions`](crate::LifecycleOptions)).
//!
//! * [`bootstrap`] writes the bootstrap objects, once, before the server listens. [`flow_control`] maintains those of
//!   API priority and fairness.
//! * [`driver`] follows the engine's log and runs queued tasks ([`queue`]), those of different namespaces at the same time
//!   ([`lanes`]).
//! * [`definitions`] serves custom kinds as their definitions are created and deleted; it always runs. [`known`] caches
//!   compiled definitions.
//! * [`api_services`] checks extension API servers; it always runs, too. [`custom_groups`] writes the APIServices of
//!   custom kinds.
//! * [`policies`] checks the types in policies.
//! * [`quotas`] recalculates the usage of ResourceQuotas. [`addresses`] writes the IPAddress objects of Services.
//! * [`graph`] has dependents by owner; [`garbage`] deletes them. [`namespaces`] empties namespaces.

mod addresses;
pub(crate) mod api_services;
mod bootstrap;
mod bootstrap_policy;
mod custom_groups;
pub(crate) mod definitions;
mod driver;
mod extension_documents;
mod finalizers;
pub(crate) mod first_objects;
pub(crate) mod flow_control;
mod garbage;
mod graph;
mod known;
mod lanes;
mod namespaces;
mod place;
mod policies;
mod protection;
mod queue;
mod quotas;
mod task;
mod words;

use std::sync::Arc;

use listwatch_wire::Status;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::lifecycle::first_objects::Authorities;

/// Writes the bootstrap objects and starts following the log.
///
/// Called before the server listens: a client never sees a server without its system namespaces and bootstrap roles.
/// The handle is that of the task which follows the log; `None` if nothing needs it.
///
/// # Errors
/// If the bootstrap objects cannot be written.
pub(crate) async fn start(
    api: Arc<Api>,
    port: u16,
    ca_pem: Option<String>,
    trusted: Authorities,
    stop: CancellationToken,
) -> Result<Option<JoinHandle<()>>, Status> {
    let options = api.options.lifecycle;
    if options.first_objects {
        Box::pin(bootstrap::write(&api, port, ca_pem.as_deref(), &trusted)).await?;
        api.cache.trees.clear();
    }
    let idle = !options.empty_namespaces
        && !options.collect_garbage
        && !options.quota_status
        && !options.policy_status
        && !options.storage_protection
        && !options.service_addresses
        && options.event_ttl.is_none()
        && options.namespace_objects == crate::NamespaceObjects::Never;
    if idle {
        return Ok(None);
    }
    Ok(Some(tokio::spawn(driver::Driver::new(api, ca_pem).run(stop))))
}
