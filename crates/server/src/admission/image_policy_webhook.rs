//! ImagePolicyWebhook: an external service decides about the images of Pods. Off by default.
//!
//! It receives an ImageReview with the images, the annotations of the Pod that are meant for it, and the namespace. Verdicts are
//! cached, bounded by number and bytes. A service that does not answer rejects Pods, unless the configuration says otherwise;
//! kube-apiserver then marks the Pod with an annotation, here only the audit event says so.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Map, Value, encode, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::configuration::check_fields;
use super::{Attributes, Operation, Plugin};
use crate::auth::{Answers, CachedVerdict};
use crate::outbound::{
    CallError, FIRST_PAUSE, Remote, WebhookClient, WebhookLimits, go_duration, is_passing, with_retries,
};
use crate::registry::Resource;

/// The time for one answer, as in kube-apiserver.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Verdicts that are cached, allowing and other ones separately.
const ANSWERS: usize = 1024;
/// Bytes of these verdicts.
const ANSWERS_BYTES: usize = 4 << 20;
/// Bytes of one answer.
const RESPONSE_BYTES: usize = 1 << 20;
/// The beginning of the keys of audit annotations.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";

/// The webhook of the plugin, from its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePolicyOptions {
    /// A kubeconfig that says where it is and how this server proves itself to it.
    pub kubeconfig_file: PathBuf,
    /// The time for which an allowing verdict is cached; zero for not at all.
    pub allow_ttl: Duration,
    /// The time for which another verdict is cached.
    pub deny_ttl: Duration,
    /// The pause before a call that failed is repeated; each later one is half as long again.
    pub retry_backoff: Duration,
    /// Accepts Pods if the webhook does not answer.
    pub default_allow: bool,
}

impl ImagePolicyOptions {
    /// Reads `imagePolicy` of a configuration.
    ///
    /// # Errors
    /// A time out of its range, in kube-apiserver's words, or another type of value.
    pub(super) fn read(tree: &Value) -> Result<Self, String> {
        let policy = tree.at("imagePolicy");
        let known = ["kubeConfigFile", "allowTTL", "denyTTL", "retryBackoff", "defaultAllow"];
        check_fields(policy, "imagePolicy.", &known)?;
        let (second, minutes) = (Duration::from_secs(1), |count: u64| Duration::from_secs(60 * count));
        let ttl = |field: &str, default| time(policy, field, second, (second, minutes(30)), default);
        let (least, millisecond) = (Duration::from_nanos(1), Duration::from_millis(1));
        Ok(Self {
            kubeconfig_file: PathBuf::from(policy.text("kubeConfigFile")),
            retry_backoff: time(policy, "retryBackoff", millisecond, (least, minutes(5)), FIRST_PAUSE)?,
            allow_ttl: ttl("allowTTL", minutes(5))?,
            deny_ttl: ttl("denyTTL", Duration::from_secs(30))?,
            default_allow: policy.flag("defaultAllow"),
        })
    }
}

/// A time of the configuration, in units of `scale`: -1 means none, 0 the default.
fn time(
    policy: &Value,
    field: &str,
    scale: Duration,
    (least, most): (Duration, Duration),
    default: Duration,
) -> Result<Duration, String> {
    let value = match policy.at(field) {
        Value::Null => 0,
        number => number.as_i64().ok_or_else(|| format!("imagePolicy.{field} is no whole number"))?,
    };
    let count = match value {
        -1 => return Ok(Duration::ZERO),
        0 => return Ok(default),
        count => u32::try_from(count.unsigned_abs()).unwrap_or(u32::MAX),
    };
    let time = scale.saturating_mul(count);
    if value > 0 && (least..=most).contains(&time) {
        return Ok(time);
    }
    let sign = if value < 0 { "-" } else { "" };
    let [least, most, time] = [least, most, time].map(go_duration);
    Err(format!("valid value is between {least} and {most}, got {sign}{time}"))
}

/// The verdict of the webhook.
#[derive(Clone, Debug)]
struct ImageVerdict {
    allowed: bool,
    reason: String,
    audit_annotations: Vec<(String, String)>,
}

impl ImageVerdict {
    /// Reads an ImageReview.
    ///
    /// # Errors
    /// The answer is something else: the call failed, which is not a verdict.
    fn read(answer: &[u8]) -> Result<Self, String> {
        let no_review = |why: &str| format!("the answer of the webhook is not an ImageReview: {why}");
        let answer = Value::read(answer).map_err(|_| no_review("it is not JSON"))?;
        let status = answer.at("status");
        if !answer.is_object() || !["", "ImageReview"].contains(&answer.text("kind")) {
            return Err(no_review("it has another kind"));
        }
        if !status.is_object() && !status.is_null() {
            return Err(no_review("its status has another type"));
        }
        let allowed = match status.at("allowed") {
            Value::Null => false,
            Value::Bool(allowed) => *allowed,
            _ => return Err(no_review("its verdict has another type")),
        };
        let annotations = status.at("auditAnnotations").as_object().into_iter().flatten();
        let audit_annotations =
            annotations.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())));
        let audit_annotations = audit_annotations.collect();
        Ok(Self { allowed, reason: status.text("reason").to_owned(), audit_annotations })
    }

    /// The reason for a rejection; `None` if the images are allowed.
    fn rejection(&self) -> Option<String> {
        match (self.allowed, self.reason.as_str()) {
            (true, _) => None,
            (false, "") => Some("one or more images rejected by webhook backend".to_owned()),
            (false, reason) => {
                Some(format!("image policy webhook backend denied one or more images: {reason}"))
            }
        }
    }
}

impl CachedVerdict for ImageVerdict {
    fn is_positive(&self) -> bool {
        self.allowed
    }

    fn bytes(&self) -> usize {
        let annotations = self.audit_annotations.iter().map(|(key, value)| key.len() + value.len());
        self.reason.len() + annotations.sum::<usize>()
    }
}

/// Validating, on creations and updates of Pods and of their ephemeral containers.
#[derive(Debug)]
pub(super) struct ImagePolicyWebhook {
    remote: Remote,
    client: WebhookClient,
    answers: Answers<ImageVerdict>,
    options: ImagePolicyOptions,
}

impl ImagePolicyWebhook {
    /// Reads the kubeconfig; the webhook is not called yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub(super) fn new(options: ImagePolicyOptions) -> Result<Self, String> {
        let limits = WebhookLimits { response_bytes: RESPONSE_BYTES, ..WebhookLimits::default() };
        Ok(Self {
            remote: Remote::from_kubeconfig(&options.kubeconfig_file)?.with_timeout_parameter(TIMEOUT),
            client: WebhookClient::new(limits),
            answers: Answers::new(ANSWERS, ANSWERS_BYTES),
            options,
        })
    }

    /// Calls the webhook unless its verdict is cached.
    ///
    /// # Errors
    /// There is no verdict.
    async fn verdict(&self, spec: &Value) -> Result<ImageVerdict, String> {
        let digest: [u8; 32] = Sha256::digest(encode(spec)).into();
        if let Some(known) = self.answers.get(&digest, Instant::now()) {
            return Ok(known);
        }
        let review = json!({
            "kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "metadata": {},
            "spec": spec.clone(), "status": {"allowed": false},
        });
        let body = Bytes::from(encode(&review));
        let call = || async {
            let answer = self.remote.post_in_words(&self.client, body.clone());
            match tokio::time::timeout(TIMEOUT, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(CallError::Transport(self.remote.late_words())),
            }
        };
        let answer = with_retries(self.options.retry_backoff, call, is_passing).await;
        let verdict = ImageVerdict::read(&answer.map_err(CallError::into_text)?)?;
        let ttl = if verdict.allowed { self.options.allow_ttl } else { self.options.deny_ttl };
        if ttl > Duration::ZERO {
            self.answers.put(digest, verdict.clone(), Instant::now() + ttl);
        }
        Ok(verdict)
    }
}

/// The `spec` of the review of a Pod; with `ephemeral`, of its ephemeral containers only.
fn spec(pod: &Value, namespace: &str, ephemeral: bool) -> Value {
    let lists: &[&str] = if ephemeral { &["ephemeralContainers"] } else { &["containers", "initContainers"] };
    let containers = lists.iter().flat_map(|list| pod.at("spec").list(list));
    let images: Vec<Value> = containers
        .map(|container| match container.text("image") {
            "" => json!({}),
            image => json!({"image": image}),
        })
        .collect();
    let mut annotations = Map::new();
    for (key, value) in pod.at("metadata").entries("annotations") {
        if key.contains(".image-policy.k8s.io/") {
            annotations.insert(key.to_string(), value.clone());
        }
    }
    let mut spec = Map::new();
    if !images.is_empty() {
        spec.insert("containers", images.into());
    }
    if !annotations.is_empty() {
        spec.insert("annotations", annotations.into());
    }
    if !namespace.is_empty() {
        spec.insert("namespace", namespace.into());
    }
    spec.into()
}

#[async_trait]
impl Plugin for ImagePolicyWebhook {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && matches!(subresource, "" | "ephemeralcontainers")
    }

    async fn validate(&self, request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let spec = spec(pod, request.namespace, !request.subresource.is_empty());
        let verdict = match self.verdict(&spec).await {
            Ok(verdict) => verdict,
            Err(why) if self.options.default_allow => {
                tracing::warn!(why, "the image policy webhook does not answer");
                request.record.annotate(&format!("{AUDIT_PREFIX}failed-open"), "true");
                return Ok(());
            }
            Err(why) => return Err(request.forbidden(pod, &why)),
        };
        for (key, value) in &verdict.audit_annotations {
            request.record.annotate(&format!("{AUDIT_PREFIX}{key}"), value.clone());
        }
        verdict.rejection().map_or(Ok(()), |why| Err(request.forbidden(pod, &why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_has_the_images_and_what_is_meant_for_it() {
        let pod = json!({
            "metadata": {"annotations": {"a.image-policy.k8s.io/b": "c", "other": "d"}},
            "spec": {"containers": [{"image": "x"}, {}], "initContainers": [{"image": "y"}], "ephemeralContainers": [{"image": "z"}]},
        });
        assert_eq!(
            spec(&pod, "n", false),
            json!({"containers": [{"image": "x"}, {}, {"image": "y"}], "annotations": {"a.image-policy.k8s.io/b": "c"}, "namespace": "n"})
        );
        assert_eq!(spec(&pod, "n", true).list("containers"), [json!({"image": "z"})]);
    }

    #[test]
    fn times_are_those_of_kube_apiserver() {
        let read = |policy: Value| ImagePolicyOptions::read(&json!({"imagePolicy": policy}));
        let defaults = read(json!({"kubeConfigFile": "/k"})).unwrap();
        assert_eq!(defaults.allow_ttl, Duration::from_secs(300));
        assert_eq!(
            (defaults.deny_ttl, defaults.retry_backoff),
            (Duration::from_secs(30), Duration::from_millis(500))
        );
        let set =
            read(json!({"allowTTL": -1, "denyTTL": 60, "retryBackoff": 20, "defaultAllow": true})).unwrap();
        assert_eq!((set.allow_ttl, set.deny_ttl), (Duration::ZERO, Duration::from_secs(60)));
        assert!(set.default_allow && set.retry_backoff == Duration::from_millis(20));
        assert_eq!(
            read(json!({"allowTTL": 1801})).unwrap_err(),
            "valid value is between 1s and 30m0s, got 30m1s"
        );
        assert_eq!(read(json!({"denyTTL": -2})).unwrap_err(), "valid value is between 1s and 30m0s, got -2s");
        assert!(read(json!({"kubeconfig": ""})).is_err());
    }

    #[test]
    fn an_answer_allows_or_rejects_or_is_none() {
        let rejection =
            |answer: &str| ImageVerdict::read(answer.as_bytes()).map(|verdict| verdict.rejection());
        assert_eq!(rejection(r#"{"kind":"ImageReview","status":{"allowed":true}}"#), Ok(None));
        assert_eq!(
            rejection(r#"{"status":{"reason":"old"}}"#),
            Ok(Some("image policy webhook backend denied one or more images: old".to_owned()))
        );
        assert_eq!(rejection("{}"), Ok(Some("one or more images rejected by webhook backend".to_owned())));
        for wrong in ["", "[]", r#"{"kind":"Pod","status":{"allowed":true}}"#, r#"{"status":{"allowed":1}}"#]
        {
            assert!(rejection(wrong).is_err(), "{wrong}");
        }
    }
}
