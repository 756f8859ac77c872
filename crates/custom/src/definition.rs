//! [`Definition`]: a CustomResourceDefinition as the server uses it.
//!
//! It is read once when the definition changes, and shared: schemas are parsed and rules compiled here, so that a write
//! of an object does neither. Reading is lenient, since a stored definition was validated when it was written and must
//! stay usable; [`validate_create`] and [`validate_update`] are strict. The status (accepted names, stored versions,
//! conditions) is changed by the server's controller with [`begin`], [`remember_version`] and [`set_condition`].

use std::sync::Arc;

use listwatch_wire::gvk::version_order;
use listwatch_wire::json::{Value, json};
use serde::Deserialize;

use crate::{Columns, Rules, Schema, structural};

mod approval;
mod check;
mod condition;
mod conversion;
mod names;
mod parts;
mod warnings;

pub use approval::set_approval_condition;
pub use check::{validate_create, validate_update};
pub use condition::set_condition;
pub use warnings::warnings;

/// The scope of a kind: whether its objects belong to namespaces. Immutable once the definition is established.
///
/// The registry makes the paths of a kind from it, so a change would leave stored objects under keys that are no longer
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionScope {
    /// Objects belong to a namespace; their path has one.
    Namespaced,
    /// Objects have no namespace.
    Cluster,
}

/// The names of a kind, as wanted (`spec.names`) or as accepted (`status.acceptedNames`).
///
/// The two differ until the controller has accepted the wanted ones, and again if an update asks for names that
/// another definition has. Other definitions are compared with the accepted names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    /// The resource in URL paths: `widgets`.
    pub plural: String,
    /// The name that kubectl accepts and prints for one object.
    ///
    /// The defaulting of definitions fills it with the kind in lower case if it is empty.
    pub singular: String,
    /// Abbreviations for the command line.
    pub short_names: Vec<String>,
    /// The `kind` of an object.
    pub kind: String,
    /// The `kind` of a list.
    pub list_kind: String,
    /// Groups of kinds this one is part of, such as `all`.
    ///
    /// `kubectl get all` asks discovery for them; they need not be unique.
    pub categories: Vec<String>,
}

/// One version of a kind.
///
/// Cheap to clone: schema, JSON and rules are behind `Arc`s, because the registry hands a version to every request.
#[derive(Clone, Debug)]
#[doc(alias = "CustomResourceDefinitionVersion")]
pub struct DefinitionVersion {
    /// For example `v1beta1`.
    pub name: String,
    /// True if the version is served.
    ///
    /// A version that is not served stays usable for objects that are stored in it.
    pub served: bool,
    /// True if objects are stored in this version.
    ///
    /// Exactly one version of a definition has it.
    pub storage: bool,
    /// The parsed schema.
    ///
    /// An absent schema is read as one without fields, which prunes everything; validation refuses such a definition
    /// today.
    pub schema: Arc<Schema>,
    /// The schema as declared, for publishing.
    ///
    /// The source of OpenAPI documents and of the types in rules.
    pub schema_json: Arc<Value>,
    /// The compiled expression rules.
    ///
    /// Compiled in the mode for stored definitions, so that a rule accepted by an earlier version keeps working.
    pub rules: Arc<Rules>,
    /// The columns of its tables.
    pub columns: Columns,
    /// True if status is written at its own path only.
    ///
    /// Updates of the object then ignore its status, and updates of the status everything else.
    pub status: bool,
    /// The paths of the scale subresource, if there is one.
    pub scale: Option<Scale>,
    /// The fields that field selectors may name, as `spec.color`.
    ///
    /// At most eight, bounded by validation. `metadata.name` and `metadata.namespace` can be selected in any case.
    pub selectable: Vec<String>,
    /// The deprecation warning for users of this version.
    ///
    /// Sent as a `Warning` header with every response to a request that names this version.
    pub deprecation: Option<String>,
}

/// The paths of a scale subresource, each as `.spec.replicas`.
///
/// The server reads and writes the numbers through these paths and shows them as an `autoscaling/v1` Scale, so that
/// `kubectl scale` and autoscalers work for any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[doc(alias = "CustomResourceSubresourceScale")]
pub struct Scale {
    /// The field with the wanted number of replicas; an update of the Scale writes it.
    pub spec_replicas_path: String,
    /// The field with the actual number of replicas, which the Scale only shows.
    pub status_replicas_path: String,
    /// The selector, if any.
    ///
    /// Autoscalers need it to find the pods; the field holds the selector as text.
    pub label_selector_path: Option<String>,
}

/// A webhook that converts objects between versions, from `spec.conversion`. The call itself is the server's.
///
/// Absent for the strategy `None`, where only `apiVersion` changes.
#[derive(Clone, Debug)]
pub struct ConversionWebhook {
    /// Its place, as `spec.conversion.webhook.clientConfig` has it.
    pub client_config: Value,
    /// The versions of reviews it accepts, best first.
    pub review_versions: Vec<String>,
}

impl ConversionWebhook {
    /// Reads the webhook; none unless the strategy is `Webhook`.
    fn read(conversion: &Value) -> Option<Self> {
        let webhook =
            conversion.get("webhook").filter(|_| text(conversion, "strategy") == Some("Webhook"))?;
        let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            client_config: webhook.get("clientConfig")?.clone(),
            review_versions: versions.map(str::to_owned).collect(),
        })
    }
}

/// A CustomResourceDefinition, read once and shared.
///
/// A value of this type is a snapshot: the registry replaces it when the stored definition changes, and requests that
/// are under way keep the one that they began with.
#[derive(Clone, Debug)]
#[doc(alias = "CustomResourceDefinition")]
pub struct Definition {
    /// `plural.group`.
    pub name: String,
    /// The API group.
    pub group: String,
    /// `Namespaced` or `Cluster`; it decides the paths and cannot change.
    pub scope: DefinitionScope,
    /// The names of the kind.
    pub names: Names,
    /// The names that were accepted; empty until they are.
    ///
    /// Empty names of a new definition collide with nothing, because absent names are never compared.
    pub accepted: Names,
    /// All versions, in the declared order.
    pub versions: Vec<DefinitionVersion>,
    /// The webhook that converts between them; `None` if they differ in name only.
    pub conversion: Option<ConversionWebhook>,
    /// True if the condition `Established` holds. Once true, it stays.
    ///
    /// From then on the kind is served. Names and scope can no longer change.
    pub established: bool,
    /// True if it is being deleted.
    ///
    /// Creates, updates and patches are refused while the controller deletes the objects.
    pub terminating: bool,
}

impl Definition {
    /// Reads a stored definition; `None` if it is damaged beyond use.
    ///
    /// Parses all schemas and compiles all rules, so it costs as much as the definition is large: milliseconds for a
    /// few hundred rules. Call it when a definition changes, not per request.
    #[must_use]
    pub fn read(object: &Value) -> Option<Self> {
        let spec = object.get("spec")?;
        let group = text(spec, "group")?.to_owned();
        let names = spec.get("names")?.to_type::<Names>().ok()?;
        let scope = if text(spec, "scope")? == "Cluster" {
            DefinitionScope::Cluster
        } else {
            DefinitionScope::Namespaced
        };
        let versions = spec.get("versions")?.as_array()?;
        Some(Self {
            name: text(object.get("metadata")?, "name")?.to_owned(),
            versions: versions
                .iter()
                .map(|v| DefinitionVersion::read(v, versions, &group, &names.kind))
                .collect::<Option<_>>()?,
            accepted: object
                .pointer("/status/acceptedNames")
                .and_then(|n| n.to_type::<Names>().ok())
                .unwrap_or_default(),
            conversion: spec.get("conversion").and_then(ConversionWebhook::read),
            established: has_condition(object, "Established"),
            terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
            group,
            scope,
            names,
        })
    }

    /// The version objects are stored in.
    ///
    /// `None` only for a definition that no validation would accept.
    #[must_use]
    pub fn storage_version(&self) -> Option<&DefinitionVersion> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl DefinitionVersion {
    /// Reads a version; none if its schema is too deep or its paths are too long to be walked.
    fn read(value: &Value, all: &[Value], group: &str, kind: &str) -> Option<Self> {
        let name = text(value, "name")?.to_owned();
        let schema_json = value.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({}));
        if structural::exceeded_bound(&schema_json).is_some() {
            return None;
        }
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or_default();
        let subresources = value.get("subresources");
        Some(Self {
            served: flag("served"),
            storage: flag("storage"),
            schema: Arc::new(schema_json.to_type::<Schema>().ok()?),
            rules: Arc::new(Rules::compile(&schema_json)),
            schema_json: Arc::new(schema_json),
            columns: Columns::read(value.get("additionalPrinterColumns")),
            status: subresources.is_some_and(|s| s.get("status").is_some()),
            scale: subresources.and_then(|s| s.get("scale")?.to_type::<Scale>().ok()),
            selectable: selectable(value),
            deprecation: flag("deprecated").then(|| deprecation(value, all, group, kind)),
            name,
        })
    }
}

/// The paths of `selectableFields`, as field selectors name them.
fn selectable(version: &Value) -> Vec<String> {
    let declared = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
    declared.filter_map(|field| Some(text(field, "jsonPath")?.trim_start_matches('.').to_owned())).collect()
}

/// The warning about a deprecated version: its own, or one that names the newest better version.
///
/// The order is that of Kubernetes' versions: `v2` after `v1`, `v1` after `v1beta2`.
fn deprecation(version: &Value, all: &[Value], group: &str, kind: &str) -> String {
    if let Some(warning) = text(version, "deprecationWarning") {
        return warning.to_owned();
    }
    let name = text(version, "name").unwrap_or_default();
    let flag = |version: &Value, name: &str| version.get(name).and_then(Value::as_bool).unwrap_or_default();
    let usable = all.iter().filter(|other| flag(other, "served") && !flag(other, "deprecated"));
    let newer =
        usable.filter_map(|other| text(other, "name")).filter(|other| version_order(other, name).is_gt());
    let warning = format!("{group}/{name} {kind} is deprecated");
    match newer.max_by(|a, b| version_order(a, b)) {
        Some(newest) => format!("{warning}; use {group}/{newest} {kind}"),
        None => warning,
    }
}

/// Gives a new definition the status it starts with: nothing accepted yet, one version stored.
///
/// Replaces what the client sent: status is the controller's. kube-apiserver does the same in `PrepareForCreate`.
pub fn begin(object: &mut Value) {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let storage =
        versions.filter(|v| v.get("storage") == Some(&Value::Bool(true))).filter_map(|v| text(v, "name"));
    let stored: Vec<String> = storage.take(1).map(str::to_owned).collect();
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    if let Some(object) = object.as_object_mut() {
        object.insert("status", status);
    }
}

/// Adds the storage version to `status.storedVersions`, which lists all versions that objects may be stored in.
///
/// Called on each update, since the storage version may have moved. Entries go away only when a person or a migration
/// removes them from the status, after all objects were written again.
pub fn remember_version(object: &mut Value) {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let storage = versions.into_iter().find(|v| v.get("storage") == Some(&Value::Bool(true)));
    let Some(name) = storage.and_then(|version| text(version, "name")).map(str::to_owned) else { return };
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored) = stored.as_array_mut()
        && !stored.iter().any(|known| known.as_str() == Some(&*name))
    {
        stored.push(name.into());
    }
}

/// A field of `spec.names` that cannot be accepted.
///
/// Shown in the condition `NamesAccepted`; the definition stays, but is not served under these names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameConflict {
    /// The field, for example `kind`.
    pub field: &'static str,
    /// The reason of the condition, for example `KindConflict`.
    pub reason: &'static str,
    /// The message of the condition, which names the taken name.
    pub message: String,
}

/// The names that another definition of the same group has been granted before. The last of them is the one that the condition
/// names, as kube-apiserver does it.
///
/// Names are compared within one group only, and with names that were accepted: of two definitions that ask for the
/// same name, the first one that the controller sees gets it. Plural, singular and short names share one space, kinds
/// and list kinds another. Categories may be shared.
#[must_use]
pub fn name_conflicts<'a>(
    wanted: &Definition,
    others: impl Iterator<Item = &'a Definition> + Clone,
) -> Vec<NameConflict> {
    let rivals = others.filter(|other| other.group == wanted.group && other.name != wanted.name);
    let resource_taken = |name: &str| {
        rivals.clone().any(|other| {
            let names = &other.accepted;
            names.plural == name
                || names.singular == name
                || names.short_names.iter().any(|short| short == name)
        })
    };
    let kind_taken = |name: &str| {
        rivals.clone().any(|other| other.accepted.kind == name || other.accepted.list_kind == name)
    };
    let conflict = |field, reason, names: Vec<&str>| {
        let message = match names.iter().map(|name| format!("{name:?} is already in use")).collect::<Vec<_>>()
        {
            texts if texts.len() > 1 => format!("[{}]", texts.join(", ")),
            texts => texts.concat(),
        };
        (!names.is_empty()).then_some(NameConflict { field, reason, message })
    };
    let Names { plural, singular, short_names, kind, list_kind, .. } = &wanted.names;
    let short = short_names.iter().map(String::as_str).filter(|name| resource_taken(name)).collect();
    let found = [
        conflict("plural", "PluralConflict", taken(plural, resource_taken(plural))),
        conflict("singular", "SingularConflict", taken(singular, resource_taken(singular))),
        conflict("shortNames", "ShortNamesConflict", short),
        conflict("kind", "KindConflict", taken(kind, kind_taken(kind))),
        conflict("listKind", "ListKindConflict", taken(list_kind, kind_taken(list_kind))),
    ];
    found.into_iter().flatten().collect()
}

/// A name that another definition has already is not accepted.
fn taken(name: &str, is_taken: bool) -> Vec<&str> {
    if is_taken && !name.is_empty() { vec![name] } else { Vec::new() }
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|c| text(c, "type") == Some(kind) && text(c, "status") == Some("True"))
}

/// A field of another type counts as absent: the schema of definitions has checked types before.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
