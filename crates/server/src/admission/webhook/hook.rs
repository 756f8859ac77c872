//! [`Webhook`]: one admission webhook as its configuration describes it, and a call of it.
//!
//! Read and compiled once per change of the configurations. A call can fail in two ways that must not be mixed up:
//! [`WebhookFailure::Call`] is subject to `failurePolicy`, [`WebhookFailure::Rejected`] is not. `matchConditions` are
//! evaluated before the call, so that requests they exclude do not depend on the webhook being up. The timeout is the
//! webhook's `timeoutSeconds`; connections and limits are [`crate::outbound`], the document is [`super::review`].

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use listwatch_cel::{Env, Version};

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use super::answer::ReviewAnswer;
use super::review::AdmissionReview;
use super::{in_form, with_version};
use crate::admission::Attributes;
use crate::admission::matching::{MatchForm, Matcher};
use crate::admission::policy::{Access, PolicyObjects, PolicyScope, matches_conditions};
use crate::auth::Authorizer;
use crate::outbound::Endpoint;
use crate::registry::expressions::CompiledExpression;
use crate::registry::expressions::environment::{Declared, environment};

/// The environment of match conditions.
static CONDITIONS: LazyLock<Env> =
    LazyLock::new(|| environment(Version::Stored, Declared { authorizer: true, ..Declared::default() }));

/// Timeout of a webhook that does not name one, as in kube-apiserver.
const DEFAULT_TIMEOUT: i64 = 10;

/// One webhook of a configuration, with its rules and match conditions compiled.
#[doc(alias = "WebhookAccessor")]
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) configuration: String,
    /// Its place in all configurations.
    ///
    /// By it the second round of mutation recognises a webhook (`configuration/name`).
    pub(super) uid: String,
    /// Called again if others changed the object after it.
    pub(super) reinvoke: bool,
    matcher: Matcher,
    conditions: Vec<CompiledExpression>,
    /// Requests are rejected if it cannot be called.
    fail_closed: bool,
    /// True if the webhook may be called for dry runs: it has no side effects then.
    dry_run: bool,
    /// Seconds; validation bounds it to 1 to 30.
    timeout: i64,
    /// The first version of reviews it accepts that this server has.
    review: Option<&'static str>,
    /// An error is kept and shown at the call, where the failure policy decides about it.
    endpoint: Result<Endpoint, String>,
}

/// The failure of a call of a webhook.
#[derive(Debug)]
pub(in crate::admission) enum WebhookFailure {
    /// The webhook could not be called, or its response could not be used: subject to the failure policy.
    Call(String),
    /// The webhook rejected the request, or the request cannot be shown to it: never ignored.
    Rejected(Status),
}

impl WebhookFailure {
    /// The Status of a failure that no policy lets pass.
    pub(in crate::admission) fn into_status(self) -> Status {
        match self {
            Self::Rejected(status) => status,
            Self::Call(why) => Status::internal(why),
        }
    }

    /// Applies the failure policy: a failed call passes with `Ignore`, recorded in an audit annotation, and is a 500
    /// with `Fail`. A rejection is returned in either case.
    pub(super) fn settle(
        self,
        request: &Attributes<'_>,
        hook: &Webhook,
        annotation: &str,
    ) -> Result<(), Status> {
        match self {
            Self::Rejected(status) => Err(status),
            Self::Call(why) if hook.fail_closed => {
                tracing::warn!(webhook = hook.name, why, "a webhook failed, its requests are rejected");
                let text = format!("failed calling webhook {:?}: {why}", hook.name);
                Err(Status::internal(text))
            }
            Self::Call(why) => {
                tracing::warn!(webhook = hook.name, why, "a webhook failed and is ignored");
                request.record.annotate(&format!("failed-open.{annotation}"), hook.name.clone());
                Ok(())
            }
        }
    }
}

impl Webhook {
    /// Reads the webhooks of a configuration.
    pub(super) fn read_all(configuration: &Value) -> Vec<Self> {
        let name = configuration.at("metadata").text("name");
        configuration.list("webhooks").iter().map(|hook| Self::read(name, hook)).collect()
    }

    /// Reads one webhook of a configuration. Expressions are compiled here, once, and not per request.
    fn read(configuration: &str, hook: &Value) -> Self {
        let name = hook.text("name").to_owned();
        let mut versions = hook.list("admissionReviewVersions").iter().filter_map(Value::as_str);
        Self {
            uid: format!("{configuration}/{name}"),
            configuration: configuration.to_owned(),
            reinvoke: hook.text("reinvocationPolicy") == "IfNeeded",
            matcher: Matcher::of_webhook(hook),
            conditions: hook
                .list("matchConditions")
                .iter()
                .map(|condition| CompiledExpression::new(&CONDITIONS, condition.text("expression")))
                .collect(),
            fail_closed: hook.text("failurePolicy") != "Ignore",
            dry_run: matches!(hook.text("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: hook.int("timeoutSeconds").unwrap_or(DEFAULT_TIMEOUT),
            review: versions.find_map(|version| match version {
                "v1" => Some("admission.k8s.io/v1"),
                "v1beta1" => Some("admission.k8s.io/v1beta1"),
                _ => None,
            }),
            endpoint: Endpoint::read(hook.at("clientConfig")),
            name,
        }
    }

    /// Returns the resource and version in which the webhook receives the request; none if it is not called.
    ///
    /// Conversion and conditions cost a copy of both objects; webhooks without conditions are decided by rules and
    /// selectors alone.
    ///
    /// # Errors
    ///
    /// 403 if a condition fails and the failure policy is `Fail`; the Status of a conversion that fails.
    pub(super) async fn applies(
        &self,
        request: &Attributes<'_>,
        object: &Value,
    ) -> Result<Option<MatchForm>, Status> {
        let Some(form) = self.matcher.matches(request, object) else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(form));
        }
        let (new, old) = with_version(request, in_form(request, &form, object).await?);
        let objects = PolicyObjects::new(request, &form, new, old);
        let matched = |authorizer: &Arc<dyn Authorizer>| {
            let scope = PolicyScope::of_conditions(&objects, Access::new(authorizer, request.user));
            matches_conditions(&scope, &self.conditions)
        };
        match request.api.authorizer.decide(matched).await {
            Ok(matches) => Ok(matches.then_some(form)),
            Err(why) if self.fail_closed => Err(request.forbidden(object, &why)),
            Err(_) => Ok(None),
        }
    }

    /// The audit annotation about a call that was answered.
    pub(super) fn mutation(&self, changed: bool) -> String {
        let said = json!({"configuration": self.configuration.as_str(), "webhook": self.name.as_str(), "mutated": changed});
        String::from_utf8_lossy(&listwatch_wire::json::encode(&said)).into_owned()
    }

    /// Calls the webhook and reads its response, within its timeout. Only a mutating one may return a patch.
    ///
    /// Not retried: a webhook may have side effects. Warnings and audit annotations of the response count even if it
    /// rejects.
    ///
    /// # Errors
    /// [`WebhookFailure::Rejected`] if it denied the request or does not support dry run, [`WebhookFailure::Call`]
    /// for all failures.
    pub(super) async fn call(
        &self,
        request: &Attributes<'_>,
        form: &MatchForm,
        object: &Value,
        old: &Value,
        mutating: bool,
    ) -> Result<ReviewAnswer, WebhookFailure> {
        if request.is_dry_run() && !self.dry_run {
            let why = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(WebhookFailure::Rejected(Status::bad_request(why)));
        }
        let version = self.review.ok_or_else(|| {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            WebhookFailure::Call(format!("could not create admission objects: {why}"))
        })?;
        let endpoint = self.endpoint.as_ref();
        let endpoint =
            endpoint.map_err(|why| WebhookFailure::Call(format!("could not get REST client: {why}")))?;
        let review = AdmissionReview { version, request, form, object, old };
        let (uid, body) = review.encode();
        let timeout = Duration::from_secs(u64::try_from(self.timeout).unwrap_or(1));
        let answer = request.api.call_webhook(endpoint, body, timeout).await;
        let answer = answer.map_err(|why| WebhookFailure::Call(format!("failed to call webhook: {why}")))?;
        let most = request.api.options.admission.webhooks.answer_values;
        let pool = request.api.blocking_for(&request.user.name);
        let large = pool.takes(answer.len());
        let read = move || ReviewAnswer::read(&answer, (version, &uid), mutating, most);
        let answer = match large {
            // Megabytes would keep a worker from all other requests for as long as they are parsed.
            true => pool.run(async move { Ok(read()) }).await.map_err(WebhookFailure::Rejected)?,
            false => read(),
        }?;
        answer.record(request, self);
        answer.check_allowed(&self.name)?;
        Ok(answer)
    }
}
