//! [`AuditEvent`]: one line of the audit log, in the format of `audit.k8s.io/v1`.
//!
//! Made on the request's path and encoded by the writer's thread, so it holds references to bodies instead of copies.
//! Bodies above 256 KiB are replaced by their length: they would make single lines that log shippers drop.
//! [`AuditEvent::weight`] is what the queue's bound counts.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{self, Map, Value, json};

use crate::audit::policy::AuditLevel;
use crate::auth::User;

/// Bytes of a body that are shown; of longer ones it is only said that they are left out.
const MAX_BODY: usize = 256 << 10;

/// An audit event. Making it is quick; the writer of the log encodes it.
#[derive(Debug)]
pub(super) struct AuditEvent {
    pub(super) level: AuditLevel,
    pub(super) id: String,
    pub(super) stage: &'static str,
    pub(super) uri: String,
    pub(super) verb: String,
    pub(super) user: Arc<User>,
    pub(super) impersonated: Option<Arc<User>>,
    pub(super) peer: Option<IpAddr>,
    pub(super) user_agent: String,
    /// Made once per request and copied into each of its events; `None` for paths that are not resources.
    pub(super) object: Option<Value>,
    /// `None` in the stage `RequestReceived`.
    pub(super) code: Option<StatusCode>,
    pub(super) request: Option<Bytes>,
    pub(super) response: Option<Bytes>,
    pub(super) omit_managed_fields: bool,
    pub(super) annotations: Vec<(String, String)>,
    /// The time at which the request came; `now` is the time of this stage.
    pub(super) received: Timestamp,
    pub(super) now: Timestamp,
}

impl AuditEvent {
    /// An estimate of the bytes it holds while it waits.
    ///
    /// The 512 cover the fields of fixed size and the user. It must not change while the event waits, since it is added
    /// and subtracted.
    pub(super) fn weight(&self) -> usize {
        let body = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let annotations: usize = self.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        512 + self.uri.len()
            + self.user_agent.len()
            + body(&self.request)
            + body(&self.response)
            + annotations
    }

    /// The line, as kube-apiserver writes it.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut event = Map::new();
        event.insert("kind", json!("Event"));
        event.insert("apiVersion", json!("audit.k8s.io/v1"));
        event.insert("level", json!(format!("{:?}", self.level)));
        event.insert("auditID", json!(self.id));
        event.insert("stage", json!(self.stage));
        event.insert("requestURI", json!(self.uri));
        event.insert("verb", json!(self.verb));
        event.insert("user", self.user.info());
        if let Some(user) = &self.impersonated {
            event.insert("impersonatedUser", user.info());
        }
        event.insert("sourceIPs", json!(self.peer.iter().map(ToString::to_string).collect::<Vec<_>>()));
        if !self.user_agent.is_empty() {
            event.insert("userAgent", json!(self.user_agent));
        }
        if let Some(object) = &self.object {
            event.insert("objectRef", object.clone());
        }
        if let Some(code) = self.code {
            event.insert("responseStatus", json!({"metadata": {}, "code": code.as_u16()}));
        }
        self.add_bodies(&mut event);
        event.insert("requestReceivedTimestamp", json!(time(self.received)));
        event.insert("stageTimestamp", json!(time(self.now)));
        if !self.annotations.is_empty() {
            let annotations =
                self.annotations.iter().map(|(key, value)| (key.as_str(), json!(value.as_str())));
            event.insert("annotations", Value::Object(annotations.collect()));
        }
        let mut line = json::encode(&Value::Object(event));
        line.push(b'\n');
        line
    }

    /// Adds the bodies that the level of the event includes.
    fn add_bodies(&self, event: &mut Map) {
        for (key, body) in [("requestObject", &self.request), ("responseObject", &self.response)] {
            let Some(body) = body.as_ref().filter(|body| !body.is_empty()) else { continue };
            let mut object = shown(body);
            if self.omit_managed_fields {
                drop_managed_fields(&mut object);
            }
            event.insert(key, object);
        }
    }
}

/// Returns a body as JSON, or only its length if it is not JSON or too long.
fn shown(body: &Bytes) -> Value {
    let omitted = || json!({"omittedBytes": body.len()});
    if body.len() > MAX_BODY { omitted() } else { Value::read(body).unwrap_or_else(|_| omitted()) }
}

/// Removes `managedFields` from an object or from all objects of a list.
fn drop_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.inner("metadata") {
        metadata.drop_field("managedFields");
    }
    for item in object.each("items") {
        if let Some(metadata) = item.inner("metadata") {
            metadata.drop_field("managedFields");
        }
    }
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
