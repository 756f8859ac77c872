//! [`Server`] and [`Handle`]: starting and stopping all modules of the server.
//!
//! The order of [`Server::start`] matters. The listener is bound first, so that the port is known for certificates
//! and the `kubernetes` Service; the cache is loaded before anything reads it; definitions are restored and bootstrap
//! objects written before the first connection is accepted. A client that can connect therefore finds a complete
//! server, and an error leaves nothing running. Every background task is registered: one that ends early fails its
//! health check and [`Handle::failed`].
//!
//! Shutdown is the reverse: no new connections, watches end with a bookmark, requests finish within [`DRAIN`], then
//! tasks are aborted and the engine is closed. Flags and signals are `listwatch serve`'s.

mod nodes;
mod parts;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_storage::Engine;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::parts::{admin_token, audit_log, blocking_pool, listen_on, token_keys, tokens};
use crate::admission::chain;
use crate::allocate::claims::ServiceClaims;
use crate::allocate::ranges::AddedRanges;
use crate::allocate::reservation::Allocator;
use crate::allocate::services::KUBERNETES_ADDRESS;
use crate::api::streams::OpenStreams;
use crate::api::{Api, OpenApiDocuments, RecentTemplates, UserMemory};
use crate::auth::x509::ClientCertificates;
use crate::auth::{Authenticator, Impersonator, MASTERS, Modes, Oidc, ServiceAccounts, TokenWebhook};
use crate::cache::Cache;
use crate::chain::service::Service;
use crate::endpoints::health::FEEDER;
use crate::fairness::Fairness;
use crate::http::gzip;
use crate::identity::addresses;
use crate::identity::authority::{Authority, Issued};
use crate::identity::secrets::SecretStore;
use crate::lifecycle;
use crate::lifecycle::api_services::ApiServices;
use crate::lifecycle::definitions::Definitions;
use crate::lifecycle::first_objects;
use crate::listen;
use crate::listen::tls::{CertificateSource, Tls};
use crate::observe::ServerMetrics;
use crate::options::{Options, Security};
use crate::outbound::WebhookClient;
use crate::outbound::tls::FrontProxyIdentity;
use crate::registry::Registry;
use crate::registry::custom::Hashes;
use crate::{Error, files};

/// The longest time for connections to finish once the server stops: a slow client must not keep it alive.
/// Watches end at once, so this is for requests under way.
const DRAIN: Duration = Duration::from_secs(10);

/// The name of the administrator that a server makes.
const ADMIN: &str = "kubernetes-admin";

/// Starts servers. It holds nothing: what runs belongs to the [`Handle`].
#[doc(alias = "GenericAPIServer")]
#[doc(alias = "kube-apiserver")]
#[derive(Clone, Copy, Debug)]
pub struct Server;

/// A running server. Dropping it stops the server at once; [`Handle::shutdown`] does so gracefully.
pub struct Handle {
    /// The address listened on.
    address: SocketAddr,
    /// The CA of the serving certificate; `None` for plain HTTP.
    ca_pem: Option<String>,
    admin_token: String,
    /// A client certificate of the administrator, made at each start.
    admin_certificate: Issued,
    api: Arc<Api>,
    /// Cancelled when the server stops; everything that runs holds a clone.
    stop: CancellationToken,
    /// Tracks connections, so that shutdown can wait for them.
    connections: TaskTracker,
    /// The background tasks, aborted at the end of a shutdown or when the handle is dropped.
    tasks: Vec<tokio::task::AbortHandle>,
}

impl std::fmt::Debug for Handle {
    /// Without the administrator's token and key, which have no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server on an engine. When this returns it is listening and its cache is loaded.
    ///
    /// # Errors
    /// See [`Error`]; nothing is left running.
    pub async fn start(options: Options, engine: Arc<dyn Engine>) -> Result<Handle, Error> {
        // Boxed: it holds the options several times, and callers would hold it all.
        Box::pin(Self::assemble(options, engine)).await
    }

    async fn assemble(options: Options, engine: Arc<dyn Engine>) -> Result<Handle, Error> {
        options.admission.check()?;
        let tokens = tokens(&options)?;
        let listener = listen_on(options.bind)?;
        let address =
            listener.local_addr().map_err(|source| Error::Bind { address: options.bind, source })?;
        let secrets = SecretStore::new(&options, &engine);
        let authority = Authority::load_or_make(&secrets).await?;
        let names = addresses::names(
            address,
            options.serving.advertise,
            KUBERNETES_ADDRESS.into(),
            &options.serving.names,
        );
        let admin = admin_token(&secrets).await?;
        let admin_token = admin.secret.clone();
        let admin_certificate = authority.client(ADMIN, MASTERS)?;
        let nodes = nodes::connections(&options.nodes, &authority)?;
        let front_proxy = Authority::front_proxy(&secrets).await?;
        let forwarding = front_proxy.client(first_objects::FRONT_PROXY, "")?;
        let forwarding =
            FrontProxyIdentity::read(&forwarding.certificate, &forwarding.key).map_err(Error::Tls)?;
        let trusted = first_objects::Authorities {
            clients: authority.certificate.clone(),
            front_proxy: front_proxy.certificate,
        };
        let client_ca = options.identity.client_ca_file.as_deref().map(files::read).transpose()?;
        let roots: Vec<&str> =
            std::iter::once(&authority.certificate).chain(&client_ca).map(String::as_str).collect();
        let clients = ClientCertificates::new(&roots)?;
        let (source, ca_pem) = match &options.security {
            Security::InsecureHttp => (None, None),
            Security::Files { certificate, key, ca } => {
                let source = CertificateSource::Files { certificate: certificate.clone(), key: key.clone() };
                (Some(source), Some(files::read(ca)?))
            }
            Security::SelfMade { .. } => {
                let ca = authority.certificate.clone();
                (Some(CertificateSource::Issued(authority, names)), Some(ca))
            }
        };
        let tls =
            source.as_ref().map(|source| Tls::new(source, Arc::clone(clients.verifier()))).transpose()?;
        let audit = options.audit.as_ref().map(audit_log).transpose()?;
        let cache = Arc::new(Cache::new(Arc::clone(&engine), options.cache));
        let registry = Registry::builtin(&cache);
        let (signing, former) = token_keys(&options, &secrets).await?;
        let issuers = options.identity.oidc.iter().cloned().map(Oidc::new);
        let oidc: Vec<_> = issuers.collect::<Result<_, _>>().map_err(Error::Identity)?;
        let webhook = options.identity.token_webhook.clone().map(TokenWebhook::new);
        let webhook = webhook.transpose().map_err(Error::Identity)?;
        let authenticator =
            Authenticator::new(tokens.into_iter().chain([admin]).collect(), options.anonymous)
                .with_service_accounts(ServiceAccounts::new(signing, former, &cache))
                .with_client_certificates(clients)
                .with_others(oidc.clone(), webhook);
        let modes = options.authorization.iter().map(|mode| mode.authorizer(&cache));
        let authorizer = Arc::new(Modes(modes.collect()));
        let feeder = cache.start().await?;
        let fairness = Fairness::new(&cache, &options.requests);
        let allocator = Allocator::new(ServiceClaims::new(&cache), AddedRanges::new(&cache));
        let api = Arc::new(Api {
            engine,
            cache,
            registry,
            authenticator,
            authorizer,
            impersonator: Impersonator::default(),
            audit,
            admission: chain(&options.admission),
            webhooks: WebhookClient::new(options.admission.webhooks),
            documents: OpenApiDocuments::default(),
            bodies: UserMemory::new(options.requests.bodies_bytes, options.requests.user_bodies_bytes),
            templates: RecentTemplates::default(),
            histories: UserMemory::new(
                options.requests.histories_bytes,
                options.requests.user_histories_bytes,
            ),
            selectors: UserMemory::new(options.watch.selector_bytes, options.watch.user_selector_bytes),
            kept_lists: Arc::new(Semaphore::new(options.requests.protobuf_lists_bytes)),
            compressors: Arc::new(Semaphore::new(options.requests.gzip_bytes / gzip::COMPRESSOR)),
            blocking: blocking_pool(&options),
            streams: OpenStreams::default(),
            front_proxy: Some(forwarding),
            nodes,
            fairness,
            options,
            metrics: ServerMetrics::default(),
            allocator,
            openapi: Hashes::default(),
        });
        let mut definitions = Definitions::new(Arc::clone(&api));
        definitions.restore();
        let definitions = tokio::spawn(definitions.run());
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let lifecycle =
            lifecycle::start(Arc::clone(&api), address.port(), ca_pem.clone(), trusted, stop.clone());
        let lifecycle = lifecycle.await.map_err(Error::FirstObjects)?;
        let service = Arc::new(Service::new(Arc::clone(&api), stop.clone()));
        let renewal =
            tls.clone().zip(source).map(|(tls, source)| tokio::spawn(tls.renew(source, stop.clone())));
        let accept = tokio::spawn(listen::accept(listener, tls, service, stop.clone(), connections.clone()));
        let named = [("task/accept", accept), (FEEDER, feeder), ("task/definitions", definitions)];
        let api_services = tokio::spawn(ApiServices::new(Arc::clone(&api)).run(stop.clone()));
        let fairness = tokio::spawn(lifecycle::flow_control::run(Arc::clone(&api), stop.clone()));
        let turns = tokio::spawn(Arc::clone(&api.fairness.turns).run());
        let pacing = tokio::spawn(Arc::clone(&api.fairness.pacing).run());
        let pieces = tokio::spawn(Arc::clone(&api.fairness.pieces).run());
        let named = named
            .into_iter()
            .chain([
                ("task/fairness", fairness),
                ("task/turns", turns),
                ("task/pieces", pieces),
                ("task/pacing", pacing),
                ("task/api-services", api_services),
            ])
            .chain(lifecycle.map(|task| ("task/lifecycle", task)));
        let named = named.chain(renewal.map(|task| ("task/certificates", task)));
        let issuers = oidc.into_iter().map(|issuer| ("task/oidc", tokio::spawn(issuer.run(stop.clone()))));
        let named = named.chain(issuers);
        let background = &api.metrics.tasks;
        let tasks = named.map(|(name, task)| background.watch(name, task, stop.clone())).collect();
        Ok(Handle { address, ca_pem, admin_token, admin_certificate, api, stop, connections, tasks })
    }
}

impl Handle {
    /// The address that it listens on, with the port that was chosen for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL at which clients reach it: the advertised address, or loopback if it listens on all addresses.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        let address = addresses::reachable(self.address, self.api.options.serving.advertise);
        format!("{scheme}://{address}")
    }

    /// The CA of its serving certificate, in PEM, for clients to verify it with; `None` for plain HTTP.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// A bearer token of a member of `system:masters`. It is kept with the CA, so it outlives a restart unless keys
    /// are in memory only.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Returns a kubeconfig for the administrator: with a client certificate, and with a token for clients that support
    /// only tokens. It contains secrets.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> String {
        let line = |key: &str, pem: &str| format!("    {key}: {}\n", STANDARD.encode(pem));
        let ca = self.ca_pem.as_ref().map(|pem| line("certificate-authority-data", pem));
        let Issued { certificate, key } = &self.admin_certificate;
        let client = line("client-certificate-data", certificate) + &line("client-key-data", key);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: listwatch\n  cluster:\n    server: {url}\n{ca}\
             users:\n- name: admin\n  user:\n{client}    token: {token}\n\
             contexts:\n- name: listwatch\n  context:\n    cluster: listwatch\n    user: admin\n\
             current-context: listwatch\n",
            url = self.url(),
            ca = ca.unwrap_or_default(),
            client = if self.ca_pem.is_some() { client } else { String::new() },
            token = self.admin_token,
        )
    }

    /// Completes when a background task has ended that the server depends on, and returns its name. The process should
    /// end: the tasks cannot be restarted.
    pub async fn failed(&self) -> &'static str {
        self.api.metrics.tasks.first_end().await
    }

    /// The shared state of request handlers, for programs that embed the server.
    #[must_use]
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Stops gracefully: no new connections, watches end with a last bookmark, requests in flight finish, the
    /// engine is closed. It takes at most ten seconds plus the closing of the engine; connections that are still open
    /// then are dropped.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.api.cache.close();
        self.connections.close();
        if tokio::time::timeout(DRAIN, self.connections.wait()).await.is_err() {
            tracing::warn!(left = self.connections.len(), "connections did not end in time");
        }
        for task in self.tasks.drain(..) {
            task.abort();
        }
        if let Err(error) = self.api.engine.close().await {
            tracing::warn!(%error, "the store did not close properly");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
        self.api.cache.close();
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}
