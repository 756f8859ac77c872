//! [`Service`]: what happens to every request before and after its handler.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, StatusCode};
use listwatch_wire::Status;
use tokio_util::sync::CancellationToken;

use crate::HttpLimits;
use crate::api::Api;
use crate::audit::{AuditLog, Draft, Stage};
use crate::auth::{Impersonation, User};
use crate::chain::contain::{self, contain};
use crate::chain::labels::labels;
use crate::chain::report::{Outcome, report};
use crate::chain::route;
use crate::endpoints::{console, health};
use crate::fairness::gate::{self, Headers};
use crate::fairness::{Flow, width};
use crate::http::body::{Body, Response};
use crate::http::handler::Handler;
use crate::http::request::{BodySource, Request};
use crate::observe::Labels;
use crate::request::attributes::with_attributes;
use crate::request::deadline;
use crate::request::info::{RequestInfo, ResourceInfo, Verb};
use crate::request::negotiate;
use crate::respond;

/// The headers that say how a request was classified.
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Facts about a request that its answer and its report need, known at different times.
#[derive(Debug, Default)]
struct Known {
    user: Option<Arc<User>>,
    classified: Option<Headers>,
}

/// The entry of every request.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) api: Arc<Api>,
    stop: CancellationToken,
}

impl Service {
    pub(crate) fn new(api: Arc<Api>, stop: CancellationToken) -> Self {
        Self { api, stop }
    }

    /// Answers a request.
    async fn serve(&self, mut request: Request, body: &mut dyn BodySource) -> Response {
        // No such request reaches a handler of the reference: its HTTP library answers for it.
        if request.malformed {
            return respond::text(StatusCode::BAD_REQUEST, "400 Bad Request");
        }
        let audit_id = audit_id(&request);
        if self.api.options.console
            && let Some(response) = console::answer(&request)
        {
            return respond::finish(response, audit_id);
        }
        let form = negotiate::status_form(&request);
        let info = RequestInfo::new(&request.method, &request.path, request.query().flag("watch"));
        let started = tokio::time::Instant::now();
        request.audit = self.api.audit.as_ref().map(|log| Arc::new(draft(log, &request, &audit_id)));
        let mut known = Known::default();
        let answered = contain(self.answer(&request, &info, body, &mut known)).await;
        let message = match &answered {
            Ok(Err(status)) if status.code >= 400 => Some(status.message.clone()),
            _ => None,
        };
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(status)) if status.code == 429 && status.message == gate::TOO_MANY => too_many(&status),
            Ok(Err(status)) => respond::status(&status, form),
            Err(panic) => {
                self.api.metrics.panics.fetch_add(1, Ordering::Relaxed);
                let (method, path) = (&request.method, &request.path);
                tracing::error!(audit_id = ?audit_id, %method, path, panic, "the handler of a request panicked");
                respond::status(&contain::answer(), form)
            }
        };
        let code = response.status();
        let series = self.api.metrics.requests.series(&self.labels(&request, &info, code));
        if let Some(audit) = &request.audit {
            match response.body() {
                Body::Watch(_) | Body::WebSocket(_) => audit.answered(Stage::ResponseStarted, code, None),
                Body::Full(bytes) => audit.answered(Stage::ResponseComplete, code, Some(bytes)),
                _ => audit.answered(Stage::ResponseComplete, code, None),
            }
        }
        let outcome = Outcome { code, took: started.elapsed(), message, user: known.user.as_deref() };
        report(&self.api, &request, outcome);
        match response.body_mut() {
            Body::Watch(watch) | Body::WebSocket(watch) => watch.count_as(series, code),
            _ => series.done(code, started.elapsed()),
        }
        if let Some(headers) = known.classified {
            response.headers_mut().insert(FLOW_SCHEMA, headers.schema);
            response.headers_mut().insert(PRIORITY_LEVEL, headers.level);
        }
        let response = self.with_deprecation(&info, response);
        respond::finish(response, audit_id)
    }

    /// Names in labels are those of what is served, and asked for by somebody who is known: others are for strangers to
    /// make up.
    fn labels<'a>(&self, request: &Request, info: &'a RequestInfo, code: StatusCode) -> Labels<'a> {
        let labels = labels(request, info);
        let RequestInfo::Resource(info) = info else { return labels };
        let resource = self.api.registry.find(&info.group, &info.version, &info.resource);
        let served = resource.is_some_and(|resource| {
            info.subresource.as_deref().is_none_or(|name| resource.subresource(name).is_some())
        });
        if served && code != StatusCode::UNAUTHORIZED { labels } else { labels.anything() }
    }

    /// Whoever uses a deprecated kind is told so in every answer, before anything else.
    fn with_deprecation(&self, info: &RequestInfo, mut response: Response) -> Response {
        let RequestInfo::Resource(info) = info else { return response };
        if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return response;
        }
        let resource = self.api.registry.find(&info.group, &info.version, &info.resource);
        if let Some(text) = resource.as_ref().and_then(|resource| resource.deprecation()) {
            respond::warn_first(&mut response, text);
        }
        response
    }

    async fn answer(
        &self,
        request: &Request,
        info: &RequestInfo,
        body: &mut dyn BodySource,
        known: &mut Known,
    ) -> Result<Response, Status> {
        let long_running = is_long_running(info);
        let allowed = match long_running {
            true => Duration::MAX,
            false => deadline::allowed(request, self.api.options.requests.timeout)?,
        };
        let user = self.authenticated(request, info)?;
        let user = self.impersonated(request, info, user)?;
        known.user = Some(Arc::clone(&user));
        let flow = with_attributes(request, info, |attributes| self.api.fairness.classify(&user, attributes));
        known.classified = Some(flow.headers.clone());
        self.authorize(request, info, &user)?;
        let work = self.in_turn(request, info, (user, flow), body);
        if long_running {
            return work.await;
        }
        match tokio::time::timeout(allowed, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0)),
        }
    }

    fn authenticated(&self, request: &Request, info: &RequestInfo) -> Result<Arc<User>, Status> {
        let proof = request.peer.certificate.as_ref();
        let user = self.api.authenticator.authenticate_peer(&request.headers, proof);
        if let Some(audit) = &request.audit {
            // Of those who prove nothing it is told that they tried.
            let known = user.clone().unwrap_or_default();
            with_attributes(request, info, |attributes| audit.authenticated(&known, attributes));
        }
        user.ok_or_else(Status::unauthorized)
    }

    /// Calls the handler when it is the request's turn. One that has a body waits when the body is there.
    async fn in_turn(
        &self,
        request: &Request,
        info: &RequestInfo,
        (user, flow): (Arc<User>, Flow),
        body: &mut dyn BodySource,
    ) -> Result<Response, Status> {
        let mutating = !matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let _counted =
            (!is_long_running(info)).then(|| self.api.metrics.requests.in_flight.enter(mutating).0);
        // Whether the server is well is told at any time.
        let exempt = health::serves(&request.path) || route::waits_for_body(info);
        let _seats = if exempt { None } else { Some(flow.enter(self.width(request, info)).await?) };
        route::route(self, request, info, (user, flow), body).await
    }

    /// The seats that a request takes.
    fn width(&self, request: &Request, info: &RequestInfo) -> u32 {
        let RequestInfo::Resource(info) = info else { return 1 };
        if !matches!(info.verb, Verb::List | Verb::Watch) {
            return 1;
        }
        let Some(resource) = self.api.registry.find(&info.group, &info.version, &info.resource) else {
            return 1;
        };
        width::seats(info.verb, info.name.is_some(), &request.query(), &resource.collection)
    }

    fn impersonated(
        &self,
        request: &Request,
        info: &RequestInfo,
        user: Arc<User>,
    ) -> Result<Arc<User>, Status> {
        let Some(wanted) = Impersonation::read(&request.headers)? else { return Ok(user) };
        with_attributes(request, info, |attributes| {
            self.api.impersonator.impersonate(&wanted, &user, &*self.api.authorizer, attributes)
        })
        .map(|user| {
            let user = Arc::new(user);
            request.audit.iter().for_each(|audit| audit.impersonated(&user));
            user
        })
    }

    fn authorize(&self, request: &Request, info: &RequestInfo, user: &User) -> Result<(), Status> {
        with_attributes(request, info, |attributes| self.api.authorizer.require(user, attributes))
    }
}

impl Handler for Service {
    fn handle(&self, request: Request, body: &mut dyn BodySource) -> impl Future<Output = Response> + Send {
        self.serve(request, body)
    }

    fn limits(&self) -> &HttpLimits {
        &self.api.options.http
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn stopping(&self) -> impl Future<Output = ()> + Send {
        self.stop.cancelled()
    }
}

/// The answer to whoever is turned away: a text, as in the reference.
fn too_many(status: &Status) -> Response {
    let mut response = respond::text(StatusCode::TOO_MANY_REQUESTS, format!("{}\n", status.message));
    let seconds = status.retry_after().unwrap_or(1);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn is_long_running(info: &RequestInfo) -> bool {
    matches!(info, RequestInfo::Resource(ResourceInfo { verb: Verb::Watch, .. }))
}

fn draft(log: &Arc<AuditLog>, request: &Request, id: &HeaderValue) -> Draft {
    let uri = match request.query.as_str() {
        "" => request.path.clone(),
        query => format!("{}?{query}", request.path),
    };
    let agent = request.header(USER_AGENT).unwrap_or_default().to_owned();
    log.begin(id.clone(), uri, agent, request.peer.address)
}

fn audit_id(request: &Request) -> HeaderValue {
    let sent = request.headers.get(respond::AUDIT_ID).filter(|id| id.len() <= 64).cloned();
    sent.unwrap_or_else(|| {
        let mut text = uuid::Uuid::encode_buffer();
        let text = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
    })
}
