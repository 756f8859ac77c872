//! The bootstrap objects: namespaces, RBAC policy, the `kubernetes` Service, priority classes, APIServices and flow
//! schemas.
//!
//! Written before the server listens, so that the first request finds them; kube-apiserver does it in post-start
//! hooks. Every step creates what is missing and repairs what the server maintains, so that it may run at each start
//! and on several servers at once. Namespaces come first, because the rest needs them; everything after is
//! concurrent within a bound, so that one fsync covers many objects.
//!
//! The objects are data elsewhere: [`super::bootstrap_policy`], [`super::first_objects`], `fairness/bootstrap.rs`.
//! Later repairs of flow schemas are [`super::flow_control`]; nothing else is restored while the server runs.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::try_join;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use crate::allocate::services::KUBERNETES_ADDRESS;
use crate::api::Api;
use crate::lifecycle::first_objects::Authorities;
use crate::lifecycle::{bootstrap_policy, first_objects, flow_control};
use crate::pipeline::internal::{amend, ensure};
use crate::registry::Resource;

/// The namespaces that kube-apiserver creates at its start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// Objects of a list that are written at the same time. More would save a few fsyncs and hold the trees and buffers of all
/// writes at once, in memory that the process keeps.
const AT_ONCE: usize = 64;

/// Writes the bootstrap objects that are missing. `port` is that of the `kubernetes` Service's target; `ca_pem` goes
/// into `kube-root-ca.crt`.
///
/// The watch cache must follow the store already, since existence is looked up there.
///
/// # Errors
/// The store fails.
#[doc(alias = "PostStartHook")]
pub(super) async fn write(
    api: &Api,
    port: u16,
    ca_pem: Option<&str>,
    trusted: &Authorities,
) -> Result<(), Status> {
    let namespace = |name| put(api, "", "namespaces", json!({"metadata": {"name": name}}));
    try_join_all(NAMESPACES.map(|name| unless_refused(namespace(name)))).await?;
    let policy = bootstrap_policy::objects();
    let policy = some_at_once(api, policy, |(plural, object)| unless_refused(grant(api, plural, object)));
    let service = unless_refused(put(api, "", "services", kubernetes(port)));
    let contents = NAMESPACES.map(|name| unless_refused(bootstrap_namespace(api, name, ca_pem)));
    let fairness = unless_refused(flow_control::maintain(api));
    let others = some_at_once(api, first_objects::objects(), |object| unless_refused(first(api, object)));
    let authentication = unless_refused(publish(api, trusted));
    let tracking = first_objects::token_tracking(&crate::pipeline::now());
    let tracking = unless_refused(put(api, "", "configmaps", tracking));
    try_join!(fairness, policy, service, try_join_all(contents), others, authentication, tracking)?;
    Ok(())
}

/// Logs a refusal by admission instead of returning it: the webhook that fails may run in this cluster, which needs a
/// server that starts. What is missing is tried again at the next start.
async fn unless_refused(write: impl Future<Output = Result<(), Status>>) -> Result<(), Status> {
    let refused = |status: &Status| status.code < 500 || status.message.contains("failed calling webhook");
    match write.await {
        Err(status) if refused(&status) => {
            tracing::warn!(error = %status, "admission refused a bootstrap object");
            Ok(())
        }
        done => done,
    }
}

/// Writes objects, [`AT_ONCE`] of them at one time, and drops their trees: roles and flow schemas are seldom written again.
async fn some_at_once<T, W>(api: &Api, objects: Vec<T>, write: impl Fn(T) -> W) -> Result<(), Status>
where
    W: Future<Output = Result<(), Status>>,
{
    let mut objects = objects.into_iter().map(write);
    loop {
        let writes: Vec<W> = objects.by_ref().take(AT_ONCE).collect();
        if writes.is_empty() {
            return Ok(());
        }
        try_join_all(writes).await?;
        api.cache.trees.clear();
    }
}

/// Writes one of the other first objects, and its condition if it has none.
async fn first(
    api: &Api,
    (group, plural, object, condition): (&str, &str, Value, Option<Value>),
) -> Result<(), Status> {
    let resource = api.registry.find(group, "v1", plural).ok_or_else(Status::no_such_path)?;
    let name = object.at("metadata").text("name");
    create_missing(api, &resource, &object).await?;
    let Some(condition) = condition else { return Ok(()) };
    let now = crate::pipeline::now();
    amend(api, &resource, None, name, |stored| first_objects::with_condition(stored, &condition, &now)).await
}

/// Publishes the CAs that extension API servers trust.
async fn publish(api: &Api, trusted: &Authorities) -> Result<(), Status> {
    let wanted = first_objects::authentication(trusted);
    put(api, "", "configmaps", wanted.clone()).await?;
    let resource = api.registry.find("", "v1", "configmaps").ok_or_else(Status::no_such_path)?;
    let meta = wanted.at("metadata");
    amend(api, &resource, Some(meta.text("namespace")), meta.text("name"), |stored| {
        let mut new = stored.clone();
        new.put("data", wanted.at("data").clone());
        Some(new)
    })
    .await
}

/// Creates a default role or binding, or adds what a stored one lacks.
///
/// Reconciles by adding: rules that an administrator added to a default role stay.
async fn grant(api: &Api, plural: &str, wanted: Value) -> Result<(), Status> {
    let resource = api.registry.find(RBAC, "v1", plural).ok_or_else(Status::no_such_path)?;
    let (namespace, name) = (wanted.at("metadata").text("namespace"), wanted.at("metadata").text("name"));
    let namespace = (!namespace.is_empty()).then_some(namespace);
    if create_missing(api, &resource, &wanted).await? {
        return Ok(());
    }
    amend(api, &resource, namespace, name, |stored| bootstrap_policy::repaired(stored, &wanted)).await
}

/// The Service that Pods find the API server by.
fn kubernetes(port: u16) -> Value {
    json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": KUBERNETES_ADDRESS.to_string(),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
        }
    })
}

/// Creates the `default` ServiceAccount of a namespace and the `kube-root-ca.crt` ConfigMap, with which Pods verify the
/// server. The ConfigMap of `kube-system` is left to kube-controller-manager: its presence tells the ServiceAccount
/// plugin that one runs.
///
/// # Errors
/// If the store fails or the namespace is being deleted.
pub(super) async fn bootstrap_namespace(
    api: &Api,
    namespace: &str,
    ca_pem: Option<&str>,
) -> Result<(), Status> {
    put(api, "", "serviceaccounts", json!({"metadata": {"name": "default", "namespace": namespace}})).await?;
    let Some(ca_pem) = ca_pem.filter(|_| namespace != "kube-system") else { return Ok(()) };
    let about = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
    let bundle = json!({
        "metadata": {"name": "kube-root-ca.crt", "namespace": namespace, "annotations": {"kubernetes.io/description": about}},
        "data": {"ca.crt": ca_pem}
    });
    put(api, "", "configmaps", bundle).await
}

/// Creates an object unless it exists; an existing one may have been changed on purpose.
async fn put(api: &Api, group: &str, plural: &str, object: Value) -> Result<(), Status> {
    let resource = api.registry.find(group, "v1", plural).ok_or_else(Status::no_such_path)?;
    create_missing(api, &resource, &object).await.map(drop)
}

/// Creates an object unless it exists; returns true if it did not. Admission sees only what is missing.
async fn create_missing(api: &Api, resource: &Arc<Resource>, object: &Value) -> Result<bool, Status> {
    let meta = object.at("metadata");
    let (namespace, name) = (meta.text("namespace"), meta.text("name"));
    let key = resource.key((!namespace.is_empty()).then_some(namespace), name);
    let known = resource.collection.snapshot().get(&key).is_some();
    if !known {
        ensure(api, Arc::clone(resource), object).await?;
    }
    Ok(!known)
}
