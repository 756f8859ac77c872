//! [`AccessWebhookOptions`]: where an authorization webhook is and what it decides, from the `--authorization-webhook-*` flags or
//! from an AuthorizationConfiguration.

use std::path::PathBuf;
use std::time::Duration;

use crate::auth::ReviewVersion;

/// The name of the webhook that `--authorization-webhook-config-file` configures.
const DEFAULT_NAME: &str = "default";

/// An authorization webhook.
#[doc(alias = "WebhookConfiguration")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessWebhookOptions {
    /// Its name, in metrics.
    pub name: String,
    /// A kubeconfig that says where it is and how this server proves itself to it.
    pub config_file: PathBuf,
    /// The version of SubjectAccessReview that is sent.
    pub version: ReviewVersion,
    /// The time for which an allowing answer is cached; zero for no longer than the request.
    pub authorized_ttl: Duration,
    /// The time for which any other answer is cached.
    pub unauthorized_ttl: Duration,
    /// The longest time for an answer, with all retries.
    pub timeout: Duration,
    /// The decision if there is no answer.
    pub failure_policy: AccessFailurePolicy,
    /// Expressions that must all be true for the webhook to be called.
    pub match_conditions: Vec<String>,
    /// Verdicts that are cached, allowing and other ones separately. They are divided among groups of users, so that one user's many
    /// questions do not push out the verdicts of all others.
    pub answers: usize,
    /// Bytes of the reasons of these verdicts, again of each sort.
    pub answers_bytes: usize,
    /// Bytes of one answer.
    pub response_bytes: usize,
    /// Calls at the same time. More wait.
    pub concurrent: usize,
    /// Calls at the same time for one user, so that the requests of one do not delay those of all.
    pub user_concurrent: usize,
}

impl AccessWebhookOptions {
    /// The defaults of kube-apiserver's flags: `v1beta1` reviews, allowing verdicts cached for five minutes and others for 30
    /// seconds, no opinion without an answer.
    #[must_use]
    pub fn new(config_file: PathBuf) -> Self {
        Self {
            name: DEFAULT_NAME.to_owned(),
            config_file,
            version: ReviewVersion::V1beta1,
            authorized_ttl: Duration::from_secs(300),
            unauthorized_ttl: Duration::from_secs(30),
            timeout: Duration::from_secs(30),
            failure_policy: AccessFailurePolicy::NoOpinion,
            match_conditions: Vec::new(),
            answers: 16_384,
            answers_bytes: 16 << 20,
            response_bytes: 1 << 20,
            concurrent: 100,
            user_concurrent: 25,
        }
    }
}

/// The decision of a webhook that does not answer (`failurePolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFailurePolicy {
    /// The next authorizer decides.
    NoOpinion,
    /// The request is denied.
    Deny,
}
