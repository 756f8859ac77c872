//! [`Api`]: what every request handler works with.

use std::sync::Arc;

use listwatch_storage::Engine;
use listwatch_wire::{Revision, Status};

use crate::admission::{Chain, webhook};
use crate::allocate::services::Allocator;
use crate::auth::{Authenticator, Authorizer, Impersonator};
use crate::cache::Cache;
use crate::observe::Metrics;
use crate::options::Options;
use crate::pipeline::heavy::Heavy;
use crate::registry::Registry;
use crate::registry::custom::Hashes;
use crate::registry::recent::Recent;

/// What every request handler works with: the store, the state, the kinds, and the rules for using them.
#[derive(Debug)]
pub struct Api {
    /// The durable store. Writes go here; the cache follows.
    pub engine: Arc<dyn Engine>,
    /// The current state of everything.
    pub cache: Arc<Cache>,
    /// Which kinds exist.
    pub registry: Registry,
    /// Who asks.
    pub authenticator: Authenticator,
    /// Whether they may.
    pub authorizer: Arc<dyn Authorizer>,
    /// What may change or reject a write.
    pub(crate) admission: Chain,
    /// Who may act as whom.
    pub(crate) impersonator: Impersonator,
    /// Connections to webhooks.
    pub(crate) webhooks: webhook::client::Client,
    /// How the server is set up.
    pub options: Options,
    /// Which addresses and ports Services were given lately.
    pub(crate) allocator: Allocator,
    /// What the documents of custom kinds hash to.
    pub(crate) openapi: Hashes,
    /// Where large objects are worked on.
    pub(crate) heavy: Heavy,
    /// What was written lately.
    pub(crate) recent: Recent,
    /// What is counted.
    pub metrics: Metrics,
}

impl Api {
    /// Waits until the cache is as new as asked for, at most as long as requests may wait for a version.
    pub(crate) async fn wait_for(&self, version: Option<Revision>) -> Result<(), Status> {
        self.cache.wait_until_fresh(version, self.options.requests.version_wait).await
    }
}
