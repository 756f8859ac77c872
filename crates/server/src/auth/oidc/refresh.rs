//! Fetching the keys of an issuer: at the start, every 15 minutes, and when a token names an unknown key.
//!
//! Requests never fetch: they wake one task and wait for it, bounded by [`WAIT`]. That task fetches at most every 10
//! seconds, because anybody can send tokens that name unknown keys, and this server must not become an amplifier
//! against the issuer. Keys that were withdrawn are forgotten with the next fetch; without any keys the retry is
//! soon, since no token can be accepted. Connections are [`crate::outbound`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::keys::KeySet;
use super::{Oidc, OidcIssuer};
use crate::outbound::{ClientIdentity, Remote, WebhookClient, WebhookLimits};

/// The longest time for a fetch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest time between two fetches: any client can send tokens with unknown keys, and must not make this server call the
/// issuer each time.
const AT_MOST_EVERY: Duration = Duration::from_secs(10);
/// The interval at which keys are fetched in any case, so that withdrawn keys are dropped.
const AT_LEAST_EVERY: Duration = Duration::from_secs(15 * 60);
/// The longest wait of a request for keys that are being fetched.
const WAIT: Duration = Duration::from_secs(5);
/// Bytes of a configuration or a set of keys. Real ones have a few KB.
const MAX_BYTES: usize = 1 << 20;

/// The parts needed to fetch keys.
#[derive(Debug)]
pub(super) struct Fetching {
    discovery: Remote,
    ca: String,
    client: WebhookClient,
    progress: watch::Sender<Progress>,
}

/// The progress of fetching.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// Keys are being fetched, or will be when the task runs.
    Running,
    /// They were fetched then, or could not be.
    Ended(Instant),
}

/// The fields of a discovery document that are needed. `issuer` must be the configured one, or another issuer behind
/// the same address could lend its keys.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Fetching {
    /// Prepares the requests to an issuer: bounded responses, one idle connection.
    pub(super) fn new(issuer: &OidcIssuer) -> Result<Self, String> {
        let limits =
            WebhookLimits { response_bytes: MAX_BYTES, idle_connections: 1, ..WebhookLimits::default() };
        Ok(Self {
            discovery: Remote::new(&issuer.discovery(), &issuer.ca, &ClientIdentity::default())?,
            ca: issuer.ca.clone(),
            client: WebhookClient::new(limits),
            progress: watch::Sender::new(Progress::Running),
        })
    }

    /// Two calls: the discovery document and the keys that it names, on a connection that is kept between them.
    async fn fetch(&self, issuer: &OidcIssuer) -> Result<KeySet, String> {
        let discovery: Discovery = read(&self.discovery.get(&self.client).await?)?;
        if discovery.issuer != issuer.url {
            return Err(format!("it says that it is {:?}", discovery.issuer));
        }
        let keys = Remote::new(&discovery.jwks_uri, &self.ca, &ClientIdentity::default())?;
        KeySet::parse(&keys.get(&self.client).await?)
    }
}

fn read<T: serde::de::DeserializeOwned>(text: &Bytes) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

impl Oidc {
    /// Keeps the keys until the server stops.
    ///
    /// One task per issuer. An error keeps the old keys: an issuer that is down for an hour does not log out its
    /// users.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let fetched = tokio::time::timeout(TIMEOUT, self.fetching.fetch(&self.issuer)).await;
            match fetched.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                Ok(keys) => self.replace_keys(keys),
                Err(why) => {
                    tracing::warn!(issuer = self.issuer.url, why, "the keys of an issuer cannot be fetched");
                }
            }
            self.fetching.progress.send_replace(Progress::Ended(Instant::now()));
            // Without keys no token is accepted, so the retry is soon.
            let pause = if self.keys.load().is_some() { AT_LEAST_EVERY } else { AT_MOST_EVERY };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.wanted.notified() => {}
            }
            self.fetching.progress.send_replace(Progress::Running);
        }
    }

    /// Waits for new keys if the token needs them and they have not been fetched just now.
    ///
    /// Many requests may wait for one fetch. A request that finds a fetch ended less than [`AT_MOST_EVERY`] ago goes
    /// on at once, and its token is rejected.
    pub(crate) async fn prepare(&self, token: &str) {
        if !self.needs_keys(token) {
            return;
        }
        let begins = self.fetching.progress.send_if_modified(|progress| {
            let due = matches!(progress, Progress::Ended(at) if at.elapsed() >= AT_MOST_EVERY);
            if due {
                *progress = Progress::Running;
            }
            due
        });
        if begins {
            self.wanted.notify_one();
        }
        let mut progress = self.fetching.progress.subscribe();
        let ended = progress.wait_for(|progress| matches!(progress, Progress::Ended(_)));
        // After the timeout the token is rejected.
        drop(tokio::time::timeout(WAIT, ended).await);
    }
}
