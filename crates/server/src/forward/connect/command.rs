//! Exec, attach and port-forward: an upgraded connection to a kubelet.
//!
//! Clients with SPDY or one of the older WebSocket protocols get a tunnel, because kubelets support both. So do clients with a
//! newer WebSocket protocol if the node declares support for it; for other nodes [`super::translate`] converts to SPDY.
//!
//! Every method needs the verb `create`: WebSocket clients cannot POST, and permission to `get` must not allow running
//! commands.

use http::header::UPGRADE;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;

use super::kubelet::Kubelet;
use super::{NodeRequest, container, options, translate};
use crate::auth::{AuthorizerAttributes, Refusal};
use crate::forward::headers::is_upgrade;
use crate::http::body::Response;
use crate::http::request::Request;
use crate::http::websocket;
use crate::request::info::Verb;

/// The WebSocket protocol of exec and attach that can close a stream, which SPDY is translated to.
pub(super) const CHANNELS: &str = "v5.channel.k8s.io";
/// The beginning of the WebSocket protocols that carry SPDY.
pub(super) const SPDY_PREFIX: &str = "SPDY/3.1+";

/// Answers a request for exec, attach or port-forward.
///
/// # Errors
/// 403 for admission and rights, 400 for parameters or a request without an upgrade, 404 for the Pod or its node, 500 if the
/// kubelet cannot be reached.
#[doc(alias = "streamLocation")]
pub(super) async fn answer(asked: NodeRequest<'_>) -> Result<Response, Status> {
    let (name, subresource) = (asked.name, asked.subresource());
    let sent = &asked.http().query;
    let kind = asked.target.resource.subresource(subresource).map(|sub| sub.kind.to_string());
    asked.admit(options::command_options(&kind.unwrap_or_default(), sent)?).await?;
    require_create(asked).await?;
    let pod = asked.object("pods", name).await?;
    let container = match subresource {
        "portforward" => None,
        _ => Some(container::choose(sent.text("container"), &pod)?),
    };
    let node = pod.at("spec").text("nodeName");
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let kubelet = Kubelet::find(asked, node).await?;
    let namespace = asked.target.namespace().unwrap_or_default();
    let path = match container {
        Some(container) => format!("/{subresource}/{namespace}/{name}/{container}"),
        None => format!("/portForward/{namespace}/{name}"),
    };
    let query = options::command_query(subresource, sent)?;
    let target = if query.is_empty() { path } else { format!("{path}?{query}") };
    let place = kubelet.address(asked, true);
    if !kubelet.speaks_websocket && is_websocket(asked.http()) {
        let offers = |wanted: fn(&str) -> bool| websocket::offered(&asked.http().headers).any(wanted);
        if subresource == "portforward" && offers(is_tunnelled_spdy) {
            return translate::tunnel(asked, &place, target).await;
        }
        if subresource != "portforward" && offers(|protocol| protocol == CHANNELS) {
            return translate::channels(asked, &place, target).await;
        }
    }
    match is_upgrade(asked.http()) {
        true => asked.upgrade(&place, target).await,
        false => Err(Status::bad_request("Upgrade request required")),
    }
}

fn is_websocket(request: &Request) -> bool {
    is_upgrade(request)
        && request.header(UPGRADE).is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
}

/// Returns true for a WebSocket protocol that carries SPDY.
pub(super) fn is_tunnelled_spdy(protocol: &str) -> bool {
    protocol.starts_with(SPDY_PREFIX) && protocol.ends_with(".k8s.io")
}

/// Checks the right to `create`, which a GET has not been asked for.
///
/// # Errors
/// 403.
#[doc(alias = "AuthorizePodWebsocketUpgradeCreatePermission")]
async fn require_create(asked: NodeRequest<'_>) -> Result<(), Status> {
    if asked.target.info.verb == Verb::Create {
        return Ok(());
    }
    let decided = asked.api.authorizer.decide(|authorizer| {
        asked.target.request.with_attributes(|attributes| {
            let attributes = AuthorizerAttributes { verb: "create", ..*attributes };
            authorizer.authorize(&asked.target.user, &attributes)
        })
    });
    match decided.await.refusal() {
        None => Ok(()),
        Some(Refusal { error: Some(error), .. }) => Err(Status::internal(error)),
        Some(Refusal { reason, .. }) => Err(Status::forbidden("", "pods", asked.name, &reason)),
    }
}
