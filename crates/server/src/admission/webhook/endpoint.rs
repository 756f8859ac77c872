//! [`Endpoint`]: where a webhook is, by its `clientConfig`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use rustls::ClientConfig;

use crate::api::Api;
use crate::cache::Filter;
use crate::outbound::{WebhookAddress, tls};

/// Where a webhook is.
#[derive(Debug)]
pub(crate) struct Endpoint {
    place: Place,
    path: String,
    tls: Arc<ClientConfig>,
    /// Identifies the TLS configuration among the kept connections.
    trust: String,
}

#[derive(Debug)]
enum Place {
    Url { host: String, port: u16 },
    Service { namespace: String, name: String, port: i64 },
}

impl Endpoint {
    /// Reads a `clientConfig`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(config: &Value) -> Result<Self, String> {
        let bundle = config.text("caBundle");
        let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
        let tls = tls::client_config(&pem)?;
        let trust = bundle.to_owned();
        if config.has("service") {
            let service = config.at("service");
            let place = Place::Service {
                namespace: service.text("namespace").to_owned(),
                name: service.text("name").to_owned(),
                port: service.int("port").unwrap_or(443),
            };
            let path = format!("/{}", service.text("path").trim_start_matches('/'));
            return Ok(Self { place, path, tls, trust });
        }
        let url: http::Uri = config.text("url").parse().map_err(|_| "the URL is malformed".to_owned())?;
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let place = Place::Url { host, port: url.port_u16().unwrap_or(443) };
        Ok(Self { place, path: url.path().to_owned(), tls, trust })
    }

    /// Posts a body; returns the body of the answer.
    ///
    /// # Errors
    /// Why that was not possible, in the words of Go's HTTP client.
    pub(crate) async fn post(&self, api: &Api, body: Bytes, timeout: Duration) -> Result<Bytes, String> {
        let target = self.target(api)?;
        let path = format!("{}?timeout={}s", self.path, timeout.as_secs());
        let url = format!("https://{}{path}", target.authority());
        let called = tokio::time::timeout(timeout, api.webhooks.post(&target, &path, body)).await;
        let called = called.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        called.map_err(|why| format!("Post {url:?}: {why}"))
    }

    fn target(&self, api: &Api) -> Result<WebhookAddress, String> {
        let (server_name, address, port) = match &self.place {
            Place::Url { host, port } => (host.clone(), host.clone(), *port),
            Place::Service { namespace, name, port } => {
                let (address, target_port) = resolve(api, namespace, name, *port)?;
                (format!("{name}.{namespace}.svc"), address.to_string(), target_port)
            }
        };
        let tls = Arc::clone(&self.tls);
        Ok(WebhookAddress { server_name, address, port, tls, trust: self.trust.clone() })
    }
}

/// Returns the address behind a Service: a ready endpoint, else the cluster address.
fn resolve(api: &Api, namespace: &str, name: &str, port: i64) -> Result<(IpAddr, u16), String> {
    let missing = || format!("service {name:?} not found");
    let services = api.registry.find("", "v1", "services").ok_or_else(missing)?;
    let snapshot = services.collection.snapshot();
    let service = snapshot.get(&services.key(Some(namespace), name)).ok_or_else(missing)?;
    let service = Value::read(service.stored()).map_err(|error| error.to_string())?;
    let ports = service.at("spec").list("ports");
    let own = ports.iter().find(|own| own.int("port") == Some(port));
    let own = own.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    if let Some(found) = ready_endpoint(api, namespace, name, own.text("name")) {
        return Ok(found);
    }
    let address = service.at("spec").text("clusterIP").parse();
    let port = u16::try_from(port).map_err(|error| error.to_string())?;
    address.map(|address| (address, port)).map_err(|_| format!("no endpoints available for service {name:?}"))
}

fn ready_endpoint(api: &Api, namespace: &str, service: &str, port: &str) -> Option<(IpAddr, u16)> {
    let slices = api.registry.find("discovery.k8s.io", "v1", "endpointslices")?;
    let snapshot = slices.collection.snapshot();
    let mut filter = Filter::default();
    filter.namespace = Some(namespace.into());
    for slice in snapshot.range(&slices.collection.walk(&filter, None)) {
        let slice = Value::read(slice.stored()).ok()?;
        if slice.path(&["metadata", "labels"]).text("kubernetes.io/service-name") != service {
            continue;
        }
        let own = slice.list("ports").iter().find(|own| own.text("name") == port);
        let number = own.and_then(|own| own.int("port")).and_then(|number| u16::try_from(number).ok());
        let ready = |endpoint: &&Value| endpoint.at("conditions").at("ready").as_bool() != Some(false);
        let address = slice.list("endpoints").iter().find(ready).and_then(|endpoint| {
            endpoint.list("addresses").first().and_then(Value::as_str).and_then(|text| text.parse().ok())
        });
        if let (Some(address), Some(number)) = (address, number) {
            return Some((address, number));
        }
    }
    None
}
