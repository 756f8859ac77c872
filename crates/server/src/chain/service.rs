//! [`Service`]: the handler chain, with the steps of every request before and after its handler.
//!
//! In order: read ([`crate::request::info`]), authenticate, impersonate, classify for API priority and fairness,
//! authorize, take seats, route ([`super::route`]), count, report, audit. The order is kube-apiserver's and visible:
//! an unauthenticated request gets 401 for any path, and seats are taken after authorization, so that
//! forbidden requests cost none. Requests with a body take their seats after it was read.
//!
//! It is one function instead of nested filters, because later steps need the results of earlier ones
//! ([`RequestFacts`]). Everything after authorization is under the deadline of the request, except for watches and
//! connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue, RETRY_AFTER, STRICT_TRANSPORT_SECURITY, USER_AGENT};
use http::{Method, StatusCode};
use listwatch_wire::Status;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::audit::{AuditDraft, AuditLog, AuditStage};
use crate::auth::{Impersonation, User};
use crate::chain::connection::Peer;
use crate::chain::labels::labels;
use crate::chain::panic_recovery::{self, catch_panic};
use crate::chain::report::{RequestOutcome, report};
use crate::chain::route;
use crate::chain::unread::UnreadAnswers;
use crate::endpoints::{console, health};
use crate::fairness::Flow;
use crate::fairness::gate::{self, FlowHeaders};
use crate::forward::extension;
use crate::http::body::{Body, Response};
use crate::http::request::{BodySource, Request};
use crate::observe::Labels;
use crate::registry::Resource;
use crate::request::deadline;
use crate::request::info::{RequestInfo, RequestTarget};
use crate::request::negotiate;
use crate::respond;
use crate::verbs::authorized::authorized;
use crate::verbs::write::body_bytes;

/// Response headers with the FlowSchema and the priority level of a request.
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
/// Response header with the uid of the priority level, as kube-apiserver sends it.
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Facts about a request for its response, metrics and audit event. They become known one after the other, so that a
/// request that fails early is still counted and audited with the known ones.
#[derive(Debug, Default)]
struct RequestFacts {
    user: Option<Arc<User>>,
    classified: Option<FlowHeaders>,
    /// The request was refused by authorization, before its handler.
    refused: bool,
    /// Authorization failed, and nothing was decided.
    undecided: bool,
}

impl RequestFacts {
    fn refuse(&mut self, status: &Status) {
        self.refused = status.code == 403;
    }

    fn leave_undecided(&mut self, status: &Status) {
        self.refuse(status);
        self.undecided = status.code == 500;
    }
}

/// The entry of every request: kube-apiserver's handler chain as one function, [`Service::serve`], instead of nested
/// filters.
///
/// One per server, shared by all connections.
#[doc(alias = "DefaultBuildHandlerChain")]
#[doc(alias = "GenericAPIServer")]
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) api: Arc<Api>,
    unread: UnreadAnswers,
    /// The header `Strict-Transport-Security` of every response.
    transport_security: Option<HeaderValue>,
    /// Cancelled when the server stops: connections then close after their present request.
    pub(super) stop: CancellationToken,
}

impl Service {
    pub(crate) fn new(api: Arc<Api>, stop: CancellationToken) -> Self {
        let limits = &api.options.requests;
        let piece = limits.gzip_above + 2 * limits.piece_bytes;
        let unread = UnreadAnswers::new(limits.user_answers_bytes, limits.answers_bytes, piece);
        let transport_security = api.options.serving.transport_security();
        Self { api, unread, transport_security, stop }
    }

    /// Answers a request.
    pub(super) async fn serve(
        &self,
        mut request: Request,
        peer: &Peer,
        body: &mut dyn BodySource,
    ) -> Response {
        // Go's HTTP library answers such a request before kube-apiserver sees it.
        if request.malformed {
            return respond::text(StatusCode::BAD_REQUEST, "400 Bad Request");
        }
        request.peer = Some(peer.address.ip());
        let audit_id = audit_id(&request);
        if self.api.options.console
            && let Some(response) = console::answer(&request)
        {
            return respond::finish(response, audit_id);
        }
        let started = tokio::time::Instant::now();
        let audit = self.api.audit.as_ref().map(|log| Arc::new(draft(log, &request, peer, &audit_id)));
        let request = Arc::new(RequestInfo::new(request, &self.api.registry, audit));
        let mut known = RequestFacts::default();
        // Boxed: a future that is awaited is copied into the one that awaits it, at each level.
        let answered = catch_panic(Box::pin(self.answer(&request, peer, body, &mut known))).await;
        let message = match &answered {
            Ok(Err(status)) if status.code >= 400 => Some(status.message.clone()),
            _ => None,
        };
        let response = match answered {
            Ok(Err(status)) if known.undecided => undecided(&request.http, &status),
            answered => self.response(answered, &request.http, &audit_id),
        };
        let response = self.count(response, &request, started, message, &known);
        let mut response = with_deprecation(&request, with_headers(response, known));
        if let Some(value) = &self.transport_security {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value.clone());
        }
        respond::finish(response, audit_id)
    }

    /// The response of a handler that returned one, failed or panicked.
    fn response(
        &self,
        answered: Result<Result<Response, Status>, String>,
        request: &Request,
        audit_id: &HeaderValue,
    ) -> Response {
        match answered {
            Ok(Ok(response)) => response,
            Ok(Err(status)) if status.code == 429 && status.message == gate::TOO_MANY => too_many(&status),
            Ok(Err(status)) => respond::status(&status, negotiate::status_form(request)),
            Err(panic) => {
                self.api.metrics.panics.fetch_add(1, Ordering::Relaxed);
                let (method, path) = (&request.method, &request.path);
                tracing::error!(audit_id = ?audit_id, %method, path, panic, "the handler of a request panicked");
                respond::status(&panic_recovery::answer(), negotiate::status_form(request))
            }
        }
    }

    /// Counts a response: against the unread bytes of its user, in the audit log, in the access log and in the metrics.
    fn count(
        &self,
        mut response: Response,
        request: &RequestInfo,
        started: tokio::time::Instant,
        message: Option<String>,
        known: &RequestFacts,
    ) -> Response {
        if let Some(user) = &known.user {
            response =
                self.unread.count(&user.name, response, || self.api.fairness.turns_for_pieces(&user.name));
        }
        let code = response.status();
        let series = self.api.metrics.requests.series(&served_labels(request, code));
        if let Some(audit) = &request.audit {
            match response.body() {
                Body::Watch(_) | Body::WebSocket(_) | Body::Tunnel(_) => {
                    audit.answered(AuditStage::ResponseStarted, code, None)
                }
                Body::Full(bytes) => audit.answered(AuditStage::ResponseComplete, code, Some(bytes)),
                _ => audit.answered(AuditStage::ResponseComplete, code, None),
            }
        }
        let outcome = RequestOutcome { code, took: started.elapsed(), message, user: known.user.as_deref() };
        report(&self.api, &request.http, outcome);
        match response.body_mut() {
            Body::Watch(watch) | Body::WebSocket(watch) => watch.count_as(series, code),
            _ => series.done(code, started.elapsed()),
        }
        response
    }

    /// Everything up to the response that can fail with a Status. `known` collects facts for the response and the
    /// report, also when it fails.
    async fn answer(
        &self,
        request: &Arc<RequestInfo>,
        peer: &Peer,
        body: &mut dyn BodySource,
        known: &mut RequestFacts,
    ) -> Result<Response, Status> {
        let long_running = self.is_long_running(request);
        let allowed = match long_running {
            true => Duration::MAX,
            false => deadline::allowed(&request.http.query, self.api.options.requests.timeout)?,
        };
        if !request.waits_for_body() {
            body.discard();
        }
        self.prepared(request, peer, body).await?;
        let user = self.authenticated(request, peer).await?;
        if user.is_in("system:authenticated") {
            peer.ticket.mark_authenticated(&user.name);
        }
        let user = self.impersonated(request, user).await.inspect_err(|status| known.refuse(status))?;
        known.user = Some(Arc::clone(&user));
        let flow = request.with_attributes(|attributes| self.api.fairness.classify(&user, attributes));
        peer.user.store(flow.user(), Ordering::Relaxed);
        peer.is_paced.store(flow.is_paced(), Ordering::Relaxed);
        known.classified = Some(flow.headers.clone());
        if !conveys_no_rights(request, &user) {
            authorized(&self.api, request, &user)
                .await
                .inspect_err(|status| known.leave_undecided(status))?;
        }
        let work = self.with_seats(request, (user, flow), body);
        if long_running {
            return work.await;
        }
        match tokio::time::timeout(allowed, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::timeout("request did not complete within the allotted timeout", 0)),
        }
    }

    /// Fetches what authentication needs. A body that comes with a token of another issuer waits meanwhile.
    ///
    /// # Errors
    ///
    /// 429 if too many bodies from this address wait.
    async fn prepared(
        &self,
        request: &RequestInfo,
        peer: &Peer,
        body: &mut dyn BodySource,
    ) -> Result<(), Status> {
        let authenticator = &self.api.authenticator;
        if !authenticator.has_other_issuers() {
            return Ok(());
        }
        let bytes = body_bytes(body, self.api.options.requests.body_bytes);
        let _unread = self.api.bodies.unread(&peer.address.ip().to_string(), bytes)?;
        authenticator.prepare(&request.http.headers, peer.certificate.as_ref()).await;
        Ok(())
    }

    /// Authenticates the request. A token that was refused may be of a ServiceAccount that the cache does not have
    /// yet: then the cache is waited for once.
    ///
    /// Waiting happens once and only for tokens that could be valid, so that garbage does not cost a round trip to
    /// the store.
    ///
    /// # Errors
    ///
    /// 401.
    async fn authenticated(&self, request: &RequestInfo, peer: &Peer) -> Result<Arc<User>, Status> {
        let (headers, authenticator) = (&request.http.headers, &self.api.authenticator);
        let mut user = authenticator.authenticate_peer(headers, peer.certificate.as_ref());
        if user.is_none() && authenticator.may_be_behind(headers) {
            self.api.wait_for(None).await?;
            user = authenticator.authenticate_peer(headers, peer.certificate.as_ref());
        }
        if let Some(audit) = &request.audit {
            // An attempt without valid credentials is recorded too.
            let known = user.clone().unwrap_or_default();
            request.with_attributes(|attributes| audit.authenticated(&known, attributes));
        }
        user.ok_or_else(Status::unauthorized)
    }

    /// True for watches, connections to nodes, and upgrades at extension API servers.
    fn is_long_running(&self, request: &RequestInfo) -> bool {
        request.is_long_running()
            || (extension::is_long_running(request)
                && extension::remote(&self.api, &request.http.path).is_some())
    }

    /// Calls the handler once the request has its seats. One with a body takes them after the body was read.
    ///
    /// Seats are held until the response is made, not until it is sent; `unread` bounds what waits to be sent.
    async fn with_seats(
        &self,
        request: &Arc<RequestInfo>,
        (user, flow): (Arc<User>, Flow),
        body: &mut dyn BodySource,
    ) -> Result<Response, Status> {
        let mutating = !matches!(request.http.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let _counted =
            (!self.is_long_running(request)).then(|| self.api.metrics.requests.in_flight.enter(mutating).0);
        // Health checks are answered under any load.
        let exempt = health::serves(&request.http.path) || request.waits_for_body();
        if !health::serves(&request.http.path) && !self.unread.has_room(&user.name) {
            let bytes = body_bytes(body, self.api.options.requests.body_bytes);
            let _unread = self.api.bodies.unread(&user.name, bytes)?;
            self.unread.wait(&user.name).await;
        }
        let _seats = if exempt { None } else { Some(flow.enter(request.seats()).await?) };
        route::route(self, request, (user, flow), body).await
    }

    /// Permissions to impersonate are those of the sender. The audit event gets both users.
    ///
    /// # Errors
    ///
    /// 400 for headers that cannot be used, 403 without permission.
    async fn impersonated(&self, request: &RequestInfo, user: Arc<User>) -> Result<Arc<User>, Status> {
        let Some(wanted) = Impersonation::read(&request.http.headers)? else { return Ok(user) };
        let (api, requester) = (&self.api, &user);
        let impersonated = api.authorizer.decide(|authorizer| {
            request.with_attributes(|attributes| {
                api.impersonator.impersonate(&wanted, requester, &**authorizer, attributes)
            })
        });
        let (user, mode) = impersonated.await?;
        api.impersonator.remember(requester, mode);
        let user = Arc::new(user);
        request.audit.iter().for_each(|audit| audit.impersonated(&user));
        Ok(user)
    }

    /// True from the first signal on. `readyz` fails and connections close after their request, while requests in
    /// progress continue.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// The response to a request that could not be authorized: plain text, as in kube-apiserver.
#[doc(alias = "InternalError")]
fn undecided(request: &Request, status: &Status) -> Response {
    let uri = match request.raw_query.as_str() {
        "" => request.path.clone(),
        query => format!("{}?{query}", request.path),
    };
    let why = status.message.strip_prefix("Internal error occurred: ").unwrap_or(&status.message);
    let text = format!("Internal Server Error: {}: {why}", listwatch_wire::go::quote(&uri));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    respond::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}\n"))
}

/// Returns true for a request about streams of many watches by an authenticated user: each subscription is authorized
/// separately. Anonymous users need permission for the path, so that they cannot hold connections.
fn conveys_no_rights(request: &RequestInfo, user: &User) -> bool {
    matches!(request.target, RequestTarget::Stream(_)) && user.is_in("system:authenticated")
}

/// Metric labels with the names of served resources only, for authenticated requests only: other names would let any
/// client create series without bound.
///
/// Every label value must come from a finite set, because each new combination is a series that is kept for ever.
fn served_labels(request: &RequestInfo, code: StatusCode) -> Labels<'_> {
    let labels = labels(request);
    if !matches!(request.target, RequestTarget::Resource(_)) {
        return labels;
    }
    let served = request.resource.as_ref().is_some_and(|resource| is_served(request, resource));
    if served && code != StatusCode::UNAUTHORIZED { labels } else { labels.anything() }
}

/// Returns true if a request names no subresource, or one that the resource has.
fn is_served(request: &RequestInfo, resource: &Resource) -> bool {
    let RequestTarget::Resource(info) = &request.target else { return true };
    info.subresource.as_deref().is_none_or(|name| resource.subresource(name).is_some())
}

/// Adds the headers with the classification of the request and, if it was refused, the one against guessing of content types.
fn with_headers(mut response: Response, known: RequestFacts) -> Response {
    if known.refused {
        respond::do_not_sniff(&mut response);
    }
    if let Some(headers) = known.classified {
        response.headers_mut().insert(FLOW_SCHEMA, headers.schema);
        response.headers_mut().insert(PRIORITY_LEVEL, headers.level);
    }
    response
}

/// Adds the deprecation warning of the resource, before all other warnings.
fn with_deprecation(request: &RequestInfo, mut response: Response) -> Response {
    if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return response;
    }
    let Some(resource) = &request.resource else { return response };
    let is_routeless = is_routeless(&request.http, response.status()) || !is_served(request, resource);
    if is_routeless && !resource.is_custom() {
        return response;
    }
    if let Some(text) = resource.deprecation() {
        respond::warn_first(&mut response, text);
    }
    response
}

/// Returns true if a request found no route of a built-in kind: routes warn of deprecation with every response. Media types of
/// patches are those of the route, other bodies are read behind it.
fn is_routeless(request: &Request, code: StatusCode) -> bool {
    match code {
        StatusCode::METHOD_NOT_ALLOWED => true,
        StatusCode::NOT_ACCEPTABLE => !negotiate::is_routed(request),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => request.method == Method::PATCH,
        _ => false,
    }
}

/// The response to a request without a seat: plain text, as in kube-apiserver.
/// Clients of client-go retry after the number of seconds in the header.
fn too_many(status: &Status) -> Response {
    let mut response = respond::text(StatusCode::TOO_MANY_REQUESTS, format!("{}\n", status.message));
    let seconds = status.retry_after().unwrap_or(1);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The URI of an event is the decoded path with the query as it was sent.
fn draft(log: &Arc<AuditLog>, request: &Request, peer: &Peer, id: &HeaderValue) -> AuditDraft {
    let uri = match request.raw_query.as_str() {
        "" => request.path.clone(),
        query => format!("{}?{query}", request.path),
    };
    let agent = request.header(USER_AGENT).unwrap_or_default().to_owned();
    log.begin(id.clone(), uri, agent, Some(peer.address))
}

/// A client may choose it, up to 64 bytes, to find its request in several servers' logs.
fn audit_id(request: &Request) -> HeaderValue {
    let sent = request.headers.get(respond::AUDIT_ID).filter(|id| id.len() <= 64).cloned();
    sent.unwrap_or_else(|| {
        let mut text = uuid::Uuid::encode_buffer();
        let text = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
    })
}
