//! Custom resources: from a CustomResourceDefinition to resources that are served like any other.
//!
//! The meaning of a definition (schemas, pruning, rules) is in `listwatch_custom`; accepting names and deleting
//! objects is `lifecycle/definitions.rs`. Here each served version becomes a [`Resource`]: `rules` is its strategy,
//! `stages` and `conversion` translate between versions, [`openapi`] describes it. Objects written before a change of
//! the definition are completed when they are shown, without being written again, as in kube-apiserver.

mod conversion;
mod embedded;
mod hashes;
#[cfg(test)]
mod linear_tests;
mod node;
pub mod openapi;
mod rules;
mod scaled;
mod stages;

use std::sync::{Arc, OnceLock};

use listwatch_custom::{Definition, DefinitionScope, DefinitionVersion};
use listwatch_wire::Revision;

use crate::cache::{Cache, CachedObject, FieldLookup};
pub(crate) use crate::registry::custom::conversion::{Conversion, kind_of};
pub(crate) use crate::registry::custom::hashes::Hashes;
use crate::registry::custom::stages::{Stages, version_schemas};
use crate::registry::resource::{Presenter, Resource, SubresourceInfo, type_prefix};

/// Media types of a patch of a custom resource.
pub(crate) const PATCH_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// The finalizer that holds a definition until its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The verbs of every custom resource, in the order of discovery.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources of a definition, one per served version.
///
/// `since` is the revision of the definition: objects written before it are completed with its defaults when they are
/// shown, without being written again.
#[must_use]
pub fn resources(cache: &Cache, definition: &Definition, since: Revision) -> Vec<Arc<Resource>> {
    let collection = cache.collection(&definition.name, &[]);
    let served = definition.versions.iter().filter(|version| version.served);
    let (schemas, versions) = (version_schemas(definition), rules::versions_of(definition));
    served
        .map(|version| {
            let (kind, names) = (&definition.names.kind, &definition.names);
            let api_version = format!("{}/{}", definition.group, version.name);
            let stages = Stages::new(definition, version, &schemas);
            let conversion = Conversion::new(definition, version, &stages);
            Arc::new(Resource {
                group: definition.group.as_str().into(),
                version: version.name.as_str().into(),
                kind: kind.as_str().into(),
                list_kind: names.list_kind.as_str().into(),
                plural: names.plural.as_str().into(),
                singular: names.singular.as_str().into(),
                short_names: texts(&names.short_names),
                categories: texts(&names.categories),
                namespaced: definition.scope == DefinitionScope::Namespaced,
                verbs: verbs(definition),
                subresources: subresources(definition, version),
                fields: version.selectable.iter().map(|path| field(path)).collect(),
                builtin: None,
                custom: Some(Arc::new(version.clone())),
                rules: Arc::new(rules::Custom::new(definition, version, &stages, &versions)),
                stored_as: (
                    definition.group.as_str().into(),
                    definition.storage_version().map_or("", |stored| &*stored.name).into(),
                ),
                collection: Arc::clone(&collection),
                present: conversion.is_none().then(|| presenter(stages, since)),
                conversion,
                since,
                admission: OnceLock::new(),
                type_prefix: type_prefix(kind, &api_version),
            })
        })
        .collect()
}

/// A resource whose definition is being deleted accepts no new objects.
fn verbs(definition: &Definition) -> Vec<Arc<str>> {
    let going = |verb: &&str| !definition.terminating || !matches!(*verb, "create" | "update" | "patch");
    VERBS.into_iter().filter(going).map(Arc::from).collect()
}

fn texts(list: &[String]) -> Vec<Arc<str>> {
    list.iter().map(|text| text.as_str().into()).collect()
}

/// A selectable field of a definition: absent means empty.
fn field(path: &str) -> FieldLookup {
    FieldLookup { label: path.into(), path: path.into(), fallback: None, absent: "".into() }
}

/// `status` and `scale`, where the version declares them.
fn subresources(definition: &Definition, version: &DefinitionVersion) -> Vec<SubresourceInfo> {
    let verbs = || ["get", "patch", "update"].map(Arc::from).to_vec();
    let status = version.status.then(|| SubresourceInfo {
        name: "status".into(),
        group: "".into(),
        version: "".into(),
        kind: definition.names.kind.as_str().into(),
        verbs: verbs(),
    });
    let scale = version.scale.as_ref().map(|_| SubresourceInfo {
        name: "scale".into(),
        group: "autoscaling".into(),
        version: "v1".into(),
        kind: "Scale".into(),
        verbs: verbs(),
    });
    status.into_iter().chain(scale).collect()
}

/// Shows stored objects as a version has them: those older than the definition with the fields it has now, and those
/// stored in another version without fields that this one does not have.
fn presenter(stages: Stages, since: Revision) -> Presenter {
    Presenter::new(move |object: &CachedObject| {
        let old = object.revision() < since;
        if !old && stages.stored_alike(object.stored()) {
            return None;
        }
        let stored = listwatch_wire::json::Value::read(object.stored()).ok()?;
        let mut shown = stored.clone();
        stages.show(&mut shown, old);
        (shown != stored).then(|| listwatch_wire::json::encode_stored(&shown).into())
    })
}
