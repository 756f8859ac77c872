//! AdmissionReview: the request that a webhook receives, and its answer.
//!
//! Both `v1` and `v1beta1` are spoken, in the order of the webhook's `admissionReviewVersions`; `v1` answers are
//! checked strictly (uid, type, patch type), as in kube-apiserver. The answer is input from outside: its size is
//! bounded by the client, a rejection is forced to a code of at least 400, and a patch is parsed here but applied and
//! validated by [`super`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_merge::patch::JsonPatch;
use listwatch_wire::Status;
use listwatch_wire::json::{self, Value, json};

use super::hook::{Webhook, WebhookFailure};
use crate::admission::Attributes;
use crate::admission::matching::MatchForm;
use crate::admission::request_document::request_document;

/// The request of an AdmissionReview.
pub(super) struct AdmissionReview<'a> {
    /// Group and version of the review.
    pub(super) version: &'static str,
    pub(super) request: &'a Attributes<'a>,
    pub(super) form: &'a MatchForm,
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
}

impl AdmissionReview<'_> {
    /// Returns the uid of the review and its encoding.
    ///
    /// The uid is new for each call, so that an answer to another review cannot be taken for this one.
    pub(super) fn encode(&self) -> (String, Bytes) {
        let (request, uid) = (self.request, uuid::Uuid::new_v4().to_string());
        let mut asked = request_document(request, self.form);
        asked.put("uid", uid.as_str());
        asked.put("object", self.object.clone());
        asked.put("oldObject", self.old.clone());
        let review = json!({"kind": "AdmissionReview", "apiVersion": self.version, "request": asked});
        (uid, json::encode(&review).into())
    }
}

/// The response of an AdmissionReview. Its parts are read when they are needed: a validating webhook's patch never
/// is.
#[derive(Debug)]
pub(super) struct ReviewAnswer {
    response: Value,
    /// v1 is stricter than v1beta1 about patches.
    strict: bool,
}

impl ReviewAnswer {
    /// Reads an answer to the review with that uid.
    pub(super) fn read(bytes: &[u8], version: &str, uid: &str) -> Result<Self, String> {
        let review = Value::read(bytes).map_err(|error| error.to_string())?;
        let strict = version.ends_with("/v1");
        let response = review.at("response").clone();
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        if strict && response.text("uid") != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", response.text("uid")));
        }
        if strict && (review.text("apiVersion"), review.text("kind")) != (version, "AdmissionReview") {
            return Err(format!(
                "expected webhook response of {version}, Kind=AdmissionReview, got {}, Kind={}",
                review.text("apiVersion"),
                review.text("kind")
            ));
        }
        Ok(Self { response, strict })
    }

    /// Passes on warnings and audit annotations.
    ///
    /// Keys are prefixed with the name of the webhook, so that two cannot overwrite each other's annotations.
    pub(super) fn record(&self, request: &Attributes<'_>, hook: &Webhook) {
        for (key, value) in self.response.entries("auditAnnotations") {
            let key = format!("{}/{key}", hook.name);
            request.record.annotate(&key, value.as_str().unwrap_or_default());
        }
        for warning in self.response.list("warnings").iter().filter_map(Value::as_str) {
            request.record.warn(warning);
        }
    }

    /// Fails if the webhook rejected the request.
    pub(super) fn check_allowed(&self, hook: &str) -> Result<(), WebhookFailure> {
        if self.response.flag("allowed") {
            Ok(())
        } else {
            Err(WebhookFailure::Rejected(self.rejection(hook)))
        }
    }

    /// The Status of a rejection. The code is at least 400, or a webhook could reject with a success.
    fn rejection(&self, hook: &str) -> Status {
        let result = self.response.at("status");
        let mut status: Status = result.to_type().unwrap_or_default();
        status.code = u16::try_from(result.int("code").unwrap_or(0)).unwrap_or(400).max(400);
        status.status = listwatch_wire::status::Outcome::Failure;
        let denied = format!("admission webhook {hook:?} denied the request");
        status.message = match (result.text("message"), result.text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        status
    }

    /// Returns the patch of a mutating webhook, if it has one.
    ///
    /// # Errors
    ///
    /// [`WebhookFailure::Call`] for an answer that contradicts itself, which only `v1` is strict about, and for a
    /// patch that cannot be parsed.
    pub(super) fn patch(&self, _hook: &Webhook) -> Result<Option<JsonPatch>, WebhookFailure> {
        let invalid = |why: String| WebhookFailure::Call(format!("received invalid webhook response: {why}"));
        let (text, kind) = (self.response.text("patch"), self.response.at("patchType").as_str());
        match (text.is_empty(), kind) {
            (false, None) if self.strict => {
                return Err(invalid("webhook returned response.patch but not response.patchType".to_owned()));
            }
            (true, Some(_)) if self.strict => {
                return Err(invalid("webhook returned response.patchType but not response.patch".to_owned()));
            }
            (false, Some(kind)) if self.strict && kind != "JSONPatch" => {
                return Err(WebhookFailure::Call(format!("unsupported patch type {kind:?}")));
            }
            (true, _) => return Ok(None),
            _ => {}
        }
        let bytes = STANDARD.decode(text).map_err(|error| invalid(error.to_string()))?;
        let undecodable = |why: String| {
            WebhookFailure::Call(format!("received undecodable patch in webhook response: {why}"))
        };
        JsonPatch::parse(&bytes).map(Some).map_err(|error| undecodable(error.to_string()))
    }

    /// Fails if a validating webhook tries to change the object.
    pub(super) fn without_patch(&self, _hook: &Webhook) -> Result<(), WebhookFailure> {
        let which = match (self.response.text("patch"), self.response.has("patchType")) {
            (text, _) if !text.is_empty() => "patch",
            (_, true) => "patchType",
            _ => return Ok(()),
        };
        let why =
            format!("received invalid webhook response: validating webhook may not return response.{which}");
        if self.strict { Err(WebhookFailure::Call(why)) } else { Ok(()) }
    }
}
