//! [`ExtensionServers`]: groups and versions that extension API servers serve, from APIServices.
//!
//! The controller `lifecycle/api_services.rs` publishes them and keeps their discovery documents; `forward/extension.rs`
//! forwards requests, discovery and OpenAPI show them. Reading takes no lock. A server without documents is known but
//! not available: requests get a 503 instead of a 404. Group versions that are built in are never routed to an
//! extension server.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::HeaderValue;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::outbound::tls::{FrontProxyIdentity, Trust};
use crate::outbound::{CONNECT_TIMEOUT, WebhookAddress};

/// The priority of groups of custom resources: after all built-in ones.
pub(crate) const CUSTOM_GROUP_PRIORITY: i64 = 1000;

/// All groups and versions served elsewhere. Reading takes no lock: a request works with the list that it has found.
#[doc(alias = "APIAggregator")]
#[derive(Debug, Default)]
pub(crate) struct ExtensionServers(ArcSwap<Vec<Arc<ExtensionServer>>>);

/// One group and version that an extension API server serves.
///
/// One state of an APIService. Connections and documents survive a change that does not touch its spec.
#[derive(Debug)]
pub(crate) struct ExtensionServer {
    /// The name of its APIService.
    pub(crate) name: String,
    pub(crate) group: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) group_priority: i64,
    /// Namespace, name and port of the Service.
    pub(crate) service: (String, String, i64),
    /// The part of the APIService that it was made of.
    pub(crate) spec: Value,
    /// The TLS configuration, or the problem with its CA bundle, which each request reports.
    tls: Result<Arc<ClientConfig>, String>,
    /// Identifies the TLS configuration among kept connections.
    trust: String,
    /// The last discovery document; `None` while it is not available.
    documents: ArcSwapOption<Documents>,
    openapi: ArcSwap<ExtensionOpenApi>,
    /// Held while its OpenAPI documents are fetched.
    pub(crate) refreshing: tokio::sync::Mutex<()>,
}

/// The discovery document of an extension API server.
///
/// Replaced as a whole by the controller, so discovery never mixes two responses.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// Its APIResourceList.
    pub(crate) resources: Value,
}

/// The OpenAPI documents of an extension API server, each with its hash. They stay when it becomes unavailable.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtensionOpenApi {
    pub(crate) v3: Option<(String, Bytes)>,
    /// The part about its group and version.
    pub(crate) v2: Option<(String, Bytes)>,
    /// The ETag of its v2 document.
    pub(crate) v2_tag: Option<HeaderValue>,
    /// The time to ask for v2 again.
    pub(crate) v2_due: Option<Instant>,
}

impl ExtensionServers {
    /// The one that serves a group and version.
    ///
    /// Linear: there are a handful.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Arc<ExtensionServer>> {
        self.0.load().iter().find(|remote| &*remote.group == group && &*remote.version == version).cloned()
    }

    /// All extension API servers, those of higher group priority first.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<ExtensionServer>>> {
        self.0.load_full()
    }

    /// Replaces all extension API servers, sorted by the priority of their groups. Requests that began with the old
    /// ones finish with them.
    pub(crate) fn publish(&self, mut all: Vec<Arc<ExtensionServer>>) {
        all.sort_by(|a, b| (b.group_priority, &a.group).cmp(&(a.group_priority, &b.group)));
        self.0.store(Arc::new(all));
    }
}

impl ExtensionServer {
    /// Reads an APIService; `None` if it is local.
    pub(crate) fn read(object: &Value, identity: Option<&FrontProxyIdentity>) -> Option<Self> {
        let spec = object.at("spec");
        let service = spec.at("service");
        if !service.is_object() {
            return None;
        }
        let (bundle, insecure) = (spec.text("caBundle"), spec.flag("insecureSkipTLSVerify"));
        Some(Self {
            name: object.at("metadata").text("name").to_owned(),
            group: spec.text("group").into(),
            version: spec.text("version").into(),
            group_priority: spec.int("groupPriorityMinimum").unwrap_or(0),
            service: (
                service.text("namespace").to_owned(),
                service.text("name").to_owned(),
                service.int("port").unwrap_or(443),
            ),
            tls: Trust { bundle, insecure, identity }.config(),
            trust: format!("front-proxy {insecure} {bundle}"),
            spec: spec.clone(),
            documents: ArcSwapOption::empty(),
            openapi: ArcSwap::default(),
            refreshing: tokio::sync::Mutex::default(),
        })
    }

    /// Returns true if its APIService names this Service.
    pub(crate) fn is_behind(&self, namespace: &str, name: &str) -> bool {
        (&*self.service.0, &*self.service.1) == (namespace, name)
    }

    /// Its address, once host and port of the Service are known.
    ///
    /// Called per request, since endpoints of the Service may have changed.
    ///
    /// # Errors
    /// The problem with its CA bundle.
    pub(crate) fn address(&self, (host, port): (String, u16)) -> Result<WebhookAddress, String> {
        let (namespace, name, _) = &self.service;
        Ok(WebhookAddress {
            server_name: format!("{name}.{namespace}.svc"),
            address: host,
            port,
            tls: Some(Arc::clone(self.tls.as_ref().map_err(String::clone)?)),
            trust: self.trust.clone(),
            connect_timeout: CONNECT_TIMEOUT,
        })
    }

    /// Returns its discovery document, if it is available.
    pub(crate) fn documents(&self) -> Option<Arc<Documents>> {
        self.documents.load_full()
    }

    /// Returns the OpenAPI documents that it had when it was last asked.
    pub(crate) fn openapi(&self) -> Arc<ExtensionOpenApi> {
        self.openapi.load_full()
    }

    /// Sets the OpenAPI documents.
    pub(crate) fn set_openapi(&self, openapi: ExtensionOpenApi) {
        self.openapi.store(Arc::new(openapi));
    }

    /// Sets the discovery document; `None` makes the server unavailable.
    pub(crate) fn set(&self, documents: Option<Documents>) {
        self.documents.store(documents.map(Arc::new));
    }
}
