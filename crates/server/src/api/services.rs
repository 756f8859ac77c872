//! The address behind a Service, for calls to webhooks and extension API servers.
//!
//! kube-apiserver relies on kube-proxy or picks an endpoint; here a ready endpoint of an EndpointSlice comes first,
//! then the cluster IP, since a server outside of a cluster network can often reach Pods but no virtual addresses. An
//! `ExternalName` Service leads to that name, which lets a webhook run on the same machine. The connection itself is
//! [`crate::outbound`].

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::Api;
use crate::cache::Filter;
use crate::outbound::{Endpoint, has_more_values};

impl Api {
    /// Posts a body to a webhook; returns the body of the response.
    ///
    /// # Errors
    /// Why that was not possible.
    pub(crate) async fn call_webhook(
        &self,
        endpoint: &Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, String> {
        let locate = |namespace: &str, name: &str, port| resolve(self, namespace, name, port);
        let answer = endpoint.post(&self.webhooks, locate, body, timeout).await?;
        let most = self.options.admission.webhooks.answer_values;
        match has_more_values(&answer, most) {
            true => Err(format!("the response has more than {most} values")),
            false => Ok(answer),
        }
    }

    /// Host and port behind a port of a Service.
    ///
    /// # Errors
    /// Why there is none.
    #[doc(alias = "ServiceResolver")]
    pub(crate) fn locate(&self, namespace: &str, name: &str, port: i64) -> Result<(String, u16), String> {
        resolve(self, namespace, name, port)
    }
}

/// Returns host and port behind a Service: a ready endpoint, else the cluster address; for an `ExternalName` that name, so
/// that a server on this machine is reached as `localhost`.
fn resolve(api: &Api, namespace: &str, name: &str, port: i64) -> Result<(String, u16), String> {
    let missing = || format!("service {name:?} not found");
    let services = api.registry.find("", "v1", "services").ok_or_else(missing)?;
    let snapshot = services.collection.snapshot();
    let service = snapshot.get(&services.key(Some(namespace), name)).ok_or_else(missing)?;
    let service = Value::read(service.stored()).map_err(|error| error.to_string())?;
    let spec = service.at("spec");
    let number = u16::try_from(port).map_err(|error| error.to_string())?;
    if spec.text("type") == "ExternalName" {
        return Ok((spec.text("externalName").to_owned(), number));
    }
    let ports = spec.list("ports");
    let own = ports.iter().find(|own| own.int("port") == Some(port));
    let own = own.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    if let Some(found) = ready_endpoint(api, namespace, name, own.text("name")) {
        let (address, port) = found;
        return Ok((address.to_string(), port));
    }
    match spec.text("clusterIP").parse::<IpAddr>() {
        Ok(address) => Ok((address.to_string(), number)),
        Err(_) => Err(format!("no endpoints available for service {name:?}")),
    }
}

/// The first ready endpoint of a Service port, from its EndpointSlices. There is no balancing: webhooks are few and
/// calls short.
fn ready_endpoint(api: &Api, namespace: &str, service: &str, port: &str) -> Option<(IpAddr, u16)> {
    let slices = api.registry.find("discovery.k8s.io", "v1", "endpointslices")?;
    let snapshot = slices.collection.snapshot();
    let mut filter = Filter::default();
    filter.namespace = Some(namespace.into());
    for slice in snapshot.range(&slices.collection.walk(&filter, None)) {
        if slice.label("kubernetes.io/service-name") != Some(service) {
            continue;
        }
        let slice = Value::read(slice.stored()).ok()?;
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
