//! Parts of the server that are made from options and files at its start, before anything is served.
//!
//! An error here ends the start with nothing running. The order in which they are needed is [`super::Server::start`]'s;
//! certificates are [`crate::identity`]'s.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::net::{TcpListener, TcpSocket};

use super::credentials::ADMIN;
use crate::api::BlockingPool;
use crate::audit::{self, AuditLog};
use crate::auth::{MASTERS, Oidc, SigningKey, Token, TokenWebhook, User, VerifyingKey, parse_token_file};
use crate::identity::secrets::SecretStore;
use crate::options::{AuditOptions, Options};
use crate::{Error, files};

/// Connections the system holds for us until they are accepted: a thousand clients may come back at once.
const BACKLOG: u32 = 4096;

/// Threads for large objects: with one more than there are processors, a slow store does not leave any idle.
pub(super) fn blocking_pool(options: &Options) -> BlockingPool {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    BlockingPool::new(options.requests.heavy_above, processors + 1)
}

/// Accepted connections inherit keep-alive from the listener: a client whose machine disappears sends nothing, and an
/// idle watch would not notice before its deadline.
///
/// # Errors
///
/// The address cannot be bound, with the address in the message.
pub(super) fn listen_on(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let listening = socket.and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.set_keepalive(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    });
    listening.map_err(|source| Error::Bind { address, source })
}

/// Reads the token file, if there is one.
///
/// # Errors
///
/// A file that cannot be read, or a line that is not a token.
pub(super) fn tokens(options: &Options) -> Result<Vec<Token>, Error> {
    let Some(path) = &options.token_file else { return Ok(Vec::new()) };
    parse_token_file(&files::read(path)?).map_err(|problem| Error::Content { path: path.clone(), problem })
}

/// The administrator's token: kept with the CA, so that a kubeconfig written once stays valid.
///
/// Compared with a client certificate it never expires, which is why both are in the kubeconfig: tools choose what
/// they can.
pub(super) async fn admin_token(secrets: &SecretStore) -> Result<Token, Error> {
    let make = || Ok(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()));
    let secret = secrets.secret("admin.token", make).await?.trim().to_owned();
    let groups = vec![MASTERS.to_owned()];
    Ok(Token {
        secret,
        user: User { name: ADMIN.to_owned(), uid: ADMIN.to_owned(), groups, ..User::default() },
    })
}

/// The key that signs the tokens of service accounts, kept likewise so that they outlive a restart, and those that signed before.
pub(super) async fn token_keys(
    options: &Options,
    secrets: &SecretStore,
) -> Result<(SigningKey, Vec<VerifyingKey>), Error> {
    const NAME: &str = "service-account.key";
    let (path, pem) = match &options.identity.signing_key_file {
        Some(path) => (path.clone(), files::read(path)?),
        None => (NAME.into(), secrets.secret(NAME, || SigningKey::make_pem().map_err(Error::Tls)).await?),
    };
    let signing = SigningKey::from_pem(&pem).map_err(|problem| Error::Content { path, problem })?;
    let former = options.identity.key_files.iter().map(|path| {
        VerifyingKey::from_pem(&files::read(path)?)
            .map_err(|problem| Error::Content { path: path.clone(), problem })
    });
    Ok((signing, former.collect::<Result<_, _>>()?))
}

/// The OpenID Connect issuers whose tokens are accepted.
///
/// # Errors
///
/// An issuer that cannot be used as it is configured.
pub(super) fn oidc_issuers(options: &Options) -> Result<Vec<Arc<Oidc>>, Error> {
    options.identity.oidc.iter().cloned().map(Oidc::new).collect::<Result<_, _>>().map_err(Error::Identity)
}

/// The webhook that authenticates tokens of no other authenticator, if there is one.
///
/// # Errors
///
/// A kubeconfig of the webhook that cannot be read or used.
pub(super) fn token_webhook(options: &Options) -> Result<Option<Arc<TokenWebhook>>, Error> {
    let webhook = options.identity.token_webhook.clone().map(TokenWebhook::new);
    webhook.transpose().map_err(Error::Identity)
}

/// Opens the audit log before anything is served, so that no request goes unrecorded.
///
/// # Errors
///
/// A policy that cannot be used, or a log file that cannot be opened.
pub(super) fn audit_log(options: &AuditOptions) -> Result<Arc<AuditLog>, Error> {
    let path = &options.policy_file;
    let policy = audit::AuditPolicy::parse(&files::read(path)?);
    let policy = policy.map_err(|problem| Error::Content { path: path.clone(), problem })?;
    AuditLog::open(policy, options)
}
