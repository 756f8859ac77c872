//! Connections to nodes: logs, exec, attach, port-forward, and the proxies of nodes, Pods and Services.
//!
//! A kubelet or a Pod answers these requests. This server finds its address, checks the request in kube-apiserver's order
//! and words, and forwards it. [`log`] streams a response of a kubelet, [`command`] upgrades a connection to it, [`proxied`]
//! forwards a request to a node, a Pod or an endpoint of a [`service`]. [`kubelet`] finds the kubelet of a node, [`options`]
//! parses the parameters, [`container`] chooses the container, [`translate`] connects WebSocket clients with SPDY kubelets.
//!
//! Open connections are bounded ([`OpenConnection`]) and take no seats. [`crate::chain::route`] calls this module.

mod address;
mod command;
mod container;
mod kubelet;
mod location;
mod log;
mod options;
mod proxied;
mod service;
mod translate;

use std::sync::Arc;

use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Method, Request as HttpRequest};
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::headers;
use super::relay::{self, Relay};
use crate::api::stored::fresh;
use crate::api::{AdmissionRecord, Api, OpenConnection, Operation, RequestOptions};
use crate::http::body::Response;
use crate::http::request::{BodySource, Request};
use crate::outbound::{OutboundBody, SendError, WebhookAddress};
use crate::pipeline::WriteUser;
use crate::pipeline::target::Target;
use crate::request::ResourceRequest;
use crate::request::negotiate;
use crate::respond;

/// The header that names the clients of a proxied request, as in Go's reverse proxy.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Answers a request for logs, exec, attach, port-forward or a proxy.
///
/// # Errors
/// The first check that fails, in kube-apiserver's order, or why there is no connection. If admission added warnings, an
/// error is a response with them instead.
#[doc(alias = "ConnectResource")]
pub(crate) async fn connect(
    api: &Arc<Api>,
    target: &ResourceRequest,
    body: &mut dyn BodySource,
) -> Result<Response, Status> {
    let record = AdmissionRecord::default();
    let name = target.info.name.as_deref().unwrap_or_default();
    let answer = NodeRequest { api, target, name, record: &record }.answer(body).await;
    target.request.audit.iter().for_each(|audit| audit.annotate(record.annotations()));
    let warnings = record.warnings();
    let answer = match answer {
        Err(status) if !warnings.is_empty() => {
            Ok(respond::status(&status, negotiate::status_form(&target.request.http)))
        }
        answer => answer,
    };
    answer.map(|mut response| {
        respond::warn(&mut response, warnings.iter().map(String::as_str));
        response
    })
}

/// A request for a connection, and where its admission is recorded.
#[derive(Clone, Copy, Debug)]
struct NodeRequest<'a> {
    api: &'a Arc<Api>,
    target: &'a ResourceRequest,
    /// The name in the path, with scheme and port for proxies.
    name: &'a str,
    record: &'a AdmissionRecord,
}

impl NodeRequest<'_> {
    async fn answer(self, body: &mut dyn BodySource) -> Result<Response, Status> {
        match (&*self.target.resource.plural, self.subresource()) {
            ("pods", "log") => log::answer(self).await,
            (_, "proxy") => proxied::answer(self, body).await,
            _ => command::answer(self).await,
        }
    }

    fn http(&self) -> &Request {
        &self.target.request.http
    }

    fn subresource(&self) -> &str {
        self.target.info.subresource.as_deref().unwrap_or_default()
    }

    /// Asks admission about a connection, with its options as the object. A log is read, not connected to.
    ///
    /// # Errors
    /// 400 for a dry run, 403 by a plugin.
    async fn admit(&self, mut options: Value) -> Result<(), Status> {
        if self.http().query.first("dryRun").is_some_and(|text| !text.is_empty()) {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let writer = WriteUser { user: &self.target.user, record: self.record };
        let mut attributes =
            writer.attributes(self.api, &self.target.resource, self.target.namespace(), self.name);
        attributes.operation = Operation::Connect;
        attributes.subresource = self.subresource();
        attributes.options = RequestOptions::None;
        self.api.admission.admit(&attributes, &mut options).await?;
        self.api.admission.validate(&attributes, &options).await
    }

    /// The object in its latest version. `plural` is a resource of the core group.
    ///
    /// # Errors
    /// 404 if there is none.
    async fn object(&self, plural: &str, name: &str) -> Result<Value, Status> {
        let resource = self.api.registry.find("", "v1", plural).ok_or_else(Status::no_such_path)?;
        let namespace = self.target.namespace().filter(|_| resource.namespaced);
        let target = Target::new(&resource, namespace, name);
        Ok(fresh(self.api, &target).await?.ok_or_else(|| target.not_found())?.value)
    }

    /// Takes a place among the open connections.
    ///
    /// # Errors
    /// 429 if there are too many, 500 if this server makes none.
    fn open(&self) -> Result<OpenConnection, Status> {
        self.api.nodes.open(&self.target.user.name)
    }

    /// The headers that are passed on: those of the client without credentials, its `Host` and its address.
    fn outgoing(&self) -> HeaderMap {
        let request = self.http();
        let mut headers = headers::outgoing(request);
        if let Some(host) = request.headers.get(HOST) {
            headers.insert(HOST, host.clone());
        }
        if let Some(peer) = request.peer {
            let before = headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
            let all = before.map_or_else(|| peer.to_string(), |before| format!("{before}, {peer}"));
            if let Ok(value) = HeaderValue::try_from(all) {
                headers.insert(FORWARDED_FOR, value);
            }
        }
        headers
    }

    /// Passes on a request for an upgrade, and makes a tunnel of the connection if it is accepted.
    ///
    /// # Errors
    /// 500 if there is no connection, or a response that is neither an upgrade nor an error. 429 if there are too many.
    async fn upgrade(&self, place: &WebhookAddress, target: String) -> Result<Response, Status> {
        let held = self.open()?;
        let request = request(self.http().method.clone(), target, self.outgoing())?;
        let (answer, kept) = self.upgraded(place, request).await?;
        Ok(relay::answered(answer, kept, Relay { upgrade: true, streamed: true, patience: None, held }).await)
    }

    /// Sends a request for an upgrade; returns a response that is one, or an error of the other server.
    async fn upgraded(
        &self,
        place: &WebhookAddress,
        request: HttpRequest<OutboundBody>,
    ) -> Result<(http::Response<hyper::body::Incoming>, crate::outbound::BusyConnection), Status> {
        let (answer, kept) = self.api.webhooks.send_alone(place, request).await.map_err(|error| {
            Status::unknown_reason(match error {
                SendError::Unconnected(why) => format!("error dialing backend: {why}"),
                SendError::Failed(why) => why,
            })
        })?;
        match answer.status().as_u16() {
            101 | 400.. => Ok((answer, kept)),
            code => Err(Status::unknown_reason(format!("invalid upgrade response: status code {code}"))),
        }
    }
}

/// A request without a body.
fn request(method: Method, target: String, headers: HeaderMap) -> Result<HttpRequest<OutboundBody>, Status> {
    let mut request = HttpRequest::builder()
        .method(method)
        .uri(target)
        .body(bytes::Bytes::new().into())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    *request.headers_mut() = headers;
    Ok(request)
}
