//! The health of the components of a control plane, as ComponentStatus shows it: [`Api::component`].
//!
//! As in kube-apiserver, the controller manager and the scheduler are asked at their default ports on this machine, with
//! any certificate, and only when their status is read. The texts of failures are those of Go's client. The
//! store has etcd's name, whichever engine it is. Reading it as an object is `verbs/component_status.rs`.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{HOST, USER_AGENT};
use listwatch_storage::Health;

use super::Api;
use crate::outbound::WebhookAddress;
use crate::outbound::tls::Trust;

/// The names of the components.
pub(crate) const COMPONENTS: [&str; 3] = [CONTROLLER_MANAGER, STORE, SCHEDULER];

/// The names of ComponentStatuses, which clients ask for by name.
const CONTROLLER_MANAGER: &str = "controller-manager";
const SCHEDULER: &str = "scheduler";
/// The store has the name that the first member of etcd has in kube-apiserver, with any engine.
const STORE: &str = "etcd-0";
/// Asked without credentials: components answer it to everyone.
const PATH: &str = "/healthz";
/// The time that a component has to answer, as in kube-apiserver.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The health of one component.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ComponentHealth {
    pub(crate) healthy: bool,
    /// The response of the component, or why there is none.
    pub(crate) message: String,
    /// The error of the store.
    pub(crate) error: String,
}

impl ComponentHealth {
    /// A component that answered.
    fn answered(healthy: bool, message: impl Into<String>) -> Self {
        Self { healthy, message: message.into(), error: String::new() }
    }
}

impl Api {
    /// Asks a component for its health; `None` for a name that is none of [`COMPONENTS`].
    #[doc(alias = "ComponentStatus")]
    pub(crate) async fn component(&self, name: &str) -> Option<ComponentHealth> {
        match name {
            CONTROLLER_MANAGER => Some(self.probe(10257).await),
            SCHEDULER => Some(self.probe(10259).await),
            STORE => Some(match self.engine.health() {
                Health::Ready => ComponentHealth::answered(true, "ok"),
                Health::ReadOnly(error) | Health::Damaged(error) | Health::Unavailable(error) => {
                    ComponentHealth { error, ..ComponentHealth::default() }
                }
            }),
            _ => None,
        }
    }

    /// Asks the component at a port of this machine.
    async fn probe(&self, port: u16) -> ComponentHealth {
        let asked = tokio::time::timeout(TIMEOUT, self.ask(port)).await;
        let asked = asked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let (status, body) = match asked {
            Ok(answer) => answer,
            Err(why) => {
                return ComponentHealth::answered(
                    false,
                    format!("Get \"https://127.0.0.1:{port}{PATH}\": {why}"),
                );
            }
        };
        if status.is_success() || status.is_redirection() {
            return ComponentHealth::answered(true, String::from_utf8_lossy(&body));
        }
        ComponentHealth::answered(false, format!("HTTP probe failed with statuscode: {}", status.as_u16()))
    }

    /// Asks the health endpoint of a component on this machine, as kube-apiserver does. Its certificate is its own.
    async fn ask(&self, port: u16) -> Result<(http::StatusCode, Bytes), String> {
        let trust = Trust { bundle: "", insecure: true, identity: None };
        let address = WebhookAddress {
            server_name: "127.0.0.1".to_owned(),
            address: "127.0.0.1".to_owned(),
            port,
            tls: Some(trust.config()?),
            trust: "component".to_owned(),
            connect_timeout: TIMEOUT,
        };
        let request =
            Request::get(PATH).header(HOST, address.authority()).header(USER_AGENT, "kube-probe/1.37");
        let request = request.body(Bytes::new().into()).map_err(|error| error.to_string())?;
        let (head, body) = self.webhooks.fetch(&address, request).await?.into_parts();
        Ok((head.status, body))
    }
}
