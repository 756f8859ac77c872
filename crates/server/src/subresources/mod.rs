//! Subresources with kinds of their own, and resources that are answered rather than stored.
//!
//! [`scale`] changes replicas, [`pods`] binds and evicts, [`tokens`] issues tokens; reviews are answered here and decided in
//! [`crate::auth::review`]. Logs, exec and proxies are connections (`forward/connect`). Each passes admission with the
//! object that the client sent, then changes its target through [`crate::pipeline::transaction`].
//!
//! Subresources that show the object itself, such as `status`, do not come here: they are views
//! ([`crate::registry::view`]) of the ordinary verbs. The callers are `verbs/create.rs`, `update.rs` and `patch.rs`.

pub(crate) mod pods;
pub(crate) mod scale;
pub(crate) mod tokens;

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{WriteKind, WriteOptions};

use crate::admission::{Operation, RequestOptions};
use crate::api::Api;
use crate::api::stored::fresh;
use crate::auth::review;
use crate::auth::review::Reviewer;
use crate::auth::{Authorizer, RULES_AT_ONCE};
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{expected, place};
use crate::pipeline::transaction::with_version;
use crate::pipeline::{Answer, WriteRequest, body, now};
use crate::registry::view::ObjectView;

/// Answers a GET of a subresource: a Scale, or the object itself for views such as `status`.
///
/// # Errors
/// 404 for an object or subresource that does not exist, 405 for one that cannot be read.
pub(crate) async fn read_subresource(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if request.subresource.as_deref() == Some("scale") {
        return scale::read(api, &request).await;
    }
    let target = request.target();
    let mut stored = fresh(api, &target).await?.ok_or_else(|| target.not_found())?;
    if ObjectView::of(request.subresource.as_deref()).is_none() {
        return Err(unsupported(&request));
    }
    with_version(&mut stored.value, stored.revision);
    Ok(Answer::document(200, stored.value))
}

/// Runs mutating admission on the object that was sent to a subresource, or to a resource that is not stored.
///
/// The operation is a creation with the subresource's name, and there is no old object: the target is another one.
pub(crate) async fn admit(
    api: &Api,
    request: &WriteRequest,
    name: &str,
    options: &WriteOptions,
    object: &mut Value,
) -> Result<(), Status> {
    let options = RequestOptions::Create(options);
    api.admission.admit(&request.attributes(api, Operation::Create, name, options, None), object).await
}

/// Runs validating admission on the object that was sent to a subresource, or to a resource that is not stored.
pub(crate) async fn validate(
    api: &Api,
    request: &WriteRequest,
    name: &str,
    options: &WriteOptions,
    object: &Value,
) -> Result<(), Status> {
    let options = RequestOptions::Create(options);
    api.admission.validate(&request.attributes(api, Operation::Create, name, options, None), object).await
}

/// Answers a POST to a subresource: binding, eviction or token.
///
/// # Errors
/// 405 for a subresource that takes no POST, 404 for one that does not exist, and those of each.
pub(crate) async fn create(api: &Api, request: &WriteRequest, name: &str) -> Result<Answer, Status> {
    match (&*request.resource.group, &*request.resource.plural, name) {
        ("", "pods", "binding") => pods::bind(api, request).await,
        ("", "pods", "eviction") => pods::evict(api, request).await,
        ("", "serviceaccounts", "token") => tokens::issue(api, request).await,
        _ => Err(unsupported(request)),
    }
}

/// Answers a POST of a kind that is not stored: a Binding, an access review or a token review.
///
/// # Errors
///
/// 405 for a kind that takes no POST, and those of each.
pub(crate) async fn create_unstored(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    match (&*request.resource.group, &*request.resource.plural) {
        ("", "bindings") => pods::bind(api, request).await,
        (group, plural) if review::is_review(group, plural) => answer_review(api, request).await,
        _ => Err(unsupported(request)),
    }
}

/// A question about rights or identities: the response is the question with its status filled in.
///
/// Costs no write. What the response needs from elsewhere, such as a webhook's verdict about a token, is fetched in
/// between.
async fn answer_review(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    let resource = &*request.resource;
    let options = WriteOptions::parse(&request.query);
    body::check_media_type(request.content_type.as_deref(), expected(resource))?;
    options.check(WriteKind::Create)?;
    let check = |object: &mut Value| resource.rules.decode(object, None);
    let content_type = request.content_type.as_deref();
    let decoded =
        body::decode(content_type, &request.body, expected(resource), &check, options.validation())?;
    let mut review = decoded.object;
    place_review(&mut review, request.namespace.as_deref())?;
    // Although nothing is stored, kube-apiserver records who sent which fields.
    resource.rules.track(&Tracking::new(request, &options), None, &mut review);
    admit(api, request, "", &options, &mut review).await?;
    validate(api, request, "", &options, &review).await?;
    let union = api.authorizer.union();
    let reviewer = Reviewer { authorizer: &*union, authenticator: &api.authenticator, user: &request.user };
    if &*resource.plural == "tokenreviews" {
        reviewer.prepare(&review).await;
    }
    let namespace = request.namespace.as_deref();
    let access = match review::check(&resource.plural, namespace, &review) {
        Ok(true) => Some(access(api, request, review.at("spec")).await?),
        // What is wrong with a review is told by `answer`.
        Ok(false) | Err(_) => None,
    };
    let answered = reviewer.answer(&resource.plural, namespace, &mut review, (&now(), access));
    if answered.is_err() {
        decoded.warnings.iter().for_each(|warning| request.record.warn(warning.clone()));
    }
    answered.map(|()| Answer::document(201, review).with_warnings(decoded.warnings))
}

/// Decides an access review; about a namespace with very many rules, beside the workers.
async fn access(api: &Api, request: &WriteRequest, spec: &Value) -> Result<Value, Status> {
    let namespace = spec.at("resourceAttributes").text("namespace");
    let (plural, user) = (&*request.resource.plural, &request.user);
    if api.authorizer.size_in(namespace) <= RULES_AT_ONCE {
        let decided =
            |authorizer: &Arc<dyn Authorizer>| review::access_status(&**authorizer, plural, user, spec);
        return Ok(api.authorizer.decide(decided).await);
    }
    let (authorization, user, spec) = (api.authorizer.clone(), user.clone(), spec.clone());
    let plural = plural.to_owned();
    let decided = async move {
        let decided =
            |authorizer: &Arc<dyn Authorizer>| review::access_status(&**authorizer, &plural, &user, &spec);
        Ok(authorization.decide(decided).await)
    };
    api.blocking_for(&request.user.name).run(decided).await
}

/// Sets the namespace of the path in a review; cluster-scoped reviews have none.
fn place_review(review: &mut Value, namespace: Option<&str>) -> Result<(), Status> {
    if namespace.is_some() {
        return place(review, namespace);
    }
    if let Some(metadata) = review.inner("metadata") {
        metadata.remove("namespace");
    }
    Ok(())
}

/// A subresource that does not take this verb, or does not exist.
pub(crate) fn unsupported(request: &WriteRequest) -> Status {
    let name = request.subresource.as_deref().unwrap_or_default();
    match request.resource.subresource(name) {
        Some(_) => Status::method_not_allowed(),
        None => Status::no_such_path(),
    }
}
