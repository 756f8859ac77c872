//! The custom kind, its definition, and the ConfigMap that each object leads to; shared by both operators.

use std::sync::atomic::AtomicU64;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, CustomResourceExt, Resource};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The operator, as field manager, finalizer and lease.
pub(crate) const NAME: &str = "greeter.example.com";

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The number of reconciliations, for the benchmark.
pub(crate) static RECONCILES: AtomicU64 = AtomicU64::new(0);

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, schema = "disabled")]
pub(crate) struct GreetingSpec {
    pub(crate) text: String,
}

/// The ConfigMap that a greeting should have.
pub(crate) fn desired(greeting: &Greeting) -> Value {
    let owners: Vec<_> = greeting.controller_owner_ref(&()).into_iter().collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": greeting.metadata.name, "ownerReferences": owners},
        "data": {"text": greeting.spec.text},
    })
}

/// Makes the kind known to the server.
pub(crate) async fn define(client: &Client) -> Result<(), Error> {
    let mut definition = serde_json::to_value(Greeting::crd())?;
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 1000}},
    }}});
    if let Some(version) = definition.pointer_mut("/spec/versions/0") {
        version["schema"] = json!({ "openAPIV3Schema": schema });
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.patch(Greeting::crd_name(), &PatchParams::apply(NAME).force(), &Patch::Apply(definition)).await?;
    Ok(())
}
