//! The controller of CustomResourceDefinitions: accepts names, publishes resources in the registry, and deletes the
//! objects of a definition that is deleted.
//!
//! kube-apiserver has one controller each for names, establishing and finalizing; here one loop does all three from
//! one snapshot, because they depend on each other. It follows the cache rather than the log, since it must decide on
//! the state that requests see: a kind is served only after its definition is readable. Writes are conditional on the
//! revision that was read; a lost race brings the next event and another round.
//!
//! `restore` runs before the server listens, so that no request after a restart gets a 404 for an established kind.
//! Compiled definitions are kept in [`super::known`]; the resources are made by [`crate::registry::custom`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use listwatch_custom::{Definition, NameConflict, name_conflicts};
use listwatch_kinds::tree::Tree;
use listwatch_storage::{Expect, Write};
use listwatch_wire::json::Value;
use listwatch_wire::{Revision, json};

use crate::api::Api;
use crate::cache::{CachedObject, Collection, Filter, Portion};
use crate::lifecycle::known::{KnownDefinitions, StoredDefinition};
use crate::lifecycle::namespaces::is_held;
use crate::outbound::tls::bundle_problem;
use crate::pipeline::internal::OWN_MANAGER;
use crate::pipeline::origin;
use crate::registry::managed::Tracking;
use crate::registry::{Resource, custom, is_builtin};

const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The interval at which a definition in deletion is checked: its objects may be held by finalizers of their own. It doubles up to
/// [`LONGEST_RETRY`] while nothing happens, since they may be held for days.
const TERMINATING_RETRY: Duration = Duration::from_millis(200);
/// The longest interval of these checks.
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// The number of changes taken at a time; any number of them leads to one look at everything.
const BATCH: Portion = Portion { events: 1000, bytes: usize::MAX };

/// Keeps what is served in step with the definitions in the store.
///
/// The only writer of custom resources in the registry.
#[doc(alias = "NamingConditionController")]
#[doc(alias = "EstablishingController")]
#[doc(alias = "CRDFinalizer")]
#[derive(Debug)]
pub(crate) struct Definitions {
    api: Arc<Api>,
    collection: Arc<Collection>,
    known: KnownDefinitions,
}

impl Definitions {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        let collection = api.cache.collection(COLLECTION, &[]);
        Self { api, collection, known: KnownDefinitions::default() }
    }

    /// Serves the definitions that were established before, so that no request after a restart misses a kind.
    pub(crate) fn restore(&mut self) {
        self.update();
        let established = self.known.each().filter(|stored| stored.definition.established);
        let resources = established.flat_map(|stored| {
            stored.served = true;
            resources(&self.api, stored)
        });
        self.api.registry.replace(|_| false, resources.collect());
        self.publish_versions();
    }

    /// Follows the definitions until the cache ends. Definitions in deletion are looked at again at intervals, since
    /// their objects may have finalizers.
    pub(crate) async fn run(mut self) {
        let mut cursor =
            self.api.cache.watch(&self.collection, Filter::default(), self.api.cache.position().get());
        let (mut left, mut pause) = (0, TERMINATING_RETRY);
        loop {
            let pending = self.reconcile().await;
            pause = if pending == left { (pause * 2).min(LONGEST_RETRY) } else { TERMINATING_RETRY };
            left = pending;
            let more = cursor.next(BATCH);
            let ended = match pending {
                0 => more.await.is_err(),
                _ => tokio::time::timeout(pause, more).await.is_ok_and(|next| next.is_err()),
            };
            if ended {
                return;
            }
        }
    }

    /// Takes the state that requests see at this moment.
    fn update(&mut self) {
        let walk = self.collection.walk(&Filter::default(), None);
        self.known.update(self.collection.snapshot().range(&walk));
    }

    /// Looks at every definition that may have to be changed or served; returns the number of objects whose deletion holds up
    /// that of their definition.
    ///
    /// Definitions that are settled cost a comparison of revisions; compiled ones are kept in `known`.
    async fn reconcile(&mut self) -> usize {
        self.update();
        let mut known = std::mem::take(&mut self.known);
        let all = known.definitions();
        self.stop_serving_unknown(&all);
        let mut pending = 0;
        for stored in known.each() {
            if stored.definition.terminating {
                self.serve(stored);
                pending += self.finish(stored).await;
            } else if !stored.settled && self.accept(stored, &all).await && stored.definition.established {
                self.serve(stored);
            }
        }
        self.known = known;
        self.publish_versions();
        pending
    }

    /// Tells which versions are served, for the APIServices of their groups.
    fn publish_versions(&self) {
        let definitions = self.known.definitions();
        let served = definitions.iter().flat_map(|definition| {
            let versions = definition.versions.iter().filter(|version| version.served);
            versions.map(|version| (definition.group.clone(), version.name.clone()))
        });
        let served = served.collect();
        self.api.registry.custom_versions.send_if_modified(|known| {
            let changed = *known != served;
            *known = served;
            changed
        });
    }

    /// Brings names and conditions up to date; returns whether the names are accepted.
    async fn accept(&self, stored: &mut StoredDefinition, all: &[Arc<Definition>]) -> bool {
        let mut conflicts = name_conflicts(&stored.definition, all.iter().map(|other| &**other));
        conflicts.extend(builtin_conflict(&stored.definition));
        let Ok(mut object) = Value::read(stored.object.stored()) else { return false };
        let accepted = conflicts.is_empty();
        grant_names(&mut object, &conflicts);
        match conflicts.last() {
            None => {
                condition(&mut object, "NamesAccepted", true, "NoConflicts", "no conflicts found");
                let webhook = object.at("spec").path(&["conversion", "webhook", "clientConfig"]);
                let unusable = bundle_problem(webhook.text("caBundle")).is_some();
                if unusable && !stored.definition.established {
                    let why = "The conversion webhook CABundle is invalid";
                    condition(&mut object, "Established", false, "InvalidCABundle", why);
                } else {
                    let why = "the initial names have been accepted";
                    condition(&mut object, "Established", true, "InitialNamesAccepted", why);
                }
            }
            Some(conflict) => {
                condition(&mut object, "NamesAccepted", false, conflict.reason, &conflict.message);
                if !stored.definition.established {
                    condition(&mut object, "Established", false, "NotAccepted", "not all names are accepted");
                }
            }
        }
        listwatch_custom::set_approval_condition(&mut object, &crate::pipeline::now());
        listwatch_custom::remember_version(&mut object);
        stored.settled = !self.write_status(&stored.object, object).await;
        accepted
    }

    /// Deletes the objects of a definition that is being deleted, then removes its finalizer. Returns the number of objects that are
    /// left.
    ///
    /// Deletes one after the other, without admission, as kube-apiserver's finalizer does. Objects with finalizers of
    /// their own keep the definition until those are gone.
    async fn finish(&self, stored: &StoredDefinition) -> usize {
        // The objects of a built-in kind are not those of a definition.
        let left = if is_builtin(&stored.definition.name) { 0 } else { self.delete_objects(stored).await };
        if left > 0 {
            return left;
        }
        let Ok(mut object) = Value::read(stored.object.stored()) else { return 0 };
        let others: Vec<Value> = object
            .at("metadata")
            .list("finalizers")
            .iter()
            .filter(|f| f.as_str() != Some(custom::CLEANUP))
            .cloned()
            .collect();
        if others.is_empty() {
            self.write(&stored.object, None).await;
            return 0;
        }
        if let Some(metadata) = object.inner("metadata") {
            metadata.put("finalizers", others);
        }
        self.write(&stored.object, Some(object)).await;
        0
    }

    /// Deletes the objects of a definition and stops serving it once none is left. Returns the number of those that are.
    async fn delete_objects(&self, stored: &StoredDefinition) -> usize {
        let collection = self.api.cache.collection(&stored.definition.name, &[]);
        let walk = collection.walk(&Filter::default(), None);
        let left: Vec<Arc<CachedObject>> = collection.snapshot().range(&walk).cloned().collect();
        for object in left.iter().filter(|object| !is_held(object)) {
            self.remove(object).await;
        }
        if !left.is_empty() {
            self.set_terminating_condition(stored).await;
            return left.len();
        }
        self.stop_serving(&stored.definition.name);
        collection.end_watches();
        0
    }

    /// Sets the `Terminating` condition while objects are being deleted.
    async fn set_terminating_condition(&self, stored: &StoredDefinition) {
        let Ok(mut object) = Value::read(stored.object.stored()) else { return };
        let (reason, message) = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
        condition(&mut object, "Terminating", true, reason, message);
        self.write_status(&stored.object, object).await;
    }

    /// Deletes an object of a kind whose definition is deleted, or marks it if it has finalizers.
    async fn remove(&self, object: &Arc<CachedObject>) {
        let Ok(mut value) = Value::read(object.stored()) else {
            // An unreadable object is removed without its finalizers, since it cannot be updated.
            self.write(object, None).await;
            return;
        };
        let metadata = value.at("metadata");
        if metadata.list("finalizers").is_empty() {
            self.write(object, None).await;
        } else if metadata.text("deletionTimestamp").is_empty() {
            if let Some(metadata) = value.inner("metadata") {
                metadata.put("deletionTimestamp", crate::pipeline::now());
                metadata.put("deletionGracePeriodSeconds", 0);
                let generation = metadata.int("generation").unwrap_or(0);
                metadata.put("generation", generation + 1);
            }
            self.write(object, Some(value)).await;
        }
    }

    /// Writes a definition with another status, and records the server as the owner of what it changed.
    async fn write_status(&self, stored: &CachedObject, mut object: Value) -> bool {
        let old = Value::read(stored.stored()).unwrap_or_default();
        let definitions = self.api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        if let Some(definitions) = definitions.filter(|_| object != old) {
            let tracking = Tracking {
                manager: OWN_MANAGER.to_owned(),
                api_version: definitions.api_version(),
                subresource: "status",
                time: crate::pipeline::now(),
            };
            definitions.rules.track(&tracking, Some(&old), &mut object);
        }
        self.write(stored, Some(object)).await
    }

    /// Writes if the object has not changed. A lost race is harmless, because the winning change triggers another
    /// round. Returns whether there was anything to write.
    ///
    /// Goes to the engine directly: a definition must be removable even if admission would refuse the write.
    async fn write(&self, stored: &CachedObject, value: Option<Value>) -> bool {
        let value = value.map(|value| json::encode_stored(&value).into());
        if value.as_ref() == Some(stored.stored()) {
            return false;
        }
        let (expect, origin) = (Expect::At(stored.revision()), Some(origin::own()));
        let write = Write { key: Arc::clone(stored.key()), value, expect, origin };
        if let Err(error) = self.api.engine.write(write).await {
            tracing::warn!(key = %stored.key(), %error, "cannot write");
        }
        true
    }

    /// Serves a definition as it is now, unless that has been done.
    fn serve(&self, stored: &mut StoredDefinition) {
        if !std::mem::replace(&mut stored.served, true) {
            let name = &stored.definition.name;
            let now = resources(&self.api, stored);
            let lost: Vec<Arc<Resource>> = self
                .api
                .registry
                .served()
                .resources()
                .iter()
                .filter(|resource| belongs(resource, name))
                .filter(|resource| !now.iter().any(|other| other.version == resource.version))
                .cloned()
                .collect();
            self.api.registry.replace(|resource| belongs(resource, name), now);
            lost.iter().for_each(|resource| resource.collection.restart_watches());
        }
    }

    /// Watches of the kind end, and requests get a 404 from now on.
    fn stop_serving(&self, name: &str) {
        self.api.registry.replace(|resource| belongs(resource, name), Vec::new());
    }

    /// Stops serving kinds whose definition was deleted unnoticed.
    fn stop_serving_unknown(&self, all: &[Arc<Definition>]) {
        let known: HashSet<&str> = all.iter().map(|definition| &*definition.name).collect();
        let unknown =
            |resource: &Resource| resource.is_custom() && !known.contains(resource.collection.name());
        if self.api.registry.served().resources().iter().any(|resource| unknown(resource)) {
            self.api.registry.replace(unknown, Vec::new());
        }
    }
}

/// One per served version. Objects older than the definition are completed with its defaults when they are shown,
/// except while it is being deleted.
fn resources(api: &Api, stored: &StoredDefinition) -> Vec<Arc<Resource>> {
    let StoredDefinition { definition, object, .. } = stored;
    if is_builtin(&definition.name) {
        return Vec::new();
    }
    let since = if definition.terminating { Revision::ZERO } else { object.revision() };
    custom::resources(&api.cache, definition, since)
}

/// By the collection, whose name is that of the definition.
fn belongs(resource: &Resource, definition: &str) -> bool {
    resource.is_custom() && resource.collection.name() == definition
}

/// The conflict of a definition with a built-in kind of the same group and plural.
fn builtin_conflict(definition: &Definition) -> Option<NameConflict> {
    let message = format!("{:?} is already in use", definition.names.plural);
    is_builtin(&definition.name).then_some(NameConflict {
        field: "plural",
        reason: "PluralConflict",
        message,
    })
}

/// Brings `acceptedNames` up to date with `spec.names`, but for those that others have.
fn grant_names(object: &mut Value, conflicts: &[NameConflict]) {
    let wanted = object.at("spec").at("names").clone();
    let Some(accepted) =
        object.inner_or_new("status").and_then(|status| status.inner_or_new("acceptedNames"))
    else {
        return;
    };
    for field in ["plural", "singular", "shortNames", "kind", "listKind", "categories"] {
        if conflicts.iter().any(|conflict| conflict.field == field) {
            continue;
        }
        match wanted.get(field) {
            Some(name) => accepted.put(field, name.clone()),
            None => drop(accepted.remove(field)),
        }
    }
}

fn condition(object: &mut Value, kind: &str, holds: bool, reason: &str, message: &str) {
    listwatch_custom::set_condition(object, kind, holds, (reason, message), &crate::pipeline::now());
}
