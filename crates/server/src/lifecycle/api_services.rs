//! The controller of APIServices: asks extension API servers if they are available and what they serve.
//!
//! kube-apiserver's aggregator. Each server asks for itself and routes by its own result; the `Available` condition
//! is for users and tools, and several servers may write it. Checks run concurrently, every 10 seconds, every second
//! while one fails, and after changes of APIServices, their Services or endpoints, at most once a second: users write
//! Services, and an extension API server decides the content of the condition. Results are published to
//! [`crate::registry::extension`], which `forward/extension.rs` and discovery read. Reasons and messages are
//! kube-apiserver's. OpenAPI documents follow in the background (`extension_documents.rs`).

use std::sync::Arc;
use std::time::Duration;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::cache::{CachedObject, Collection, Cursor, Filter, Portion};
use crate::lifecycle::custom_groups;
use crate::lifecycle::extension_documents::{self, ExtensionDocuments};
use crate::outbound::WebhookAddress;
use crate::pipeline::internal::amend;
use crate::registry::extension::{Documents, ExtensionServer};

/// Time between two checks of an extension API server that is available.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// The interval at which an unavailable server is checked again, and the shortest time between two checks.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// The label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Changes are looked at together.
const BATCH: Portion = Portion { events: 1000, bytes: usize::MAX };

/// Follows APIServices and checks the servers behind them.
///
/// Follows three collections of the cache rather than the log, because it only needs to know that something changed.
#[doc(alias = "kube-aggregator")]
#[doc(alias = "AvailableConditionController")]
#[derive(Debug)]
pub(crate) struct ApiServices {
    api: Arc<Api>,
    collections: [Arc<Collection>; 3],
    documents: Arc<ExtensionDocuments>,
}

/// The condition `Available`: its status, reason and message.
type AvailableCondition = (&'static str, &'static str, String);

impl ApiServices {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        let names = ["apiservices.apiregistration.k8s.io", "services", "endpointslices.discovery.k8s.io"];
        let collections = names.map(|name| api.cache.collection(name, &[]));
        let documents = Arc::new(ExtensionDocuments::new(Arc::clone(&api)));
        Self { api, collections, documents }
    }

    /// Checks all extension API servers at intervals and after changes of APIServices, their Services or endpoints,
    /// until `stop` is cancelled. Keeps the APIServices of custom groups in step with what is served.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut versions = self.api.registry.custom_versions.subscribe();
        let from = self.api.cache.position().get();
        let watch = |collection| self.api.cache.watch(collection, Filter::default(), from);
        let [services, addresses, slices] = &self.collections;
        let mut cursors = [watch(services), watch(addresses), watch(slices)];
        loop {
            if self.api.options.lifecycle.first_objects {
                let [collection, ..] = &self.collections;
                let wanted = versions.borrow_and_update().clone();
                custom_groups::register(&self.api, collection, &wanted).await;
            }
            let earliest = Instant::now() + RETRY_EVERY;
            let (remotes, pause) = self.check_all(&stop).await;
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changed(&mut cursors, &remotes) => if !changed { return },
                changed = versions.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause.unwrap_or(Duration::MAX)) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(earliest) => {}
            }
        }
    }

    /// Checks all; returns them, and the time after which they should be checked again, if there are any.
    ///
    /// Servers that are unchanged keep their connections and documents. A slow server does not delay the others: all
    /// are checked concurrently, each for five seconds at most.
    async fn check_all(&self, stop: &CancellationToken) -> (Vec<Arc<ExtensionServer>>, Option<Duration>) {
        let known = self.api.registry.remotes.all();
        let [collection, ..] = &self.collections;
        let walk = collection.walk(&Filter::default(), None);
        let objects: Vec<Value> = collection
            .snapshot()
            .range(&walk)
            .filter_map(|object| Value::read(object.stored()).ok())
            .filter(|object| object.at("spec").at("service").is_object())
            .collect();
        let remotes: Vec<Arc<ExtensionServer>> = objects
            .iter()
            .filter_map(|object| {
                let same = |remote: &&Arc<ExtensionServer>| remote.spec == *object.at("spec");
                let kept = known.iter().find(same).cloned();
                kept.or_else(|| ExtensionServer::read(object, self.api.front_proxy.as_ref()).map(Arc::new))
            })
            .collect();
        let served = self.api.registry.served();
        let routed =
            |remote: &&Arc<ExtensionServer>| !served.has_builtin_version(&remote.group, &remote.version);
        self.api.registry.remotes.publish(remotes.iter().filter(routed).cloned().collect());
        let checks = remotes.iter().map(|remote| self.check(remote, stop));
        let available: Vec<bool> = futures::future::join_all(checks).await;
        let pause = match available.iter().all(|available| *available) {
            _ if available.is_empty() => None,
            true => Some(CHECK_EVERY),
            false => Some(RETRY_EVERY),
        };
        (remotes, pause)
    }

    /// Checks one, writes its condition and has its documents fetched; returns true if it is available.
    async fn check(&self, remote: &Arc<ExtensionServer>, stop: &CancellationToken) -> bool {
        let (found, condition) = match self.ask(remote).await {
            Ok(found) => (Some(found), ("True", "Passed", "all checks passed".to_owned())),
            Err((reason, message)) => (None, ("False", reason, message)),
        };
        let available = found.is_some();
        let (documents, address) = found.unzip();
        remote.set(documents);
        if let Some(address) = address {
            let (remote, documents, stop) = (Arc::clone(remote), Arc::clone(&self.documents), stop.clone());
            tokio::spawn(async move { stop.run_until_cancelled(documents.refresh(&remote, &address)).await });
        }
        let Some(resource) = self.api.registry.find("apiregistration.k8s.io", "v1", "apiservices") else {
            return available;
        };
        let now = crate::pipeline::now();
        let written = amend(&self.api, &resource, None, &remote.name, |stored| {
            with_condition(stored, &condition, &now)
        });
        if let Err(error) = written.await {
            tracing::warn!(name = remote.name, %error, "the condition of an APIService cannot be written");
        }
        available
    }

    /// Asks an extension API server what it serves.
    async fn ask(
        &self,
        remote: &ExtensionServer,
    ) -> Result<(Documents, WebhookAddress), (&'static str, String)> {
        self.look(remote)?;
        let (namespace, name, port) = &remote.service;
        let failed = |why: String| ("FailedDiscoveryCheck", why);
        let place = self.api.locate(namespace, name, *port).map_err(failed)?;
        let path = format!("/apis/{}/{}", remote.group, remote.version);
        let url = format!("https://{}:{}{path}", place.0, place.1);
        let address = remote.address(place).map_err(failed)?;
        let missing = |why: String| failed(format!("failing or missing response from {url}: {why}"));
        let answer = extension_documents::get(&self.api, &address, &path, None).await;
        let answer = answer.map_err(|why| missing(format!("Get {url:?}: {why}")))?;
        if !answer.status().is_success() {
            return Err(missing(format!("bad status from {url}: {}", answer.status().as_u16())));
        }
        let limit = self.api.options.admission.webhooks.discovery_bytes;
        if answer.body().len() > limit {
            return Err(missing(format!("the response from {url} is larger than {limit} bytes")));
        }
        let resources = Value::read(answer.body()).unwrap_or_default();
        Ok((Documents { resources }, address))
    }

    /// Looks whether the Service can lead anywhere.
    ///
    /// # Errors
    ///
    /// Reason and message of the condition, in the order of kube-apiserver's checks: the Service, its port, its
    /// endpoints.
    fn look(&self, remote: &ExtensionServer) -> Result<(), (&'static str, String)> {
        let (namespace, name, port) = &remote.service;
        let [_, services, slices] = &self.collections;
        let snapshot = services.snapshot();
        let service = snapshot.get(&services.key(Some(namespace), name));
        let service = service.and_then(|object| Value::read(object.stored()).ok());
        let Some(service) = service else {
            return Err(("ServiceNotFound", format!("service/{name} in {namespace:?} is not present")));
        };
        let spec = service.at("spec");
        if !matches!(spec.text("type"), "" | "ClusterIP") {
            return Ok(());
        }
        let Some(own) = spec.list("ports").iter().find(|own| own.int("port") == Some(*port)) else {
            let why = format!("service/{name} in {namespace:?} is not listening on port {port}");
            return Err(("ServicePortError", why));
        };
        let mut filter = Filter::default();
        filter.namespace = Some(namespace.as_str().into());
        let snapshot = slices.snapshot();
        let of_service: Vec<Value> = snapshot
            .range(&slices.walk(&filter, None))
            .filter(|slice| slice.label(SERVICE_NAME) == Some(name))
            .filter_map(|slice| Value::read(slice.stored()).ok())
            .collect();
        if of_service.is_empty() {
            let why = format!("cannot find endpointslices for service/{name} in {namespace:?}");
            return Err(("EndpointsNotFound", why));
        }
        let port_name = own.text("name");
        if of_service.iter().any(|slice| has_address(slice, port_name)) {
            return Ok(());
        }
        let why = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        Err(("MissingEndpoints", why))
    }
}

/// Waits for a change of an APIService, or of a Service or endpoints that one of them names; false if the cache has ended.
async fn changed(cursors: &mut [Cursor; 3], remotes: &[Arc<ExtensionServer>]) -> bool {
    let [services, addresses, slices] = cursors;
    let some = !remotes.is_empty();
    loop {
        let (events, name): (_, fn(&CachedObject) -> Option<&str>) = tokio::select! {
            next = services.next(BATCH) => return next.is_ok(),
            next = addresses.next(BATCH), if some => (next, |service| Some(service.name())),
            next = slices.next(BATCH), if some => (next, |slice| slice.label(SERVICE_NAME)),
        };
        let Ok(events) = events else { return false };
        let concerns = |object: &Arc<CachedObject>| {
            name(object)
                .is_some_and(|name| remotes.iter().any(|remote| remote.is_behind(object.namespace(), name)))
        };
        // A change of the label moves an EndpointSlice from one Service to another.
        if events.iter().flat_map(|seen| [&seen.event.object, &seen.event.previous]).flatten().any(concerns) {
            return true;
        }
    }
}

/// A slice that leads somewhere: a ready endpoint, and the port by its name.
fn has_address(slice: &Value, port: &str) -> bool {
    let ready = |endpoint: &Value| endpoint.at("conditions").at("ready").as_bool() != Some(false);
    let own = |own: &Value| own.has("name") && own.text("name") == port && own.has("port");
    slice.list("endpoints").iter().any(ready) && slice.list("ports").iter().any(own)
}

/// Returns an APIService with another condition; `None` if it has that one.
fn with_condition(
    stored: &Value,
    (status, reason, message): &AvailableCondition,
    now: &str,
) -> Option<Value> {
    let mut conditions = stored.at("status").list("conditions").to_vec();
    let place = conditions.iter().position(|known| known.text("type") == "Available");
    let known = place.and_then(|place| conditions.get(place)).cloned().unwrap_or_default();
    let since = if known.text("status") == *status { known.text("lastTransitionTime") } else { now };
    let condition = json!({
        "type": "Available", "status": *status, "reason": *reason, "message": message.as_str(), "lastTransitionTime": since,
    });
    if condition == known {
        return None;
    }
    match place.and_then(|place| conditions.get_mut(place)) {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
    let mut new = stored.clone();
    new.inner_or_new("status")?.put("conditions", conditions);
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let passed: AvailableCondition = ("True", "Passed", "all checks passed".to_owned());
        let failed: AvailableCondition = ("False", "FailedDiscoveryCheck", "no".to_owned());
        let later: AvailableCondition = ("False", "FailedDiscoveryCheck", "still no".to_owned());
        let first = with_condition(&json!({}), &passed, "1").unwrap();
        assert_eq!(with_condition(&first, &passed, "2"), None);
        let second = with_condition(&first, &failed, "2").unwrap();
        let third = with_condition(&second, &later, "3").unwrap();
        let condition = &third.at("status").list("conditions")[0];
        assert_eq!((condition.text("lastTransitionTime"), condition.text("message")), ("2", "still no"));
        assert_eq!(third.at("status").count("conditions"), 1);
    }
}
