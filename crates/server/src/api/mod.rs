//! [`Api`]: what request handlers share, and the interface of admission plugins.
//!
//! The plugins themselves are in `admission/`: [`Api`] holds the [`Chain`] of them, and they get the [`Api`] with
//! each request, so that the interface ([`Plugin`], [`Attributes`], [`AdmissionRecord`]) belongs below both.
//! [`stored`] reads one object for a write.

mod attributes;
pub(crate) mod blocking;
mod bodies;
mod chain;
mod components;
pub(crate) mod convert;
mod documents;
mod essential;
mod nodes;
mod plugin;
mod record;
mod reinvocation;
mod services;
mod slow_writes;
pub(crate) mod stored;
pub(crate) mod streams;
mod templates;
pub(crate) mod unreadable;
mod user_memory;

use std::sync::Arc;

use listwatch_storage::Engine;
use listwatch_wire::{Revision, Status};
use tokio::sync::Semaphore;

use crate::allocate::reservation::Allocator;
use crate::audit::AuditLog;
use crate::auth::{Authenticator, Authorization, Impersonator};
use crate::cache::Cache;
use crate::fairness::Fairness;
use crate::observe::ServerMetrics;
use crate::options::Options;
use crate::outbound::WebhookClient;
use crate::outbound::tls::FrontProxyIdentity;
use crate::registry::Registry;
use crate::registry::custom::Hashes;

pub(crate) use attributes::{Attributes, Operation, RequestOptions};
pub(crate) use blocking::{BlockingPool, UserPool};
pub(crate) use bodies::{BodyMemory, BodyReservation};
pub(crate) use chain::Chain;
pub(crate) use components::{COMPONENTS, ComponentHealth};
pub(crate) use documents::{OpenApiDocument, OpenApiDocuments};
pub use essential::is_essential;
pub(crate) use nodes::{NodeConnections, OpenConnection};
pub(crate) use plugin::Plugin;
pub(crate) use record::AdmissionRecord;
pub(crate) use slow_writes::SlowWrites;
use streams::OpenStreams;
pub(crate) use templates::{RecentTemplates, TemplateKey, TemplateObject};
pub(crate) use user_memory::{MemoryReservation, UserMemory, reserved};

/// The shared state of all request handlers: the store, the cache, the registry, and the components around them. One
/// per server, built by [`crate::Server::start`]; embedding programs reach it through [`crate::Handle::api`].
#[derive(Debug)]
pub struct Api {
    /// The durable store. Writes go here; the cache follows.
    pub engine: Arc<dyn Engine>,
    /// The watch cache, from which everything is read.
    pub cache: Arc<Cache>,
    /// The resources that are served.
    pub registry: Registry,
    /// Authenticates requests.
    pub authenticator: Authenticator,
    /// Authorizes requests.
    pub authorizer: Authorization,
    /// The admission plugins.
    pub(crate) admission: Chain,
    /// The audit log; `None` if none is configured.
    pub(crate) audit: Option<Arc<AuditLog>>,
    /// Decides about impersonation.
    pub(crate) impersonator: Impersonator,
    /// Connections to webhooks and extension API servers.
    pub(crate) webhooks: WebhookClient,
    /// Connections to kubelets, Pods and Services.
    pub(crate) nodes: NodeConnections,
    /// The client certificate that extension API servers are shown.
    pub(crate) front_proxy: Option<FrontProxyIdentity>,
    /// The configuration of the server.
    pub options: Options,
    /// Cluster IPs and node ports that are reserved for writes under way.
    pub(crate) allocator: Allocator,
    /// The hashes of the OpenAPI documents of custom kinds.
    pub(crate) openapi: Hashes,
    /// OpenAPI documents that were written lately.
    pub(crate) documents: OpenApiDocuments,
    /// API priority and fairness.
    pub(crate) fairness: Fairness,
    /// The open streams of many watches.
    pub(crate) streams: OpenStreams,
    /// The memory of request bodies.
    pub(crate) bodies: BodyMemory,
    /// Bodies of creations that came more than once lately.
    pub(crate) templates: RecentTemplates,
    /// The memory of pages of object histories.
    pub(crate) histories: UserMemory,
    /// The memory of long selectors of open watches.
    pub(crate) selectors: UserMemory,
    /// The memory of what is kept of protobuf lists, a permit per byte.
    pub(crate) kept_lists: Arc<Semaphore>,
    /// The compressors of responses, a permit each.
    pub(crate) compressors: Arc<Semaphore>,
    /// The threads that work on large objects.
    pub(crate) blocking: BlockingPool,
    /// The collections whose writes are done there, too.
    pub(crate) slow_writes: SlowWrites,
    /// The counters of the server.
    pub metrics: ServerMetrics,
}

impl Api {
    /// Waits until the cache is at least at this version, or for `None` until it has every write acknowledged before
    /// the call.
    ///
    /// # Errors
    /// 504 after `RequestLimits::version_wait`, 5xx if the store fails.
    pub(crate) async fn wait_for(&self, version: Option<Revision>) -> Result<(), Status> {
        self.cache.wait_until_fresh(version, self.options.requests.version_wait).await
    }

    /// The threads and turns for a user's work on large objects.
    pub(crate) fn blocking_for(&self, user: &str) -> UserPool {
        self.blocking.of(user, self.fairness.turns_for_pieces(user))
    }
}
