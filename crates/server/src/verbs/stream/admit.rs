//! [`StreamAdmission`]: admits a subscription as the watches it consists of.
//!
//! Each watch is authorized, counted and audited like a separate request with the headers and the user of the stream.
//! Events are written in `serve/`.

use std::sync::Arc;

use listwatch_wire::Status;
use listwatch_wire::stream::{Subscription, is_subscription_id};

use crate::api::Api;
use crate::auth::{User, credentials_hold};
use crate::registry::Resource;
use crate::request::ResourceRequest;
use crate::request::info::{RequestInfo, RequestTarget};
use crate::request::negotiate::Encoding;
use crate::request::stream::{audit_answer, watch_of};
use crate::verbs::watch::plan::WatchPlan;

/// Admits subscriptions of one stream, in the name of its user.
#[derive(Clone, Debug)]
pub(super) struct StreamAdmission {
    pub(super) api: Arc<Api>,
    /// The request for the stream.
    pub(super) stream: Arc<RequestInfo>,
    pub(super) user: Arc<User>,
}

/// A watch that may begin.
#[derive(Debug)]
pub(super) struct AdmittedWatch {
    pub(super) target: ResourceRequest,
    pub(super) plan: WatchPlan,
}

/// The number of watches that a subscription is.
pub(super) fn watches(asked: &Subscription) -> usize {
    asked.namespaces.len().max(1)
}

/// Checks the identifier of a subscription.
///
/// # Errors
/// 400.
pub(super) fn check_id(id: &str) -> Result<(), Status> {
    if is_subscription_id(id) {
        return Ok(());
    }
    let allowed = "1 to 63 letters, digits, dots, dashes and underscores";
    Err(Status::bad_request(format!("the id of a subscription must be {allowed}")))
}

impl StreamAdmission {
    /// Admits a subscription: one watch per namespace, or one for all. All of them, or none.
    ///
    /// Duplicated namespaces count once.
    ///
    /// # Errors
    /// As the ordinary watch would be refused.
    pub(super) async fn admit(self, asked: Subscription) -> Result<Vec<AdmittedWatch>, Status> {
        let mut namespaces: Vec<Option<&str>> = asked.namespaces.iter().map(|n| Some(n.as_str())).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        if namespaces.is_empty() {
            namespaces.push(None);
        }
        let mut admitted = Vec::with_capacity(namespaces.len());
        for namespace in namespaces {
            admitted.push(self.watch(&asked, namespace).await?);
        }
        Ok(admitted)
    }

    /// Admits the watch of a subscription in one namespace, and audits the decision.
    async fn watch(&self, asked: &Subscription, namespace: Option<&str>) -> Result<AdmittedWatch, Status> {
        let request = Arc::new(watch_of(&self.stream, asked, namespace, &self.api.registry));
        let admitted = self.admit_watch(Arc::clone(&request), asked).await;
        audit_answer(&request, admitted.as_ref().err());
        admitted
    }

    /// Admits one watch of a subscription as the request that it would be by itself.
    ///
    /// # Errors
    ///
    /// 401 if the credentials have expired, 403, 404, 405, 400, 429 without seats.
    async fn admit_watch(
        &self,
        request: Arc<RequestInfo>,
        asked: &Subscription,
    ) -> Result<AdmittedWatch, Status> {
        let (api, user) = (&self.api, &self.user);
        // The stream may be older than its credentials last.
        if !credentials_hold(&api.authenticator, &self.stream.http.headers) {
            return Err(Status::unauthorized());
        }
        let authorized = api
            .authorizer
            .decide(|authorizer| request.with_attributes(|attributes| authorizer.require(user, attributes)));
        authorized.await?;
        let RequestTarget::Resource(info) = &request.target else { return Err(Status::no_such_path()) };
        let info = Arc::clone(info);
        let resource = request.resource.clone().ok_or_else(Status::no_such_path)?;
        check(&resource, asked)?;
        let flow = request.with_attributes(|attributes| api.fairness.classify(user, attributes));
        let _seats = flow.enter(request.seats()).await?;
        let target = ResourceRequest { resource, info, request, user: Arc::clone(user), flow };
        let plan = WatchPlan::new(api, &target)?;
        if plan.form.encoding == Encoding::Protobuf {
            return Err(Status::not_acceptable(&[super::MEDIA_TYPE]));
        }
        plan.ready(api).await?;
        Ok(AdmittedWatch { target, plan })
    }
}

/// Checks that the resource can be watched as asked for.
fn check(resource: &Resource, asked: &Subscription) -> Result<(), Status> {
    if !resource.allows("watch") {
        return Err(Status::method_not_allowed());
    }
    if !resource.namespaced && !asked.namespaces.is_empty() {
        return Err(Status::bad_request(format!("{} are not in namespaces", resource.plural)));
    }
    if asked.namespaces.iter().any(String::is_empty) {
        return Err(Status::bad_request("a namespace must have a name"));
    }
    Ok(())
}
