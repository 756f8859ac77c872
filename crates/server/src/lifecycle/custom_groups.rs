//! APIServices of custom groups: one for every version that a CustomResourceDefinition serves.
//!
//! The counterpart of kube-apiserver's autoregistration. Requests are not routed by these objects: they are for clients that
//! list APIServices to see which groups are served and available. Only objects with the label of this controller are
//! changed or deleted, so that an APIService of a user for the same version stays. The versions come from
//! [`super::definitions`]; [`super::api_services`] calls this when they or APIServices change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::DeleteOptions;

use crate::api::Api;
use crate::cache::{Collection, Filter};
use crate::lifecycle::first_objects::{local_condition, with_condition};
use crate::pipeline::internal::{amend, ensure, remove};
use crate::registry::Resource;
use crate::registry::extension::CUSTOM_GROUP_PRIORITY;

/// The label that marks an APIService as this controller's.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Its value for objects that are kept in step; those of built-in groups are only written at the start.
const KEPT: &str = "true";

/// The priority of all versions of a custom group, as in kube-apiserver: their names decide the order.
const VERSION_PRIORITY: i64 = 100;

/// Group and version.
pub(crate) type ServedGroupVersion = (String, String);

/// Brings the APIServices of custom groups in step with the versions that are served.
///
/// A failed write is logged and tried again with the next change: nothing depends on these objects.
pub(super) async fn register(api: &Api, collection: &Collection, wanted: &BTreeSet<ServedGroupVersion>) {
    let Some(resource) = api.registry.find("apiregistration.k8s.io", "v1", "apiservices") else { return };
    let known = api_services(collection);
    for (name, object) in
        wanted.iter().map(|version| (format!("{}.{}", version.1, version.0), desired(version)))
    {
        let written = match known.get(&name) {
            None => write(api, &resource, &name, &object).await,
            Some(stored) if is_kept(stored) && !is_settled(stored, &object) => {
                restore(api, &resource, &name, &object).await
            }
            Some(_) => Ok(()),
        };
        report(&name, written);
    }
    let wanted: BTreeSet<String> =
        wanted.iter().map(|(group, version)| format!("{version}.{group}")).collect();
    let gone = known.iter().filter(|(name, stored)| is_kept(stored) && !wanted.contains(*name));
    for (name, _) in gone {
        let removed = remove(api, &resource, None, name, &DeleteOptions::default()).await;
        report(name, removed.map(drop));
    }
}

/// All APIServices by name.
fn api_services(collection: &Collection) -> BTreeMap<String, Value> {
    let walk = collection.walk(&Filter::default(), None);
    let snapshot = collection.snapshot();
    let objects = snapshot.range(&walk).filter_map(|object| Value::read(object.stored()).ok());
    objects.map(|object| (object.at("metadata").text("name").to_owned(), object)).collect()
}

fn is_kept(stored: &Value) -> bool {
    stored.at("metadata").at("labels").text(MANAGED) == KEPT
}

/// Returns true if there is nothing to write.
fn is_settled(stored: &Value, desired: &Value) -> bool {
    stored.at("spec") == desired.at("spec") && stored.at("status").count("conditions") > 0
}

/// The APIService of a version.
fn desired((group, version): &ServedGroupVersion) -> Value {
    json!({
        "metadata": {"name": format!("{version}.{group}"), "labels": {MANAGED: KEPT}},
        "spec": {
            "group": group.as_str(), "version": version.as_str(),
            "groupPriorityMinimum": CUSTOM_GROUP_PRIORITY, "versionPriority": VERSION_PRIORITY,
        },
    })
}

async fn write(api: &Api, resource: &Arc<Resource>, name: &str, object: &Value) -> Result<(), Status> {
    ensure(api, Arc::clone(resource), object).await?;
    restore(api, resource, name, object).await
}

/// Sets the spec back if it was changed, and the condition if there is none.
async fn restore(api: &Api, resource: &Resource, name: &str, object: &Value) -> Result<(), Status> {
    let now = crate::pipeline::now();
    amend(api, resource, None, name, |stored| {
        let mut new = stored.clone();
        if stored.at("spec") != object.at("spec") {
            new.put("spec", object.at("spec").clone());
        }
        Some(with_condition(&new, &local_condition(), &now).unwrap_or(new))
    })
    .await
}

fn report(name: &str, written: Result<(), Status>) {
    if let Err(error) = written {
        tracing::warn!(name, %error, "the APIService of a custom group cannot be written");
    }
}
