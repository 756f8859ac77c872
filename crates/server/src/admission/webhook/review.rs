//! [`Review`]: the request that a webhook receives.
//!
//! Both `v1` and `v1beta1` are spoken, in the order of the webhook's `admissionReviewVersions`. The answer is
//! [`super::answer`].

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{self, Value, json};

use crate::admission::Attributes;
use crate::admission::matching::MatchForm;
use crate::auth::User;

/// The request of an AdmissionReview.
pub(super) struct Review<'a> {
    /// Group and version of the review.
    pub(super) version: &'static str,
    pub(super) request: &'a Attributes<'a>,
    pub(super) form: &'a MatchForm,
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
}

impl Review<'_> {
    /// Returns the uid of the review and its encoding.
    pub(super) fn encode(&self) -> (String, Bytes) {
        let (request, uid) = (self.request, uuid::Uuid::new_v4().to_string());
        let shown = match self.form {
            MatchForm::Sent => request.resource,
            MatchForm::Converted(resource) => resource,
        };
        let mut asked = json!({
            "uid": uid.as_str(),
            "kind": kind_of(shown, request.subresource),
            "resource": {"group": &*shown.group, "version": &*shown.version, "resource": &*shown.plural},
            "requestKind": kind_of(request.resource, request.subresource),
            "requestResource": {"group": &*request.resource.group, "version": &*request.resource.version, "resource": &*request.resource.plural},
            "operation": request.operation.name(),
            "userInfo": user_info(request.user),
            "object": self.object.clone(),
            "oldObject": self.old.clone(),
            "dryRun": request.is_dry_run(),
            "options": request.options.document(request.operation)
        });
        for (key, text) in [
            ("name", request.name),
            ("namespace", request.namespace),
            ("subResource", request.subresource),
            ("requestSubResource", request.subresource),
        ] {
            if !text.is_empty() {
                asked.put(key, text);
            }
        }
        let review = json!({"kind": "AdmissionReview", "apiVersion": self.version, "request": asked});
        (uid, json::encode(&review).into())
    }
}

/// Group, version and kind of the object of a request.
pub(in crate::admission) fn kind_of(resource: &crate::registry::Resource, subresource: &str) -> Value {
    let own =
        resource.subresource(subresource).filter(|own| !own.group.is_empty() || !own.version.is_empty());
    match own {
        Some(own) => json!({"group": &*own.group, "version": &*own.version, "kind": &*own.kind}),
        None => {
            let named = resource.subresource(subresource).map_or(&resource.kind, |own| &own.kind);
            json!({"group": &*resource.group, "version": &*resource.version, "kind": &**named})
        }
    }
}

/// A user as reviews show one.
pub(in crate::admission) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name.as_str(), "groups": user.groups.clone()});
    if !user.uid.is_empty() {
        info.put("uid", user.uid.as_str());
    }
    if !user.extra.is_empty() {
        let mut extra = json!({});
        for (key, values) in &user.extra {
            extra.put(key, values.clone());
        }
        info.put("extra", extra);
    }
    info
}
