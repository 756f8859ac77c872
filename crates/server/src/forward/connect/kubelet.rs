//! [`Kubelet`]: the address and port of a node's kubelet, from the status of the Node.
//!
//! A kubelet is not contacted here, and its address is looked up at each request: nodes change theirs. The certificate that this
//! server shows to kubelets is read at its start (`server/nodes.rs`); the request itself is sent by `super`.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::NodeRequest;
use crate::options::NodeOptions;
use crate::outbound::WebhookAddress;

/// The feature that a kubelet declares if it translates WebSocket itself.
const SPEAKS_WEBSOCKET: &str = "ExtendWebSocketsToKubelet";

/// The address of a kubelet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kubelet {
    pub(super) host: String,
    pub(super) port: u16,
    /// It understands the WebSocket protocols of kubectl.
    pub(super) speaks_websocket: bool,
}

impl Kubelet {
    /// Finds the kubelet of a node.
    ///
    /// # Errors
    /// 404 if there is no such node, 500 if it has no address of a preferred type. kube-apiserver names the resource of the
    /// request in that 404, so that a missing node of a Pod reads as a missing Pod.
    #[doc(alias = "GetConnectionInfo")]
    pub(super) async fn find(request: NodeRequest<'_>, name: &str) -> Result<Self, Status> {
        let missing = |status: Status| match status.code {
            404 => Status::not_found("", &request.target.resource.plural, name),
            _ => status,
        };
        let node = request.object("nodes", name).await.map_err(missing)?;
        Self::of(&node, &request.api.options.nodes)
    }

    fn of(node: &Value, options: &NodeOptions) -> Result<Self, Status> {
        let status = node.at("status");
        let addresses = status.list("addresses");
        let by_type = |ty: &String| addresses.iter().find(|address| address.text("type") == ty);
        let Some(host) = options.preferred_address_types.iter().find_map(by_type) else {
            let known: Vec<String> = addresses
                .iter()
                .map(|address| format!("{{{} {}}}", address.text("type"), address.text("address")))
                .collect();
            let text = format!("no preferred addresses found; known addresses: [{}]", known.join(" "));
            return Err(Status::unknown_reason(text));
        };
        let port = status.path(&["daemonEndpoints", "kubeletEndpoint"]).int("Port");
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let declared = status.list("declaredFeatures");
        Ok(Self {
            host: host.text("address").to_owned(),
            port: port.unwrap_or(options.kubelet_port),
            speaks_websocket: declared.iter().any(|feature| feature.as_str() == Some(SPEAKS_WEBSOCKET)),
        })
    }

    /// The address to connect to. Without `verify` any certificate is accepted.
    pub(super) fn address(&self, request: NodeRequest<'_>, verify: bool) -> WebhookAddress {
        let within = request.api.options.nodes.timeout;
        request.api.nodes.tls.kubelet(self.host.clone(), self.port, verify, within)
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn the_first_preferred_type_of_address_wins() {
        let node = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "one"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}},
            "declaredFeatures": ["A", "ExtendWebSocketsToKubelet"]}});
        let mut options = NodeOptions::default();
        let found = Kubelet::of(&node, &options).unwrap();
        assert_eq!(found, Kubelet { host: "one".to_owned(), port: 10251, speaks_websocket: true });
        options.preferred_address_types = vec!["ExternalIP".to_owned(), "InternalIP".to_owned()];
        assert_eq!(Kubelet::of(&node, &options).unwrap().host, "10.0.0.1");
        options.preferred_address_types.pop();
        assert_eq!(
            Kubelet::of(&node, &options).unwrap_err().message,
            "no preferred addresses found; known addresses: [{InternalIP 10.0.0.1} {Hostname one}]"
        );
        let node = json!({"status": {"addresses": [{"type": "ExternalIP", "address": "2001:db8::1"}]}});
        assert_eq!(
            Kubelet::of(&node, &options).unwrap(),
            Kubelet { host: "2001:db8::1".to_owned(), port: 10250, speaks_websocket: false }
        );
    }
}
