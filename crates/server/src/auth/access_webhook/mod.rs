//! [`AccessWebhook`]: authorization by an external service, with a SubjectAccessReview per unknown question.
//!
//! Decisions find the verdict in a cache and never wait; [`super::Authorization`] calls the webhook for those that are missing.
//! The number of concurrent calls, of all users and of each, the time of a call with all retries, the size of an answer and the
//! cache are bounded, because any client can ask for any name. What is sent and read is [`review`], the expressions that decide
//! about calls are [`conditions`].

mod conditions;
mod metrics;
mod options;
mod review;

use std::time::Duration;

use bytes::Bytes;
use listwatch_wire::status::FieldError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use self::conditions::MatchConditions;
use self::metrics::CallResult;
pub(crate) use self::metrics::{AccessWebhookMetrics, write as write_webhook_metrics};
pub use self::options::{AccessFailurePolicy, AccessWebhookOptions};
use self::review::{AccessReview, AccessVerdict};
use crate::auth::answers::{Answers, CachedVerdict, Digest};
use crate::auth::{AuthorizerAttributes, Decision, Refusal, User, UserShares};
use crate::outbound::{
    CallError, FIRST_PAUSE, Remote, WebhookClient, WebhookLimits, is_passing, with_retries,
};

/// Connections that are kept.
const CONNECTIONS: usize = 16;
/// Groups of users that share a part of the cache.
const CACHE_SHARES: usize = 16;

/// The webhook, its connections and its cached verdicts. Shared by all requests.
#[doc(alias = "WebhookAuthorizer")]
#[derive(Debug)]
pub(crate) struct AccessWebhook {
    remote: Remote,
    client: WebhookClient,
    conditions: MatchConditions,
    /// Bounds the calls at one time, by [`AccessWebhookOptions::concurrent`].
    slots: Semaphore,
    /// Bounds those of one user.
    shares: UserShares<Semaphore>,
    answers: UserShares<Answers<AccessVerdict>>,
    metrics: AccessWebhookMetrics,
    options: AccessWebhookOptions,
}

/// A decision or the question that is missing for it.
#[derive(Debug)]
pub(crate) enum Consulted {
    Decided(Decision, String),
    Missing(Question),
}

/// A question that the webhook must be asked.
#[derive(Debug)]
pub(crate) struct Question {
    user: String,
    review: AccessReview,
}

impl Question {
    /// Identifies the question.
    pub(crate) fn digest(&self) -> Digest {
        self.review.digest
    }
}

/// One evaluation of match conditions, which is counted when the decision that it belongs to is made.
#[derive(Debug)]
pub(crate) struct Evaluation {
    /// `None` if the conditions failed.
    matched: Option<bool>,
    took: Duration,
}

/// The outcome of a call: a verdict, or why there is none.
pub(crate) type AccessOutcome = Result<AccessVerdict, String>;

/// Checks the conditions of a webhook at `path`.
///
/// # Errors
/// All that is wrong with them.
pub(super) fn check_conditions(sources: &[String], path: &str) -> Result<(), Vec<FieldError>> {
    MatchConditions::compile(sources, path).map(drop)
}

impl AccessWebhook {
    /// Reads the kubeconfig and compiles the conditions; the webhook is not called yet.
    ///
    /// # Errors
    /// A kubeconfig or conditions that cannot be used.
    pub(crate) fn new(options: AccessWebhookOptions) -> Result<Self, String> {
        let limits = WebhookLimits {
            response_bytes: options.response_bytes,
            idle_connections: CONNECTIONS,
            ..WebhookLimits::default()
        };
        let conditions = MatchConditions::compile(&options.match_conditions, "")
            .map_err(|errors| listwatch_wire::status::aggregate(errors.iter().map(ToString::to_string)))?;
        let remote = Remote::from_kubeconfig(&options.config_file)?;
        let (entries, bytes) = (options.answers / CACHE_SHARES, options.answers_bytes / CACHE_SHARES);
        Ok(Self {
            remote: remote.with_timeout_parameter(options.timeout),
            client: WebhookClient::new(limits),
            conditions,
            slots: Semaphore::new(options.concurrent),
            shares: UserShares::new(|| Semaphore::new(options.user_concurrent)),
            answers: UserShares::of_count(CACHE_SHARES, || Answers::new(entries, bytes)),
            metrics: AccessWebhookMetrics::new(&options.name),
            options,
        })
    }

    /// The counters of the webhook.
    pub(crate) fn metrics(&self) -> &AccessWebhookMetrics {
        &self.metrics
    }

    /// Decides by the match conditions, by an outcome that `known` has, or by the cache; otherwise returns the question to ask.
    /// Returns the evaluation of the conditions, too, if there are any.
    pub(crate) fn consult(
        &self,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
        known: impl Fn(&Digest) -> Option<AccessOutcome>,
    ) -> (Consulted, Option<Evaluation>) {
        let (matches, evaluation) = self.matches(user, wanted);
        let consulted = match matches {
            Ok(true) => self.look_up(user, wanted, known),
            Ok(false) => Consulted::Decided(Decision::no_opinion(""), String::new()),
            Err(error) => Consulted::Decided(self.failed(error), String::new()),
        };
        (consulted, evaluation)
    }

    fn look_up(
        &self,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
        known: impl Fn(&Digest) -> Option<AccessOutcome>,
    ) -> Consulted {
        let version = self.options.version;
        let review = AccessReview::new(version, review::spec(version, user, wanted), wanted);
        let cached = || self.answers.of(&user.name)?.get(&review.digest, Instant::now()).map(Ok);
        match known(&review.digest).or_else(cached) {
            Some(Ok(verdict)) => Consulted::Decided(verdict.decision(), verdict.reason().to_owned()),
            Some(Err(error)) => Consulted::Decided(self.failed(error), String::new()),
            None => Consulted::Missing(Question { user: user.name.clone(), review }),
        }
    }

    /// Evaluates the match conditions.
    fn matches(
        &self,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
    ) -> (Result<bool, String>, Option<Evaluation>) {
        if self.conditions.is_empty() {
            return (Ok(true), None);
        }
        let started = std::time::Instant::now();
        let outcome = self.conditions.hold(&review::condition_request(user, wanted));
        let evaluation = Evaluation { matched: outcome.as_ref().ok().copied(), took: started.elapsed() };
        (outcome, Some(evaluation))
    }

    /// The decision of the failure policy.
    fn failed(&self, error: String) -> Decision {
        let refusal = Refusal { reason: String::new(), error: Some(error) };
        match self.options.failure_policy {
            AccessFailurePolicy::NoOpinion => Decision::NoOpinion(refusal),
            AccessFailurePolicy::Deny => Decision::Deny(refusal),
        }
    }

    /// Calls the webhook, and keeps its verdict in the cache.
    ///
    /// The time limit includes waiting for one of the slots, so that a webhook that hangs delays a request by that time
    /// at most. A question that another request asked in the meantime is not asked again.
    pub(crate) async fn ask(&self, question: &Question) -> AccessOutcome {
        let answers = self.answers.of(&question.user);
        let deadline = Instant::now() + self.options.timeout;
        let slots = tokio::time::timeout_at(deadline, self.slots(&question.user)).await;
        let _slots = slots.map_err(|_| self.late())?;
        if let Some(verdict) = answers.and_then(|known| known.get(&question.digest(), Instant::now())) {
            return Ok(verdict);
        }
        let body = Bytes::from(question.review.body.clone());
        let call = || self.call(body.clone(), deadline);
        let outcome = tokio::time::timeout_at(deadline, with_retries(FIRST_PAUSE, call, is_passing)).await;
        let outcome = match outcome {
            Ok(outcome) => outcome.map_err(CallError::into_text),
            Err(_) => Err(self.late()),
        };
        match &outcome {
            Ok(verdict) => self.keep(question, verdict),
            Err(why) => self.note(why, Instant::now() >= deadline),
        }
        outcome
    }

    /// Waits for a slot of the user and one of all. A user who waits for its own holds none that others need.
    async fn slots(&self, user: &str) -> (Option<SemaphorePermit<'_>>, Option<SemaphorePermit<'_>>) {
        let own = match self.shares.of(user) {
            Some(share) => share.acquire().await.ok(),
            None => None,
        };
        (own, self.slots.acquire().await.ok())
    }

    /// Calls once, and counts the call.
    async fn call(&self, body: Bytes, deadline: Instant) -> Result<AccessVerdict, CallError> {
        let started = Instant::now();
        let answer = tokio::time::timeout_at(deadline, self.remote.post_in_words(&self.client, body)).await;
        let (outcome, result) = match answer {
            Err(_) => (Err(CallError::Transport(self.late())), CallResult::Timeout),
            Ok(Err(error)) => (Err(error), CallResult::Error),
            Ok(Ok(answer)) => match AccessVerdict::read(&answer) {
                Ok(verdict) => (Ok(verdict), CallResult::Success),
                Err(why) => (Err(CallError::Answer(why)), CallResult::Error),
            },
        };
        self.metrics.called(result, started.elapsed());
        outcome
    }

    /// Keeps a verdict for the time that the options say.
    fn keep(&self, question: &Question, verdict: &AccessVerdict) {
        let ttl = match verdict.is_positive() {
            true => self.options.authorized_ttl,
            false => self.options.unauthorized_ttl,
        };
        if let Some(answers) = self.answers.of(&question.user)
            && question.review.is_cached
            && ttl > Duration::ZERO
        {
            answers.put(question.digest(), verdict.clone(), Instant::now() + ttl);
        }
    }

    /// Logs a failure, and counts one that has no consequence.
    fn note(&self, why: &str, is_late: bool) {
        tracing::warn!(webhook = self.options.name, why, "an authorization webhook does not answer");
        if self.options.failure_policy == AccessFailurePolicy::NoOpinion {
            self.metrics.failed_open(if is_late { CallResult::Timeout } else { CallResult::Error });
        }
    }

    /// Go's message about a call that took too long.
    fn late(&self) -> String {
        self.remote.late_words()
    }
}
