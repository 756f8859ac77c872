//! Controllers inside the server: bootstrap objects, deletion of namespaces, garbage collection, expiry of events.
//!
//! In a cluster most of this is the work of a controller manager; a server without one would keep terminating namespaces and
//! orphans for ever. Everything here can be switched off ([`LifecycleOptions`](crate::LifecycleOptions)), and then the server is
//! only the API.
//!
//! * [`bootstrap`] writes the bootstrap objects, once, before the server listens. [`flow_control`] maintains those of
//!   API priority and fairness.
//! * [`driver`] follows the engine's log and keeps a queue of what is to be done when ([`queue`]); one task, one piece of work at
//!   a time.
//! * [`definitions`] serves custom kinds as their definitions come and go; it is no option. [`known`] is what it has
//!   read of them.
//! * [`api_services`] looks after extension API servers; it is no option either.
//! * [`policies`] checks the types in policies.
//! * [`quotas`] counts what resource quotas limit. [`addresses`] writes the IPAddress objects of Services.
//! * [`graph`] knows who depends on whom; [`garbage`] acts on it. [`namespaces`] empties namespaces.

mod addresses;
pub(crate) mod api_services;
mod bootstrap;
mod bootstrap_policy;
pub(crate) mod definitions;
mod driver;
mod extension_documents;
pub(crate) mod first_objects;
pub(crate) mod flow_control;
mod garbage;
mod graph;
mod known;
mod namespaces;
mod place;
mod policies;
mod protection;
mod queue;
mod quotas;
mod task;

use std::sync::Arc;

use listwatch_wire::Status;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::lifecycle::first_objects::Authorities;

/// Writes the bootstrap objects and starts following the log.
///
/// # Errors
/// If the first objects cannot be written.
///
/// Called before the server listens: a client never sees a server without its system namespaces and bootstrap roles.
/// The handle is that of the task which follows the log; `None` if nothing needs it.
pub(crate) async fn start(
    api: Arc<Api>,
    port: u16,
    ca_pem: Option<String>,
    trusted: Authorities,
    stop: CancellationToken,
) -> Result<Option<JoinHandle<()>>, Status> {
    let options = api.options.lifecycle;
    if options.first_objects {
        bootstrap::write(&api, port, ca_pem.as_deref(), &trusted).await?;
        // Roles and flow schemas are seldom written again: their trees would be a megabyte of an idle server.
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
