//! [`TokenWebhook`]: authentication by an external service (`--authentication-token-webhook-config-file`), with a
//! TokenReview per unknown token.
//!
//! The webhook is called in `prepare`, before authentication; authentication itself finds the answer in [`crate::auth::answers`] and
//! never waits. The number of concurrent calls, the time of a call with all retries and the size of an answer are
//! bounded, because any client can send tokens. A failure is cached for a second only, so that the webhook is called
//! again soon. Tokens are known by their [`digests`] only.

mod digests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::digests::TokenDigests;
use crate::auth::User;
use crate::auth::answers::{Answers, CachedVerdict};
use crate::outbound::{CallError, FIRST_PAUSE, Remote, WebhookClient, WebhookLimits, with_retries};

/// A token authentication webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWebhookOptions {
    /// A kubeconfig that says where it is and how this server proves itself to it.
    pub config_file: PathBuf,
    /// The version of TokenReview that is sent.
    pub version: ReviewVersion,
    /// The time for which an answer is cached; zero for no longer than the request.
    pub cache_ttl: Duration,
    /// Verdicts that are cached, of accepted and of rejected tokens separately: invented tokens must not push out
    /// those of users.
    pub answers: usize,
    /// Bytes of these verdicts, again of each sort.
    pub answers_bytes: usize,
    /// Calls at the same time. More wait, so that invented tokens cannot overload the webhook.
    pub concurrent: usize,
    /// The longest time for an answer, with all retries.
    pub timeout: Duration,
}

impl TokenWebhookOptions {
    /// The defaults of kube-apiserver: `v1beta1` reviews, verdicts cached for two minutes.
    #[must_use]
    pub fn new(config_file: PathBuf) -> Self {
        Self {
            config_file,
            version: ReviewVersion::V1beta1,
            cache_ttl: Duration::from_secs(120),
            answers: 16_384,
            answers_bytes: 32 << 20,
            concurrent: 100,
            timeout: Duration::from_secs(10),
        }
    }
}

/// The version of the reviews that a webhook receives (`--authentication-token-webhook-version`,
/// `--authorization-webhook-version`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authentication.k8s.io/v1`, `authorization.k8s.io/v1`.
    V1,
    /// `authentication.k8s.io/v1beta1`, `authorization.k8s.io/v1beta1`.
    V1beta1,
}

impl std::str::FromStr for ReviewVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1beta1),
            _ => Err("v1 and v1beta1 are known".to_owned()),
        }
    }
}

impl ReviewVersion {
    /// The `apiVersion` of reviews of a group.
    pub(super) fn of(self, group: &str) -> String {
        match self {
            Self::V1 => format!("{group}/v1"),
            Self::V1beta1 => format!("{group}/v1beta1"),
        }
    }
}

/// Bytes of an answer: a user with all groups.
const ANSWER_BYTES: usize = 1 << 20;
/// Bytes of a reason that are kept.
const REASON_BYTES: usize = 1 << 10;
/// Connections that are kept.
const CONNECTIONS: usize = 8;

/// The user of a token and its audiences, or the reason why it is rejected.
pub(super) type TokenVerdict = Result<(Arc<User>, Vec<String>), String>;

impl CachedVerdict for TokenVerdict {
    fn is_positive(&self) -> bool {
        self.is_ok()
    }

    fn bytes(&self) -> usize {
        let (user, audiences) = match self {
            Ok(accepted) => accepted,
            Err(why) => return why.len(),
        };
        let all = |texts: &[String]| texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
        let extra: usize = user.extra.iter().map(|(key, values)| key.len() + all(values)).sum();
        user.name.len() + user.uid.len() + all(&user.groups) + extra + all(audiences)
    }
}

/// The webhook, its connections and its cached answers. Shared by all requests.
#[doc(alias = "WebhookTokenAuthenticator")]
#[derive(Debug)]
pub(crate) struct TokenWebhook {
    remote: Remote,
    client: WebhookClient,
    options: TokenWebhookOptions,
    /// Bounds the calls at one time, by [`TokenWebhookOptions::concurrent`].
    slots: Semaphore,
    digests: TokenDigests,
    answers: Answers<TokenVerdict>,
}

/// The part of the answer that is read; the rest is ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenReview {
    status: ReviewStatus,
}

/// Without `authenticated` the user is not looked at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    authenticated: bool,
    user: ReviewUser,
    audiences: Vec<String>,
    error: String,
}

/// The user as the webhook names it, prefixes and all.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewUser {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: std::collections::BTreeMap<String, Vec<String>>,
}

impl TokenWebhook {
    /// Reads the kubeconfig; the webhook is not called yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub(crate) fn new(options: TokenWebhookOptions) -> Result<Arc<Self>, String> {
        let limits = WebhookLimits {
            response_bytes: ANSWER_BYTES,
            idle_connections: CONNECTIONS,
            ..WebhookLimits::default()
        };
        Ok(Arc::new(Self {
            remote: Remote::from_kubeconfig(&options.config_file)?,
            client: WebhookClient::new(limits),
            slots: Semaphore::new(options.concurrent),
            digests: TokenDigests::new(),
            answers: Answers::new(options.answers, options.answers_bytes),
            options,
        }))
    }

    /// The cached answer about the token for these audiences, if it still counts.
    pub(crate) fn cached(&self, token: &str, audiences: &[&str]) -> Option<TokenVerdict> {
        self.answers.get(&self.digests.of(token, audiences), Instant::now())
    }

    /// Calls the webhook unless the answer is cached. A missing answer is kept for this one request.
    ///
    /// The time limit includes waiting for one of the slots, so that a webhook that hangs delays a request by that time
    /// at most. Two concurrent requests with one unknown token both call it.
    pub(crate) async fn prepare(&self, token: &str, audiences: &[&str]) {
        if self.cached(token, audiences).is_some() {
            return;
        }
        let asked = tokio::time::timeout(self.options.timeout, self.ask(token, audiences)).await;
        let ttl = self.options.cache_ttl.max(ONE_REQUEST);
        match asked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())) {
            Ok(verdict) => self.put(token, audiences, verdict, ttl),
            Err(why) => {
                tracing::warn!(why, "the webhook for tokens does not answer");
                self.put(token, audiences, Err(why), ONE_REQUEST);
            }
        }
    }

    fn put(&self, token: &str, audiences: &[&str], verdict: TokenVerdict, ttl: Duration) {
        self.answers.put(self.digests.of(token, audiences), verdict, Instant::now() + ttl);
    }

    /// Asks, again and again if need be.
    ///
    /// Retried are failures of the call, never a verdict, and no code that would come again: a webhook that answers 401 to invented
    /// tokens would have all slots taken by them. Number and pauses are those of kube-apiserver's webhooks, without
    /// their jitter.
    async fn ask(&self, token: &str, audiences: &[&str]) -> Result<TokenVerdict, String> {
        let _slot = self.slots.acquire().await.map_err(|error| error.to_string())?;
        let body: Bytes = json!({
            "apiVersion": self.options.version.of("authentication.k8s.io"), "kind": "TokenReview",
            "metadata": {}, "spec": {"token": token, "audiences": audiences}, "status": {"user": {}},
        })
        .to_string()
        .into();
        let call = || self.remote.post(&self.client, body.clone());
        let answer = with_retries(FIRST_PAUSE, call, |error| !matches!(error, CallError::Refused(_))).await;
        read(&answer.map_err(CallError::into_text)?, audiences)
    }
}

/// Long enough for the request that asked to find the answer.
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// Reads the answer to a TokenReview.
///
/// # Errors
/// The answer is no TokenReview: the call failed, which is not a verdict.
fn read(answer: &[u8], wanted: &[&str]) -> Result<TokenVerdict, String> {
    let review: TokenReview =
        serde_json::from_slice(answer).map_err(|_| "the answer is no TokenReview".to_owned())?;
    let ReviewStatus { authenticated, user, audiences, error } = review.status;
    if !authenticated {
        let why = if error.is_empty() { crate::auth::UNKNOWN_TOKEN.to_owned() } else { beginning(error) };
        return Ok(Err(why));
    }
    // An answer without audiences means this server's own.
    let told = if audiences.is_empty() { vec![crate::auth::ISSUER.to_owned()] } else { audiences };
    let meant: Vec<String> =
        told.into_iter().filter(|audience| wanted.contains(&audience.as_str())).collect();
    if meant.is_empty() || user.username.is_empty() {
        return Ok(Err(crate::auth::UNKNOWN_TOKEN.to_owned()));
    }
    let ReviewUser { username, uid, mut groups, extra } = user;
    if !groups.iter().any(|group| group == "system:authenticated") {
        groups.push("system:authenticated".to_owned());
    }
    Ok(Ok((Arc::new(User { name: username, uid, groups, extra }), meant)))
}

/// The beginning of a reason. A webhook may repeat the token in it, and any client can send long tokens.
fn beginning(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(REASON_BYTES));
    why.shrink_to_fit();
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: serde_json::Value, wanted: &[&str]) -> Result<(String, String), String> {
        let answer = json!({"status": status}).to_string();
        let verdict = read(answer.as_bytes(), wanted).unwrap();
        verdict.map(|(user, audiences)| (user.name.clone(), audiences.join(",")))
    }

    #[test]
    fn an_answer_counts_for_the_audiences_it_names() {
        let here = crate::auth::ISSUER;
        let jane = json!({"authenticated": true, "user": {"username": "jane"}});
        assert_eq!(verdict(jane.clone(), &[here]), Ok(("jane".to_owned(), here.to_owned())));
        assert!(verdict(jane, &["vault"]).is_err(), "it was not said to be for the vault");
        let vault = json!({"authenticated": true, "user": {"username": "jane"}, "audiences": ["vault", "x"]});
        assert_eq!(verdict(vault.clone(), &["vault"]), Ok(("jane".to_owned(), "vault".to_owned())));
        assert!(verdict(vault, &[here]).is_err());
    }

    #[test]
    fn unclear_answers_of_the_webhook_do_not_authenticate() {
        for status in [
            json!({}),
            json!({"authenticated": false, "user": {"username": "jane"}}),
            json!({"authenticated": true}),
            json!({"authenticated": true, "user": {"username": ""}}),
            json!({"authenticated": false, "error": "revoked"}),
        ] {
            assert!(verdict(status.clone(), &[crate::auth::ISSUER]).is_err(), "{status}");
        }
        assert!(read(b"{\"status\": {\"authenticated\": \"true\"}}", &[]).is_err());
        assert!(read(b"<html>", &[]).is_err());
        let long = "é".repeat(REASON_BYTES);
        let why =
            verdict(json!({"authenticated": false, "error": long}), &[crate::auth::ISSUER]).unwrap_err();
        assert_eq!(why.len(), REASON_BYTES);
    }
}
