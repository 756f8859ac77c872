//! [`AuditDraft`]: the audit event of a request while it is served.
//!
//! Facts become known at different stages (authentication, impersonation, body, admission, response) and in different
//! modules; each is set once, without a lock, in the draft that the request carries. The level is decided after
//! authentication; before it nothing is recorded, as kube-apiserver's policy needs a user. A body is kept only if the
//! level asks for it. Writing a stage hands a finished [`AuditEvent`] to the log and never waits.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use listwatch_wire::json::{Map, Value, json};

use crate::audit::event::AuditEvent;
use crate::audit::log::AuditLog;
use crate::audit::policy::{AuditDecision, AuditLevel};
use crate::auth::{AuthorizerAttributes, User};

/// The stage of a request at which an event is written. Streams have `ResponseStarted`, other requests
/// `ResponseComplete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditStage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
}

impl AuditStage {
    /// The name of the stage in policies and events.
    fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
        }
    }
}

/// The audit event of a request in the making, shared by everything that handles the request. Each fact is set at
/// most once.
#[derive(Debug)]
pub(crate) struct AuditDraft {
    log: Arc<AuditLog>,
    /// The audit ID, which the response has as a header.
    id: HeaderValue,
    received: Timestamp,
    uri: String,
    user_agent: String,
    peer: Option<SocketAddr>,
    /// The decision of the policy and the attributes of the request, known after authentication.
    known: OnceLock<KnownRequest>,
    /// The user that the request acts as, if it impersonates one.
    impersonated: OnceLock<Arc<User>>,
    /// The request body, kept only if the level asks for it.
    body: OnceLock<Bytes>,
    /// Annotations of admission.
    annotations: OnceLock<Vec<(String, String)>>,
}

/// Set together, when the user is known.
#[derive(Debug)]
struct KnownRequest {
    verdict: AuditDecision,
    user: Arc<User>,
    verb: String,
    object: Option<Value>,
}

impl AuditDraft {
    /// Begins an event when a request arrives. Everything else is added as it becomes known.
    pub(super) fn new(
        log: Arc<AuditLog>,
        id: HeaderValue,
        uri: String,
        user_agent: String,
        peer: Option<SocketAddr>,
    ) -> Self {
        Self {
            log,
            id,
            received: Timestamp::now(),
            uri,
            user_agent,
            peer,
            known: OnceLock::new(),
            impersonated: OnceLock::new(),
            body: OnceLock::new(),
            annotations: OnceLock::new(),
        }
    }

    /// The audit event of a part of this request, which the policy treats as a request of its own.
    pub(crate) fn part(&self, uri: String) -> Self {
        let (log, id) = (Arc::clone(&self.log), self.id.clone());
        let part = Self::new(log, id, uri, self.user_agent.clone(), self.peer);
        if let Some(user) = self.impersonated.get() {
            part.impersonated(user);
        }
        part
    }

    /// The user who sent the request, before impersonation.
    ///
    /// `None` before authentication.
    pub(crate) fn sender(&self) -> Option<&Arc<User>> {
        self.known.get().map(|known| &known.user)
    }

    /// Records the user and lets the policy decide the level. Writes the stage `RequestReceived`.
    pub(crate) fn authenticated(&self, user: &Arc<User>, wanted: &AuthorizerAttributes<'_>) {
        let verdict = self.log.policy().decide(user, wanted);
        let known = KnownRequest {
            verdict,
            user: Arc::clone(user),
            verb: wanted.verb.to_owned(),
            object: (!wanted.resource.is_empty()).then(|| object_ref(wanted)),
        };
        if self.known.set(known).is_ok() {
            self.write(AuditStage::RequestReceived, None, None);
        }
    }

    /// Records the user that the request acts as.
    pub(crate) fn impersonated(&self, user: &Arc<User>) {
        drop(self.impersonated.set(Arc::clone(user)));
    }

    /// The body of the request was read.
    ///
    /// Reading happens once per request, so the first body counts. The bytes are shared with the decoder, not copied.
    pub(crate) fn read(&self, body: &Bytes) {
        if self.level() >= AuditLevel::Request {
            drop(self.body.set(body.clone()));
        }
    }

    /// Records the audit annotations of admission.
    pub(crate) fn annotate(&self, annotations: Vec<(String, String)>) {
        drop(self.annotations.set(annotations));
    }

    /// Writes the event of a response. For streams this is `ResponseStarted`, with the code and no body.
    pub(crate) fn answered(&self, stage: AuditStage, code: StatusCode, body: Option<&Bytes>) {
        let body = body.filter(|_| self.level() == AuditLevel::RequestResponse).cloned();
        self.write(stage, Some(code), body);
    }

    fn level(&self) -> AuditLevel {
        self.known.get().map_or(AuditLevel::None, |known| known.verdict.level)
    }

    /// Writes the event of a stage, unless the policy omits it. Bodies are in the events of responses only.
    fn write(&self, stage: AuditStage, code: Option<StatusCode>, response: Option<Bytes>) {
        let Some(known) = self.known.get() else { return };
        let omitted = known.verdict.omitted.iter().any(|omitted| omitted == stage.name());
        if known.verdict.level == AuditLevel::None || omitted {
            return;
        }
        self.log.write(AuditEvent {
            level: known.verdict.level,
            id: self.id.to_str().unwrap_or_default().to_owned(),
            stage: stage.name(),
            uri: self.uri.clone(),
            verb: known.verb.clone(),
            user: Arc::clone(&known.user),
            impersonated: self.impersonated.get().cloned(),
            peer: self.peer.map(|peer| peer.ip()),
            user_agent: self.user_agent.clone(),
            object: known.object.clone(),
            code,
            request: if code.is_some() { self.body.get().cloned() } else { None },
            annotations: code.and(self.annotations.get()).cloned().unwrap_or_default(),
            response,
            omit_managed_fields: known.verdict.omit_managed_fields,
            received: self.received,
            now: Timestamp::now(),
        });
    }
}

/// Without empty fields, as kube-apiserver encodes it.
fn object_ref(wanted: &AuthorizerAttributes<'_>) -> Value {
    let mut object = Map::new();
    for (key, value) in [
        ("resource", wanted.resource),
        ("namespace", wanted.namespace),
        ("name", wanted.name),
        ("apiGroup", wanted.group),
        ("apiVersion", wanted.version),
        ("subresource", wanted.subresource),
    ] {
        if !value.is_empty() {
            object.insert(key, json!(value));
        }
    }
    object.into()
}
