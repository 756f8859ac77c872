//! [`Server`] and [`Handle`]: starting and stopping.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use listwatch_storage::Engine;
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::admission::chain;
use crate::allocate::services::Allocator;
use crate::api::Api;
use crate::api::Heavy;
use crate::auth::{
    Authenticator, Impersonator, Roles, ServiceAccounts, SigningKey, Token, User, parse_token_file,
};
use crate::cache::Cache;
use crate::chain::service::Service;
use crate::endpoints::health::FEEDER;
use crate::fairness::{Fairness, bootstrap};
use crate::lifecycle;
use crate::lifecycle::definitions::Definitions;
use crate::listen;
use crate::listen::tls;
use crate::observe::Metrics;
use crate::options::{Options, Security};
use crate::outbound::WebhookClient;
use crate::registry::Registry;
use crate::registry::custom::Hashes;
use crate::registry::recent::Recent;

/// How long connections may take to finish once the server stops: a slow client must not keep it alive.
const DRAIN: Duration = Duration::from_secs(10);

/// Connections the system holds for us until they are accepted: a thousand clients may come back at once.
const BACKLOG: u32 = 4096;

/// Starts servers.
#[derive(Clone, Copy, Debug)]
pub struct Server;

/// A running server. Dropping it stops the server at once; [`Handle::shutdown`] does so in good order.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    ca_pem: Option<String>,
    admin_token: String,
    api: Arc<Api>,
    stop: CancellationToken,
    connections: TaskTracker,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Server {
    /// Starts a server on an engine. When this returns it is listening and its cache is loaded.
    ///
    /// # Errors
    /// See [`Error`]; nothing is left running.
    pub async fn start(options: Options, engine: Arc<dyn Engine>) -> Result<Handle, Error> {
        options.admission.check()?;
        let tokens = tokens(&options)?;
        let listener = listen_on(options.bind)?;
        let address =
            listener.local_addr().map_err(|source| Error::Bind { address: options.bind, source })?;
        let material = tls::material(&options.security, address.ip())?;
        let admin = admin_token(&options)?;
        let admin_token = admin.secret.clone();
        let cache = Arc::new(Cache::new(Arc::clone(&engine), options.cache));
        let registry = Registry::builtin(&cache);
        let authenticator =
            Authenticator::new(tokens.into_iter().chain([admin]).collect(), options.anonymous)
                .with_service_accounts(ServiceAccounts::new(signing_key(&options)?, &cache));
        let authorizer = Roles::new(&cache);
        let feeder = cache.start().await?;
        // As in the reference a request waits for its turn a quarter of the time it has.
        let fairness = Fairness::new(&cache, options.requests.in_flight, options.requests.timeout / 4);
        let api = Arc::new(Api {
            engine,
            cache,
            registry,
            authenticator,
            authorizer,
            impersonator: Impersonator::default(),
            recent: Recent::new(options.cache.recent_bytes),
            admission: chain(&options.admission),
            webhooks: WebhookClient::new(options.admission.webhooks),
            heavy: heavy(&options),
            fairness,
            options,
            metrics: Metrics::default(),
            allocator: Allocator::default(),
            openapi: Hashes::default(),
        });
        let mut definitions = Definitions::new(Arc::clone(&api));
        definitions.restore();
        let definitions = tokio::spawn(definitions.run());
        let ca_pem = material.as_ref().map(|m| m.ca_pem.clone());
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let lifecycle = lifecycle::start(Arc::clone(&api), address.port(), ca_pem.clone(), stop.clone());
        let lifecycle = lifecycle.await.map_err(Error::FirstObjects)?;
        let service = Arc::new(Service::new(Arc::clone(&api), stop.clone()));
        let acceptor = material.as_ref().map(|m| TlsAcceptor::from(Arc::clone(&m.config)));
        let accept =
            tokio::spawn(listen::accept(listener, acceptor, service, stop.clone(), connections.clone()));
        let named = [("task/accept", accept), (FEEDER, feeder), ("task/definitions", definitions)];
        let fairness = tokio::spawn(bootstrap::run(Arc::clone(&api), stop.clone()));
        let named = named
            .into_iter()
            .chain([("task/fairness", fairness)])
            .chain(lifecycle.map(|task| ("task/lifecycle", task)));
        let background = &api.metrics.tasks;
        let tasks = named.map(|(name, task)| background.watch(name, task, stop.clone())).collect();
        Ok(Handle { address, ca_pem, admin_token, api, stop, connections, tasks })
    }
}

/// Threads for large objects: with one more than there are processors, a slow store does not leave any idle.
fn heavy(options: &Options) -> Heavy {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Heavy::new(options.requests.heavy_above, processors + 1)
}

/// Accepted connections inherit keep-alive from the listener: a client whose machine is gone never says goodbye, and a
/// quiet watch would not notice before its deadline.
fn listen_on(address: SocketAddr) -> Result<TcpListener, Error> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let listening = socket.and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.set_keepalive(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    });
    listening.map_err(|source| Error::Bind { address, source })
}

fn tokens(options: &Options) -> Result<Vec<Token>, Error> {
    let Some(path) = &options.token_file else { return Ok(Vec::new()) };
    parse_token_file(&tls::read(path)?).map_err(|problem| Error::Content { path: path.clone(), problem })
}

/// The administrator's token: kept with the CA, so that a kubeconfig written once stays good.
fn admin_token(options: &Options) -> Result<Token, Error> {
    let make = || Ok(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()));
    let secret = kept(options, "admin.token", make)?.trim().to_owned();
    let groups = vec!["system:masters".to_owned()];
    Ok(Token {
        secret,
        user: User {
            name: "kubernetes-admin".to_owned(),
            uid: "kubernetes-admin".to_owned(),
            groups,
            ..User::default()
        },
    })
}

/// The key that signs the tokens of service accounts: kept likewise, so that they outlive a restart.
fn signing_key(options: &Options) -> Result<SigningKey, Error> {
    const FILE: &str = "service-account.key";
    let pem = kept(options, FILE, || SigningKey::make_pem().map_err(Error::Tls))?;
    SigningKey::from_pem(&pem).map_err(|problem| Error::Content { path: FILE.into(), problem })
}

/// A secret that is made at the first start and found again at the next, if there is a directory to keep it in.
fn kept(
    options: &Options,
    file: &str,
    make: impl FnOnce() -> Result<String, Error>,
) -> Result<String, Error> {
    let Security::SelfMade { dir: Some(dir) } = &options.security else { return make() };
    let path = dir.join(file);
    if path.exists() {
        let secret = tls::read(&path)?;
        // A secret that everybody knows is none.
        if secret.trim().is_empty() {
            return Err(Error::Content { path, problem: "the file is empty".to_owned() });
        }
        return Ok(secret);
    }
    let secret = make()?;
    tls::write_private(&path, &secret)?;
    Ok(secret)
}

impl Handle {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The CA that vouches for it; `None` for plain HTTP.
    #[must_use]
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// A bearer token of an administrator.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// A kubeconfig for the administrator.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> String {
        let ca = self
            .ca_pem
            .as_ref()
            .map(|pem| format!("    certificate-authority-data: {}\n", STANDARD.encode(pem)));
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: listwatch\n  cluster:\n    server: {url}\n{ca}\
             users:\n- name: admin\n  user:\n    token: {token}\n\
             contexts:\n- name: listwatch\n  context:\n    cluster: listwatch\n    user: admin\n\
             current-context: listwatch\n",
            url = self.url(),
            ca = ca.unwrap_or_default(),
            token = self.admin_token,
        )
    }

    /// Completes when a background task has ended that the server cannot go on without; its name. The process should end.
    pub async fn failed(&self) -> &'static str {
        self.api.metrics.tasks.first_end().await
    }

    /// What request handlers work with, for programs that embed the server.
    #[must_use]
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Stops in good order: no new connections, watches end properly, requests are finished, the engine is closed.
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
