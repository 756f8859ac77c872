//! [`Server`]: starts all modules of the server, in order.
//!
//! The order of [`Server::start`] matters. The listener is bound first, so that the port is known for certificates
//! and the `kubernetes` Service; the cache is loaded before anything reads it; definitions are restored and bootstrap
//! objects written before the first connection is accepted. A client that can connect therefore finds a complete
//! server, and an error leaves nothing running. Every background task is registered: one that ends early fails its
//! health check and [`Handle::failed`].
//!
//! `credentials` are loaded, `parts` are made from the options, and a running server is its [`Handle`]. Flags and signals are
//! `listwatch serve`'s.

mod credentials;
mod handle;
mod nodes;
mod parts;

use std::sync::Arc;

use futures::future::BoxFuture;
use listwatch_storage::Engine;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::credentials::ServerCredentials;
pub use self::handle::Handle;
use self::parts::{audit_log, blocking_pool, listen_on, oidc_issuers, token_webhook, tokens};
use crate::Error;
use crate::admission::{Chain, chain};
use crate::allocate::claims::ServiceClaims;
use crate::allocate::ranges::AddedRanges;
use crate::allocate::reservation::Allocator;
use crate::api::streams::OpenStreams;
use crate::api::{
    Api, BodyMemory, NodeConnections, OpenApiDocuments, RecentTemplates, SlowWrites, UserMemory,
};
use crate::audit::AuditLog;
use crate::auth::{
    Authenticator, Authorization, BootstrapTokens, Impersonator, ServiceAccounts, follow_file,
};
use crate::cache::Cache;
use crate::chain::service::Service;
use crate::endpoints::health::FEEDER;
use crate::fairness::Fairness;
use crate::http::gzip;
use crate::lifecycle;
use crate::lifecycle::api_services::ApiServices;
use crate::lifecycle::definitions::Definitions;
use crate::listen;
use crate::listen::tls::Tls;
use crate::observe::ServerMetrics;
use crate::options::Options;
use crate::outbound::WebhookClient;
use crate::outbound::tls::FrontProxyIdentity;
use crate::registry::Registry;
use crate::registry::custom::Hashes;

/// Starts servers. It holds nothing: what runs belongs to the [`Handle`].
#[doc(alias = "GenericAPIServer")]
#[doc(alias = "kube-apiserver")]
#[derive(Clone, Copy, Debug)]
pub struct Server;

impl Server {
    /// Starts a server on an engine. When this returns it is listening and its cache is loaded.
    ///
    /// # Errors
    /// See [`Error`]; nothing is left running.
    pub async fn start(options: Options, engine: Arc<dyn Engine>) -> Result<Handle, Error> {
        Self::assembling(options, engine).await
    }

    /// Boxes the start: it holds the options several times, and callers would hold it all. The box is made by a function of this
    /// crate, because async functions are compiled in the crate that polls them, and with the start all that it spawns: the
    /// handling of requests would be compiled with the settings of the program.
    #[inline(never)]
    fn assembling(options: Options, engine: Arc<dyn Engine>) -> BoxFuture<'static, Result<Handle, Error>> {
        Box::pin(Self::assemble(options, engine))
    }

    /// Builds the parts in the order in which they need each other: credentials, cache, authentication, the shared [`Api`], the
    /// controllers, the listener. The cache is loaded before the controllers start, because they decide by what it has; requests
    /// are accepted last.
    ///
    /// # Errors
    /// Those of [`Server::start`].
    async fn assemble(options: Options, engine: Arc<dyn Engine>) -> Result<Handle, Error> {
        options.admission.check()?;
        let mut tokens = tokens(&options)?;
        let (listener, address) = listen_on(options.bind)?;
        let credentials = ServerCredentials::load(&options, &engine, address).await?;
        let ServerCredentials { admin, clients, serving, .. } = credentials;
        let (admin_token, admin_certificate) = (admin.0.secret.clone(), admin.1);
        tokens.push(admin.0);
        let (source, ca_pem) = serving.unzip();
        let tls = source.as_ref().map(|source| Tls::new(source, Arc::clone(clients.verifier())));
        let tls = tls.transpose()?;
        let audit = options.audit.as_ref().map(audit_log).transpose()?;
        let cache = Arc::new(Cache::new(Arc::clone(&engine), options.cache));
        let registry = Registry::builtin(&cache);
        let oidc = oidc_issuers(&options)?;
        let (signing, former) = credentials.token_keys;
        let authenticator = Authenticator::new(tokens, options.anonymous)
            .with_service_accounts(ServiceAccounts::new(signing, former, &cache))
            .with_client_certificates(clients)
            .with_bootstrap_tokens(options.identity.bootstrap_tokens.then(|| BootstrapTokens::new(&cache)))
            .with_others(oidc.clone(), token_webhook(&options)?);
        let authorizer = Authorization::new(&options.authorization, &cache).map_err(Error::Identity)?;
        let feeder = cache.start().await?;
        let (front_proxy, nodes) = (credentials.front_proxy, credentials.nodes);
        let admission = chain(&options.admission)?;
        let parts = ApiParts { admission, registry, authenticator, authorizer, audit, front_proxy, nodes };
        let api = Arc::new(parts.assemble(options, engine, cache));
        let definitions = restore_definitions(&api);
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let trusted = credentials.trusted;
        let lifecycle =
            lifecycle::start(Arc::clone(&api), address.port(), ca_pem.clone(), trusted, stop.clone());
        let lifecycle = lifecycle.await.map_err(Error::FirstObjects)?;
        let service = Arc::new(Service::new(Arc::clone(&api), stop.clone()));
        let renewal = tls.clone().zip(source).map(|(tls, source)| tls.renew(source, stop.clone()));
        let accept = listen::accept(listener, tls, service, stop.clone(), connections.clone());
        let tasks =
            [("task/accept", tokio::spawn(accept)), (FEEDER, feeder), ("task/definitions", definitions)]
                .into_iter()
                .chain(workers(&api, &stop))
                .chain(lifecycle.map(|task| ("task/lifecycle", task)))
                .chain(authorization_reload(&api, &stop))
                .chain(renewal.map(|task| ("task/certificates", tokio::spawn(task))))
                .chain(oidc.into_iter().map(|issuer| ("task/oidc", tokio::spawn(issuer.run(stop.clone())))));
        let tasks = tasks.map(|(name, task)| api.metrics.tasks.watch(name, task, stop.clone())).collect();
        Ok(Handle { address, ca_pem, admin_token, admin_certificate, api, stop, connections, tasks })
    }
}

/// The parts of [`Api`] that are made before the cache is loaded: making them can fail, or registers collections.
struct ApiParts {
    admission: Chain,
    registry: Registry,
    authenticator: Authenticator,
    authorizer: Authorization,
    audit: Option<Arc<AuditLog>>,
    front_proxy: FrontProxyIdentity,
    nodes: NodeConnections,
}

impl ApiParts {
    /// Adds the parts that follow from the options and the loaded cache.
    fn assemble(self, options: Options, engine: Arc<dyn Engine>, cache: Arc<Cache>) -> Api {
        let requests = &options.requests;
        Api {
            engine,
            registry: self.registry,
            authenticator: self.authenticator,
            authorizer: self.authorizer,
            impersonator: Impersonator::default(),
            audit: self.audit,
            admission: self.admission,
            webhooks: WebhookClient::new(options.admission.webhooks),
            documents: OpenApiDocuments::default(),
            bodies: BodyMemory::new(requests),
            templates: RecentTemplates::default(),
            histories: UserMemory::new(requests.histories_bytes, requests.user_histories_bytes),
            selectors: UserMemory::new(options.watch.selector_bytes, options.watch.user_selector_bytes),
            kept_lists: Arc::new(Semaphore::new(requests.protobuf_lists_bytes)),
            compressors: Arc::new(Semaphore::new(requests.gzip_bytes / gzip::COMPRESSOR)),
            blocking: blocking_pool(&options),
            slow_writes: SlowWrites::default(),
            streams: OpenStreams::default(),
            front_proxy: Some(self.front_proxy),
            nodes: self.nodes,
            fairness: Fairness::new(&cache, requests),
            allocator: Allocator::new(ServiceClaims::new(&cache), AddedRanges::new(&cache)),
            metrics: ServerMetrics::default(),
            openapi: Hashes::default(),
            options,
            cache,
        }
    }
}

/// Serves the custom kinds that are stored, and follows their definitions from then on.
fn restore_definitions(api: &Arc<Api>) -> JoinHandle<()> {
    let mut definitions = Definitions::new(Arc::clone(api));
    definitions.restore();
    tokio::spawn(definitions.run())
}

/// Follows the file of the authorizers, if they come from one.
fn authorization_reload(api: &Arc<Api>, stop: &CancellationToken) -> Option<(&'static str, JoinHandle<()>)> {
    let (path, modes) = (api.options.authorization_config.clone()?, api.options.authorization.clone());
    let follow = follow_file(api.authorizer.clone(), path, modes, stop.clone());
    Some(("task/authorization", tokio::spawn(follow)))
}

/// Starts the tasks that need nothing but the shared state. Each has the name of its health check.
fn workers(api: &Arc<Api>, stop: &CancellationToken) -> [(&'static str, JoinHandle<()>); 5] {
    let flow_control = lifecycle::flow_control::run(Arc::clone(api), stop.clone());
    [
        ("task/fairness", tokio::spawn(flow_control)),
        ("task/turns", tokio::spawn(Arc::clone(&api.fairness.turns).run())),
        ("task/pieces", tokio::spawn(Arc::clone(&api.fairness.pieces).run())),
        ("task/pacing", tokio::spawn(Arc::clone(&api.fairness.pacing).run())),
        ("task/api-services", tokio::spawn(ApiServices::new(Arc::clone(api)).run(stop.clone()))),
    ]
}
