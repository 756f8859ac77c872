//! [`Custom`]: the strategy of custom resources.
//!
//! Decoding prunes what the structural schema does not know, defaults come from the schema, validation is the schema
//! and then the CEL rules (`x-kubernetes-validations`). Rules are skipped when the schema has errors that they could
//! trip over, and a notice says so, as in kube-apiserver. The meaning of schemas and rules is `listwatch_custom`;
//! conversion between versions is `stages.rs`, or a webhook called from `api/convert.rs`, since a strategy never
//! waits.

use std::sync::Arc;

use listwatch_custom::{
    Definition, DefinitionScope, DefinitionVersion, aligned, fill, fill_applied, prune, validate,
};
use listwatch_kinds::field::Errors;
use listwatch_kinds::kind::NameRule;
use listwatch_kinds::prepare::{bump_generation, bump_generation_with_status, keep};
use listwatch_kinds::tree::Tree;
use listwatch_kinds::typecheck::{self, TypeReport};
use listwatch_kinds::{meta, schema};
use listwatch_merge::apply::{FieldSet, KindVersions, VersionSchema, merge_unowned};
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::status::{FieldError, FieldErrorKind};

use super::PATCH_TYPES;
use crate::registry::custom::node::{CustomNode, VersionNode};
use crate::registry::custom::stages::Stages;
use crate::registry::custom::{embedded, scaled};
use crate::registry::managed::Tracking;
use crate::registry::scale_paths::ScalePaths;
use crate::registry::strategy::{ApplyResult, Strategy};
use crate::registry::view::ObjectView;

/// The rules of one version of a custom kind.
///
/// Made when a definition is published and shared by all requests of that version.
#[doc(alias = "customResourceStrategy")]
#[derive(Debug)]
pub(super) struct Custom {
    version: DefinitionVersion,
    namespaced: bool,
    /// The conversion of stored objects to this version.
    stages: Stages,
    /// Versions are converted by a webhook, which is called in `api/convert.rs`, and not here.
    by_webhook: bool,
    /// `group/version` of the version that is stored.
    stored_api_version: String,
    /// An object with nothing set, against which a new one is compared.
    zero: Value,
    /// The fields that the object's own path resets.
    ignored: FieldSet,
    /// The fields that the path of its status resets.
    ignored_by_status: FieldSet,
    /// The versions that entries of `managedFields` can name.
    versions: KindVersions,
    /// True if the schema has resources inside ([`embedded`]).
    has_embedded: bool,
}

impl Custom {
    /// Prepares the strategy of one version of a definition.
    pub(super) fn new(
        definition: &Definition,
        version: &DefinitionVersion,
        stages: &Stages,
        versions: &KindVersions,
    ) -> Self {
        let own: &[&[&str]] = if version.status { &[&["status"]] } else { &[] };
        Self {
            namespaced: definition.scope == DefinitionScope::Namespaced,
            stages: stages.clone(),
            by_webhook: definition.conversion.is_some(),
            stored_api_version: definition
                .storage_version()
                .map(|stored| format!("{}/{}", definition.group, stored.name))
                .unwrap_or_default(),
            zero: json!({"metadata": {}}),
            ignored: FieldSet::of_fields(own),
            ignored_by_status: FieldSet::of_fields(&[&["spec"], &["metadata"]]),
            versions: versions.clone(),
            has_embedded: embedded::occurs(&version.schema),
            version: version.clone(),
        }
    }

    /// The errors of the fields behind the scale subresource. A write of the status leaves the others alone.
    fn scale_errors(&self, view: ObjectView, object: &Value) -> Vec<FieldError> {
        let Some(scale) = &self.version.scale else { return Vec::new() };
        let spec = (view != ObjectView::Status)
            .then(|| scaled::replicas(object, &scale.spec_replicas_path))
            .flatten();
        let selector = scale.label_selector_path.as_deref().and_then(|path| scaled::selector(object, path));
        let status = scaled::replicas(object, &scale.status_replicas_path);
        spec.into_iter().chain(status).chain(selector).collect()
    }

    /// Fills in the default of a status that `prepare_create` removed. kube-apiserver shows it from the start, since it fills in
    /// defaults when it reads an object from etcd.
    fn complete_status(&self, object: &mut Value) {
        let status = self.version.schema.properties.get("status");
        if !object.has("status") && status.is_some_and(|schema| schema.default.is_some()) {
            fill(&self.version.schema, object);
        }
    }

    /// The errors of a status that is written by itself. kube-apiserver validates it with the schema of the status alone,
    /// whose messages name fields from there.
    fn status_errors(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(schema) = self.version.schema.properties.get("status") else { return Vec::new() };
        if !object.has("status") {
            return Vec::new();
        }
        let old = old.map(|old| old.at("status")).filter(|status| !status.is_null());
        let mut errors = validate(schema, object.at("status"), old);
        for error in &mut errors {
            error.field = match error.field.as_str() {
                "" | "<nil>" => "status".to_owned(),
                field if field.starts_with('[') => format!("status{field}"),
                field => format!("status.{field}"),
            };
        }
        errors
    }

    /// Without a status subresource nothing is reset at the object's own path.
    fn ignored(&self, subresource: &str) -> &FieldSet {
        if subresource == "status" { &self.ignored_by_status } else { &self.ignored }
    }

    /// The schema as the merge sees it, borrowed for one call.
    fn node(&self) -> CustomNode<'_> {
        CustomNode::root(&self.version.schema)
    }

    /// The errors of the metadata, of the schema and of the expression rules. Rules rely on types and sizes, so they run only if
    /// those are right.
    ///
    /// Costs as much as the changed parts and the rules on them; the budget of rules bounds the rest.
    fn judge(
        &self,
        view: ObjectView,
        object: &Value,
        old: Option<&Value>,
        mut errors: Vec<FieldError>,
    ) -> Vec<FieldError> {
        let aligned = old.map(|old| aligned(&self.version.schema, old, object));
        let old = aligned.as_ref();
        errors.extend(match view {
            ObjectView::Status => self.status_errors(object, old),
            _ => validate(&self.version.schema, object, old),
        });
        errors.extend(self.scale_errors(view, object));
        if self.has_embedded {
            errors.extend(embedded::errors(&self.version.schema, object));
        }
        if self.version.rules.is_empty() {
            return errors;
        }
        if errors.iter().any(|error| blocks_rules(error.kind)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors \
                          to complete validation";
            errors.push(FieldError::invalid("<nil>", Value::Null, detail));
        } else {
            errors.extend(self.version.rules.evaluate(object, old).into_iter().map(named));
        }
        errors
    }
}

/// The versions that entries of `managedFields` can name. What a webhook makes of an object in another version is not known.
pub(super) fn versions_of(definition: &Definition) -> KindVersions {
    let versions = &definition.versions;
    let names = versions.iter().map(|version| format!("{}/{}", definition.group, version.name)).collect();
    let schema = |version: &DefinitionVersion| {
        Arc::new(VersionNode(Arc::clone(&version.schema))) as Arc<dyn VersionSchema>
    };
    let schemas = match definition.conversion {
        Some(_) => Vec::new(),
        None => versions.iter().map(schema).collect(),
    };
    KindVersions::custom(names).with_schemas(schemas)
}

/// Names the field of an error about the whole object as Go prints a path that is not there.
fn named(mut error: FieldError) -> FieldError {
    if error.field.is_empty() {
        "<nil>".clone_into(&mut error.field);
    }
    error
}

/// Returns true if rules cannot be evaluated on an object with such an error.
/// Rules read fields that the schema promises; these are the errors by which a promise is broken.
fn blocks_rules(kind: FieldErrorKind) -> bool {
    matches!(
        kind,
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}

/// Metadata has the same type in every object.
///
/// The schema of a definition may describe names only, so the built-in type decides about everything else.
pub(super) fn decode_metadata(object: &mut Value) -> TypeReport {
    let Some(node) = schema::node("", "v1", "ConfigMap") else { return TypeReport::default() };
    let Some(metadata) = object.get_mut("metadata").map(Value::take) else { return TypeReport::default() };
    let mut carrier = json!({"metadata": metadata});
    let report = typecheck::decode(node, &mut carrier, None);
    if let (Some(object), Some(metadata)) = (object.as_object_mut(), carrier.get_mut("metadata")) {
        object.insert("metadata".to_owned(), metadata.take());
    }
    report
}

impl Strategy for Custom {
    fn decode(&self, object: &mut Value, _stored: Option<&Value>) -> TypeReport {
        let mut report = decode_metadata(object);
        report.unknown.sort();
        report.unknown.extend(prune(&self.version.schema, object));
        if self.has_embedded && report.error.is_none() {
            report.error = embedded::type_error(&self.version.schema, object);
        }
        report
    }

    fn complete(&self, object: &mut Value, _stored: Option<&Value>) {
        fill(&self.version.schema, object);
    }

    fn complete_applied(&self, object: &mut Value, _stored: Option<&Value>) {
        fill_applied(&self.version.schema, object);
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(object) = object.as_object_mut().filter(|_| self.version.status) {
            object.remove("status");
        }
        if let Some(meta) = object.inner("metadata") {
            meta.put("generation", 1);
        }
    }

    fn prepare_update(&self, view: ObjectView, new: &mut Value, old: &Value) {
        match view {
            ObjectView::Status => keep_all_but_status(new, old),
            _ if self.version.status => {
                keep(new, old, "status");
                bump_generation(new, old, false);
            }
            _ => bump_generation_with_status(new, old),
        }
    }

    fn stored_form(&self, object: &mut Value) {
        if object.text("apiVersion") == self.stored_api_version {
            self.complete_status(object);
        } else if !self.by_webhook {
            self.stages.store(object, &self.stored_api_version);
        }
    }

    fn served_form(&self, object: &mut Value) {
        match self.by_webhook {
            true => self.stages.complete(object, true),
            false => self.stages.show(object, true),
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::default();
        meta::validate_new(object.at("metadata"), self.namespaced, NameRule::Subdomain, &mut errors);
        self.judge(ObjectView::Whole, object, None, errors.into_vec())
    }

    fn validate_update(&self, view: ObjectView, new: &Value, old: &Value) -> Vec<FieldError> {
        // kube-apiserver checks the metadata of custom objects by itself, and against the old one twice, and names each error
        // as often among the causes.
        let (mut alone, mut change) = (Errors::default(), Errors::default());
        meta::validate_again(new.at("metadata"), &mut alone);
        meta::validate_change(new.at("metadata"), old.at("metadata"), &mut change);
        let change = change.into_vec();
        self.judge(view, new, Some(old), [alone.into_vec(), change.clone(), change].concat())
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        meta::unqualified_finalizers(object.at("metadata"), old.map(|old| old.at("metadata")))
    }

    fn ratcheted(&self, view: ObjectView, new: &Value, old: &Value) -> Vec<String> {
        if self.version.rules.is_empty() {
            return Vec::new();
        }
        let old = &aligned(&self.version.schema, old, new);
        let found = match view {
            ObjectView::Status => self.status_errors(new, Some(old)),
            _ => validate(&self.version.schema, new, Some(old)),
        };
        match found.iter().any(|error| blocks_rules(error.kind)) {
            true => Vec::new(),
            false => self.version.rules.judge(new, Some(old)).warnings,
        }
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        false
    }

    fn scale(&self) -> Option<ScalePaths> {
        let path = |text: &str| text.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        self.version.scale.as_ref().map(|scale| ScalePaths {
            spec: path(&scale.spec_replicas_path),
            status: path(&scale.status_replicas_path),
            selector: scale.label_selector_path.as_deref().map(path),
        })
    }

    fn strategic(&self, _object: &mut Value, _patch: &Value) -> Result<(), Status> {
        Err(Status::unsupported_media_type(PATCH_TYPES))
    }

    fn track(&self, tracking: &Tracking<'_>, live: Option<&Value>, new: &mut Value) {
        // kube-apiserver reads an empty record of a custom resource as none, while for built-in kinds it resets ownership.
        if new.at("metadata").get("managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            new.inner("metadata").map(|meta| meta.remove("managedFields"));
        }
        tracking
            .manager(self.node(), &self.zero, self.ignored(tracking.subresource), &self.versions)
            .update(live, new);
    }

    fn apply(&self, tracking: &Tracking<'_>, live: Option<&Value>, sent: &Value, force: bool) -> ApplyResult {
        let manager =
            tracking.manager(self.node(), &self.zero, self.ignored(tracking.subresource), &self.versions);
        Ok(manager.apply(live, sent, force)?)
    }

    fn merge(&self, object: &Value, configuration: &Value) -> Result<Value, Status> {
        Ok(merge_unowned(object, configuration, self.node())?)
    }
}

/// A status write changes nothing else, apart from `managedFields`. Labels and annotations stay as stored, unlike for
/// built-in kinds.
fn keep_all_but_status(new: &mut Value, old: &Value) {
    let sent = std::mem::replace(new, old.clone());
    keep(new, &sent, "status");
    if let Some(metadata) = new.get_mut("metadata") {
        keep(metadata, sent.at("metadata"), "managedFields");
    }
}
