//! [`ReviewAnswer`]: the response of an admission webhook, decoded and verified.
//!
//! It comes from outside: its size is bounded by the client, its types are checked as Go's decoder does, with Go's text,
//! and a rejection is forced to a code of at least 400. `v1` answers are held to their uid, type and patch type;
//! `v1beta1` ones are not, as in kube-apiserver. A patch is decoded here; [`super`] applies it and checks the result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_kinds::tree::Tree;
use listwatch_merge::patch::{JsonPatch, JsonPatchLimits};
use listwatch_wire::Status;
use listwatch_wire::json::go::json_type;
use listwatch_wire::json::{Value, encode};

use super::answer_types::{check_types, mismatch};
use super::hook::{Webhook, WebhookFailure};
use crate::admission::Attributes;
use crate::outbound::has_more_values;

/// The most operations of a patch; as many as fit into the largest answer. kube-apiserver limits those of clients only.
const PATCH_OPERATIONS: usize = 1 << 20;
/// The scheme of AdmissionReviews, as kube-apiserver's messages name it.
const SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:74";

/// The response of an AdmissionReview.
#[derive(Debug)]
pub(super) struct ReviewAnswer {
    response: Value,
    /// The bytes of the patch.
    patch: Vec<u8>,
    /// The patch of a mutating webhook, if it has one that does anything.
    operations: Result<Option<JsonPatch>, String>,
}

/// The problem with a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// It is no AdmissionReview.
    Undecodable(String),
    /// It is one that must not be.
    Invalid(String),
}

impl From<AnswerError> for WebhookFailure {
    fn from(error: AnswerError) -> Self {
        Self::Call(match error {
            AnswerError::Undecodable(why) => format!("failed to call webhook: {why}"),
            AnswerError::Invalid(why) => format!("received invalid webhook response: {why}"),
        })
    }
}

impl ReviewAnswer {
    /// Reads a response to the review with that version and uid. Only mutating webhooks may answer with a patch, of at most so many
    /// values.
    pub(super) fn read(
        bytes: &[u8],
        (version, uid): (&str, &str),
        mutating: bool,
        most: usize,
    ) -> Result<Self, AnswerError> {
        let review = decode(bytes, version).map_err(AnswerError::Undecodable)?;
        let response = review.at("response").clone();
        let patch = patch_bytes(&response).map_err(AnswerError::Undecodable)?;
        let mut answer = Self { response, patch, operations: Ok(None) };
        answer.verify(&review, version, uid, mutating).map_err(AnswerError::Invalid)?;
        answer.operations = answer.read_patch(most);
        Ok(answer)
    }

    /// Checks the envelope: the version and uid of the request, and a patch only where one is allowed.
    fn verify(&self, review: &Value, version: &str, uid: &str, mutating: bool) -> Result<(), String> {
        let Self { response, patch, .. } = self;
        if response.is_null() {
            return Err("webhook response was absent".to_owned());
        }
        if version != V1 {
            return Ok(());
        }
        if response.text("uid") != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", response.text("uid")));
        }
        let (api_version, kind) = (review.text("apiVersion"), review.text("kind"));
        if (api_version, kind) != (V1, "AdmissionReview") {
            let got = if api_version.is_empty() { "/" } else { api_version };
            return Err(format!(
                "expected webhook response of {V1}, Kind=AdmissionReview, got {got}, Kind={kind}"
            ));
        }
        let kind = response.at("patchType").as_str();
        match (patch.is_empty(), kind, mutating) {
            (false, _, false) => Err("validating webhook may not return response.patch".to_owned()),
            (_, Some(_), false) => Err("validating webhook may not return response.patchType".to_owned()),
            (false, None, true) => {
                Err("webhook returned response.patch but not response.patchType".to_owned())
            }
            (true, Some(_), true) => {
                Err("webhook returned response.patchType but not response.patch".to_owned())
            }
            (_, Some(""), true) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
            _ => Ok(()),
        }
    }

    /// Passes on warnings and audit annotations.
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

    /// The Status of a rejection. The code is at least 400, or a webhook could reject with a success, and has three
    /// digits, or it could not be answered.
    fn rejection(&self, hook: &str) -> Status {
        let result = self.response.at("status");
        let mut status: Status = result.to_type().unwrap_or_default();
        let code = result.int("code").and_then(|code| u16::try_from(code).ok());
        status.code = code.filter(|code| (400..1000).contains(code)).unwrap_or(400);
        status.status = listwatch_wire::status::StatusOutcome::Failure;
        let denied = format!("admission webhook {hook:?} denied the request");
        status.message = match (result.text("message"), result.text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        status
    }

    /// Returns the patch of a mutating webhook, if it has one that does anything.
    pub(super) fn patch(self) -> Result<Option<JsonPatch>, WebhookFailure> {
        self.operations.map_err(WebhookFailure::Call)
    }

    /// Decodes the patch of a webhook. Its values are counted before it is parsed, since a response of a few megabytes could
    /// become a tree of hundreds.
    fn read_patch(&self, most: usize) -> Result<Option<JsonPatch>, String> {
        if self.patch.is_empty() {
            return Ok(None);
        }
        let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
        if has_more_values(&self.patch, most) {
            return Err(undecodable(format!("it has more than {most} values")));
        }
        let operations = Value::read(&self.patch).map_err(|error| undecodable(error.to_string()))?;
        match &operations {
            Value::Null => return Ok(None),
            Value::Array(items) if items.is_empty() => return Ok(None),
            Value::Array(_) => {}
            other => {
                let ty = json_type(other);
                let why = format!("json: cannot unmarshal {ty} into Go value of type jsonpatch.Patch");
                return Err(undecodable(why));
            }
        }
        let kind = self.response.at("patchType").as_str().filter(|kind| *kind != "JSONPatch");
        if let Some(kind) = kind {
            return Err(format!("unsupported patch type {kind:?}"));
        }
        let limits = JsonPatchLimits { operations: PATCH_OPERATIONS, ..JsonPatchLimits::default() };
        let patch = JsonPatch::with_limits(&encode(&operations), limits);
        patch.map(Some).map_err(|error| undecodable(error.to_string()))
    }
}

const V1: &str = "admission.k8s.io/v1";
const V1BETA1: &str = "admission.k8s.io/v1beta1";

/// Reads a document as the AdmissionReview of a version, with the types that its fields must have.
fn decode(bytes: &[u8], version: &str) -> Result<Value, String> {
    let parse_error = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let review = Value::read(bytes).map_err(|error| parse_error(error.to_string()))?;
    if !review.is_object() && !review.is_null() {
        let head = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let ty = json_type(&review);
        return Err(parse_error(format!("json: cannot unmarshal {ty} into Go value of type {head}")));
    }
    match (review.text("apiVersion"), review.text("kind")) {
        ("", _) | (_, "") | (V1 | V1BETA1, "AdmissionReview") => {}
        ("v1", "Status") => return Err(review.text("message").to_owned()),
        (other, kind) => {
            return Err(format!("no kind {kind:?} is registered for version {other:?} in scheme {SCHEME:?}"));
        }
    }
    if !review.text("apiVersion").is_empty()
        && review.text("apiVersion") != version
        && !review.text("kind").is_empty()
    {
        let short = |version: &str| version.rsplit('/').next().unwrap_or_default().to_owned();
        let (from, to) = (short(review.text("apiVersion")), short(version));
        return Err(format!(
            "converting ({from}.AdmissionReview) to ({to}.AdmissionReview): unknown conversion"
        ));
    }
    check_types(&review, version)?;
    Ok(review)
}

/// The bytes of the patch: base64, or a list of numbers, as Go reads bytes.
fn patch_bytes(response: &Value) -> Result<Vec<u8>, String> {
    match response.at("patch") {
        Value::String(text) => STANDARD.decode(text.as_bytes()).map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
                format!("illegal base64 data at input byte {at}")
            }
            _ => format!("illegal base64 data at input byte {}", text.len()),
        }),
        Value::Array(items) => {
            let bytes = items.iter().map(|item| item.as_u64().and_then(|byte| u8::try_from(byte).ok()));
            let place = "AdmissionResponse.response.patch";
            bytes.collect::<Option<_>>().ok_or_else(|| mismatch("number", place, "uint8"))
        }
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn read(response: Value, mutating: bool) -> Result<ReviewAnswer, AnswerError> {
        let review = json!({"kind": "AdmissionReview", "apiVersion": V1, "response": response});
        ReviewAnswer::read(&encode(&review), (V1, "u"), mutating, 100)
    }

    /// A response of other types was taken for a denial or a permission; kube-apiserver cannot decode it, and the failure
    /// policy decides.
    #[test]
    fn an_answer_has_the_types_of_an_admission_review() {
        let field = "json: cannot unmarshal";
        for (response, why) in [
            (
                json!("yes"),
                format!(
                    "{field} string into Go struct field AdmissionReview.response of type v1.AdmissionResponse"
                ),
            ),
            (
                json!({"uid": 5}),
                format!(
                    "{field} number into Go struct field AdmissionResponse.response.uid of type types.UID"
                ),
            ),
            (
                json!({"allowed": "true"}),
                format!(
                    "{field} string into Go struct field AdmissionResponse.response.allowed of type bool"
                ),
            ),
            (
                json!({"status": "no"}),
                format!(
                    "{field} string into Go struct field AdmissionResponse.response.status of type v1.Status"
                ),
            ),
            (
                json!({"status": {"code": "403"}}),
                format!("{field} string into Go struct field Status.response.status.code of type int32"),
            ),
            (
                json!({"warnings": "x"}),
                format!(
                    "{field} string into Go struct field AdmissionResponse.response.warnings of type []string"
                ),
            ),
            (
                json!({"warnings": [1]}),
                format!(
                    "{field} number into Go struct field AdmissionResponse.response.warnings of type string"
                ),
            ),
            (
                json!({"auditAnnotations": {"k": 1}}),
                format!(
                    "{field} number into Go struct field AdmissionResponse.response.auditAnnotations of type string"
                ),
            ),
            (
                json!({"patch": 5}),
                format!(
                    "{field} number into Go struct field AdmissionResponse.response.patch of type []uint8"
                ),
            ),
            (json!({"patch": "***"}), "illegal base64 data at input byte 0".to_owned()),
        ] {
            assert_eq!(read(response, true).unwrap_err(), AnswerError::Undecodable(why));
        }
        assert!(read(json!({"uid": "u", "allowed": null, "nonsense": 1}), true).is_ok());
    }

    #[test]
    fn the_response_must_be_a_review_of_the_requested_version() {
        let refused = |document: Value| match ReviewAnswer::read(&encode(&document), (V1, "u"), true, 100)
            .unwrap_err()
        {
            AnswerError::Undecodable(why) | AnswerError::Invalid(why) => why,
        };
        assert_eq!(refused(json!(null)), "webhook response was absent");
        assert!(refused(json!([])).starts_with(
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value"
        ));
        assert_eq!(
            refused(json!({"kind": "Pod", "apiVersion": "v1"})),
            format!("no kind \"Pod\" is registered for version \"v1\" in scheme \"{SCHEME}\"")
        );
        assert_eq!(
            refused(json!({"kind": "AdmissionReview", "apiVersion": V1BETA1})),
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        );
        assert_eq!(
            refused(json!({"response": {"uid": "u"}})),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
        );
    }

    #[test]
    fn the_form_of_a_review_is_checked_before_its_verdict() {
        let invalid = |response: Value, mutating| match read(response, mutating).unwrap_err() {
            AnswerError::Invalid(why) => why,
            AnswerError::Undecodable(why) => panic!("{why}"),
        };
        let patch = STANDARD.encode("[]");
        let denied = json!({"uid": "u", "allowed": false, "patch": patch.as_str(), "patchType": "JSONPatch"});
        assert_eq!(invalid(denied, false), "validating webhook may not return response.patch");
        let empty = json!({"uid": "u", "patch": patch.as_str(), "patchType": ""});
        assert_eq!(invalid(empty, true), "webhook returned invalid response.patchType of \"\"");
        let other =
            read(json!({"uid": "u", "patch": patch.as_str(), "patchType": "MergePatch"}), true).unwrap();
        assert!(other.patch().unwrap().is_none(), "an empty patch is none, whatever its type");
    }

    /// The patch is base64, behind which its values cannot be counted with those of the response.
    #[test]
    fn a_patch_has_a_bounded_number_of_values() {
        let patched = |values: usize| {
            let patch = json!([{"op": "add", "path": "/a", "value": vec![Value::Null; values]}]);
            let patch = STANDARD.encode(encode(&patch));
            read(json!({"uid": "u", "patch": patch, "patchType": "JSONPatch"}), true).unwrap().patch()
        };
        assert!(patched(50).is_ok_and(|patch| patch.is_some()));
        assert!(
            matches!(patched(100), Err(WebhookFailure::Call(why)) if why.ends_with("it has more than 100 values"))
        );
    }

    #[test]
    fn a_rejection_has_a_code_that_can_be_answered() {
        for (code, answered) in
            [(0, 400), (200, 400), (-1, 400), (422, 422), (999, 999), (1000, 400), (100_000, 400)]
        {
            let answer = read(json!({"uid": "u", "status": {"code": code}}), true).unwrap();
            assert_eq!(answer.rejection("h").code, answered);
        }
    }
}
