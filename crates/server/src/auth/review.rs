//! Access reviews and token reviews: questions about permissions and identities, answered in the `status` of the
//! object that asks.
//!
//! Nothing is stored. Reviews ask the same [`Authorizer`] and [`Authenticator`] as requests do, so their responses are
//! what a request would get; SelfSubjectRulesReview may be incomplete, since not every authorizer works by rules, and
//! says so. What a question must look like is in `review_check`. The caller is [`crate::subresources`], after decoding and
//! admission.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use crate::auth::review_selectors::ReviewSelectors;
use crate::auth::{
    Authenticator, Authorizer, AuthorizerAttributes, Decision, ISSUER, MASTERS, UNKNOWN_TOKEN, User,
    review_check,
};

pub(super) const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// A rules review lists the rules of Roles only up to this many texts, about a megabyte. Beyond it the review is incomplete, which it
/// says: one question could make a response of 46 MB.
const MAX_LISTED: usize = 50_000;

/// Answers an access review: whether its user may do it, who is the requester or the user that the review names.
///
/// `denied` is never set, since no authorizer denies.
pub(crate) fn access_status(authorizer: &dyn Authorizer, plural: &str, user: &User, spec: &Value) -> Value {
    let other = (plural != "selfsubjectaccessreviews").then(|| subject(spec));
    let user = other.as_ref().unwrap_or(user);
    let selectors = ReviewSelectors::read(spec.at("resourceAttributes"));
    let attributes = review_attributes(spec, &selectors);
    let (allowed, reason) = match authorizer.authorize(user, &attributes) {
        Decision::Allow => match authorizer.reason(user, &attributes) {
            // Paths that are open to every request do not count as permissions.
            None if !attributes.path.is_empty() && !user.is_in(MASTERS) => (false, String::new()),
            reason => (true, reason.unwrap_or_default()),
        },
        Decision::NoOpinion(reason) => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    for (key, text) in [("reason", reason), ("evaluationError", selectors.error)] {
        if !text.is_empty() {
            status.put(key, text);
        }
    }
    status
}

/// The attributes that an access review is about.
fn review_attributes<'a>(spec: &'a Value, selectors: &'a ReviewSelectors) -> AuthorizerAttributes<'a> {
    if !spec.has("resourceAttributes") {
        let attributes = spec.at("nonResourceAttributes");
        let (verb, path) = (attributes.text("verb"), attributes.text("path"));
        return AuthorizerAttributes { verb, path, ..AuthorizerAttributes::default() };
    }
    let attributes = spec.at("resourceAttributes");
    AuthorizerAttributes {
        verb: attributes.text("verb"),
        group: attributes.text("group"),
        version: attributes.text("version"),
        // A review without a resource is about all resources, not about a path.
        resource: if attributes.text("resource").is_empty() { "*" } else { attributes.text("resource") },
        subresource: attributes.text("subresource"),
        namespace: attributes.text("namespace"),
        name: attributes.text("name"),
        path: "",
        fields: selectors.fields.as_ref(),
    }
}

/// Returns true if objects of this resource are reviews, which are answered rather than stored.
#[must_use]
pub(crate) fn is_review(group: &str, plural: &str) -> bool {
    matches!(group, AUTHORIZATION | AUTHENTICATION) && plural.ends_with("reviews")
}

/// The requester, and the authorizer that decides.
#[derive(Clone, Copy, Debug)]
pub struct Reviewer<'a> {
    /// Answers access and rules reviews.
    pub authorizer: &'a dyn Authorizer,
    /// Answers token reviews.
    pub authenticator: &'a Authenticator,
    /// The requester.
    pub user: &'a User,
}

impl Reviewer<'_> {
    /// Fetches what a TokenReview needs, as [`Authenticator::prepare`] does for a request.
    pub(crate) async fn prepare(&self, review: &Value) {
        let spec = review.at("spec");
        self.authenticator.prepare_token(spec.text("token"), &audiences(spec)).await;
    }

    /// Writes the response into the `status` of the review. `access` is that of [`access_status`], if the caller has it already.
    ///
    /// # Errors
    /// 422 for a review with no subject of its question or with two, 400 for one without a token or namespace where
    /// that is needed.
    pub fn answer(
        &self,
        plural: &str,
        namespace: Option<&str>,
        review: &mut Value,
        (now, access): (&str, Option<Value>),
    ) -> Result<(), Status> {
        let spec = review.get("spec").cloned().unwrap_or_default();
        review_check::check(plural, namespace, review)?;
        let status = match plural {
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => {
                access.unwrap_or_else(|| access_status(self.authorizer, plural, self.user, &spec))
            }
            "selfsubjectrulesreviews" => self.rules(&spec)?,
            "selfsubjectreviews" => json!({"userInfo": self.user.info()}),
            "tokenreviews" => self.token(&spec)?,
            _ => return Err(Status::method_not_allowed()),
        };
        if let Some(review) = review.as_object_mut() {
            review.insert("status".to_owned(), status);
            let metadata = review.entry("metadata").or_insert_with(|| json!({}));
            if plural == "selfsubjectreviews" {
                // kube-apiserver answers this review with new metadata.
                *metadata = json!({"creationTimestamp": now});
            }
            if plural == "selfsubjectrulesreviews" {
                // kube-apiserver answers this review with a new object, without `spec` and `metadata`.
                review.insert("spec".to_owned(), json!({}));
                review.insert("metadata".to_owned(), json!({}));
            }
        }
        Ok(())
    }

    /// Rules without resources are those of paths. Verbs and resources are listed as the roles have them, without
    /// removing doubles.
    fn rules(&self, spec: &Value) -> Result<Value, Status> {
        let namespace = spec.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let is_large = self.authorizer.size_in(namespace) > MAX_LISTED;
        let listed = if is_large { "" } else { namespace };
        let (paths, resources): (Vec<_>, Vec<_>) =
            self.authorizer.rules(self.user, listed).into_iter().partition(|rule| rule.resources.is_empty());
        let too_many = || format!("the rules of namespace {namespace:?} are too many to list");
        Ok(match self.authorizer.incomplete(self.user).or_else(|| is_large.then(too_many)) {
            None => json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}),
            Some(why) => json!({
                "resourceRules": resources, "nonResourceRules": paths, "incomplete": true, "evaluationError": why,
            }),
        })
    }

    /// A rejected token is a result and not an error: the status of the request is 201 in both cases.
    fn token(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(match self.authenticator.user_for(token, &audiences(spec)) {
            Ok((user, meant)) => {
                json!({"authenticated": true, "user": user.info(), "audiences": meant})
            }
            Err(why) if why == UNKNOWN_TOKEN => json!({"user": {}, "error": "invalid bearer token"}),
            Err(why) => json!({"user": {}, "error": format!("[invalid bearer token, {why}]")}),
        })
    }
}

/// The audiences of a token review; this server's if there are none.
fn audiences(spec: &Value) -> Vec<&str> {
    let audiences: Vec<&str> = spec.list("audiences").iter().filter_map(Value::as_str).collect();
    if audiences.is_empty() { vec![ISSUER] } else { audiences }
}

/// The user that the question is about.
fn subject(spec: &Value) -> User {
    let texts = |list: &Value| {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let extra = spec.entries("extra").map(|(key, values)| (key.to_string(), texts(values)));
    User {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: texts(spec.at("groups")),
        extra: extra.collect(),
    }
}
