//! [`AdmissionReview`]: the request that a webhook receives.
//!
//! Both `v1` and `v1beta1` are supported, in the order of the webhook's `admissionReviewVersions`. The response is
//! [`super::answer`].

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{self, Value, json};

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
    /// The uid is new for each call, so that a response to another review cannot be taken for this one.
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
