//! [`Strategy`]: how objects of one kind are decoded, defaulted, prepared, validated and merged on the way into the
//! store.
//!
//! Everything that differs between kinds is behind this trait; the write pipeline is the same for all. Built-in kinds
//! ([`Builtin`]) answer from the tables of `listwatch_kinds`, custom ones from their definition
//! (`registry/custom/rules.rs`). Methods that get the stored object may skip what the new one shares with it: it has
//! passed before. A rule that needs other objects is not part of a strategy: that is admission.
//!
//! The order of the calls is `pipeline/change.rs`.

use listwatch_kinds::schema::{self, Node};
use listwatch_kinds::tree::Tree;
use listwatch_kinds::typecheck::TypeReport;
use listwatch_kinds::{Kind, convert, defaults, prepare, typecheck, validate, warnings};
use listwatch_merge::apply::{Applied, FieldSet, KindVersions, merge_unowned};
use listwatch_merge::patch::strategic_merge_patch;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use crate::cache::TreeMaker;
use crate::outbound::tls::bundle_problem;
use crate::registry::expressions;
use crate::registry::managed::Tracking;
use crate::registry::recently_valid::RecentlyValid;
use crate::registry::scale_paths::ScalePaths;
use crate::registry::view::ObjectView;

/// The object that an applied configuration leads to, or the status that refuses it.
pub(crate) type ApplyResult = Result<Applied, Status>;

/// The rules for writing objects of one kind, in the order a write meets them. Implementations are pure and never
/// wait: they run several times for a write that is retried, and on blocking threads for large objects.
#[doc(alias = "RESTCreateStrategy")]
#[doc(alias = "RESTUpdateStrategy")]
#[doc(alias = "RESTDeleteStrategy")]
pub(crate) trait Strategy: TreeMaker {
    /// Checks types, prunes unknown fields and writes scalars in their canonical form. Parts that the object shares
    /// with `stored` have passed before and are skipped.
    fn decode(&self, object: &mut Value, stored: Option<&Value>) -> TypeReport;

    /// Fills in defaults, except in parts that are shared with `stored`.
    fn complete(&self, object: &mut Value, stored: Option<&Value>);

    /// [`complete`](Self::complete) for an applied object, in which a null is a value where the kind has it so.
    fn complete_applied(&self, object: &mut Value, stored: Option<&Value>) {
        self.complete(object, stored);
    }

    /// Resets what clients may not set on a new object, such as `status` and `generation` (`PrepareForCreate`).
    fn prepare_create(&self, object: &mut Value);

    /// Resets what an update through this view may not change, and raises `generation` if the spec changed
    /// (`PrepareForUpdate`).
    fn prepare_update(&self, view: ObjectView, new: &mut Value, old: &Value);

    /// Turns an object into the form that is stored, if this version is not that form.
    ///
    /// Called right before the write. Only kinds that are served in several groups or versions need it.
    fn stored_form(&self, _object: &mut Value) {}

    /// Turns a stored object into the form of this version.
    fn served_form(&self, _object: &mut Value) {}

    /// Returns the field errors of a new object, in the order of kube-apiserver.
    fn validate_create(&self, object: &Value) -> Vec<FieldError>;

    /// Returns the field errors of a changed object, in the order of kube-apiserver.
    ///
    /// Rules that became stricter after an object was stored must not fail an update that leaves the field alone;
    /// tables and checks compare with `old` for that.
    fn validate_update(&self, view: ObjectView, new: &Value, old: &Value) -> Vec<FieldError>;

    /// The fields besides metadata that an object has with nothing set, as JSON behind a comma: what bookmarks of a
    /// watch consist of.
    fn zero_fields(&self) -> &[u8] {
        b""
    }

    /// Returns warnings about a new object as it was sent, before the server adds to it.
    fn warnings_as_sent(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns warnings about parts of a changed object that break a rule but did not change. They are sent with errors, too.
    fn ratcheted(&self, _view: ObjectView, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns warnings about a valid object.
    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String>;

    /// Returns true if a PUT without a resourceVersion overwrites unconditionally.
    ///
    /// If false, a PUT needs a resourceVersion: accidentally overwriting another user's change would do harm.
    fn unconditional_update(&self) -> bool;

    /// Returns true if a PUT to a free name creates.
    ///
    /// kube-apiserver allows it for a few kinds only, Leases and Events among them. Custom kinds do not.
    fn create_on_update(&self) -> bool;

    /// Returns true if a DELETE answers with the object.
    ///
    /// Otherwise the response is a Status with the name and uid.
    fn returns_deleted_object(&self) -> bool;

    /// The finalizers that an object of this kind gets when it is deleted, besides its own.
    ///
    /// They are added by the deletion itself: the definition of a custom kind must stay until its objects are deleted.
    fn held_by(&self) -> Option<&'static str> {
        None
    }

    /// The fields behind the `scale` subresource, if the kind has one.
    fn scale(&self) -> Option<ScalePaths>;

    /// Merges a strategic merge patch into an object.
    ///
    /// # Errors
    /// If the kind has no merge keys (415) or the patch makes no sense (500, as in kube-apiserver).
    fn strategic(&self, object: &mut Value, patch: &Value) -> Result<(), Status>;

    /// Records in `managedFields` which fields the manager changed, in a create, update or patch.
    ///
    /// Failures are not errors of the write: fields that cannot be tracked have no owner, as in kube-apiserver.
    fn track(&self, tracking: &Tracking<'_>, live: Option<&Value>, new: &mut Value);

    /// Merges an applied configuration into the live object.
    ///
    /// # Errors
    /// 409 on conflicts with other managers, 500 if the configuration does not fit the schema.
    fn apply(&self, tracking: &Tracking<'_>, live: Option<&Value>, sent: &Value, force: bool) -> ApplyResult;

    /// Merges a configuration into an object without recording ownership.
    ///
    /// # Errors
    /// 500 if the configuration does not fit the schema.
    fn merge(&self, object: &Value, configuration: &Value) -> Result<Value, Status>;
}

/// The strategy of a built-in kind: a row of the kinds table, with what is computed from it once.
#[derive(Debug)]
pub(crate) struct Builtin {
    kind: &'static Kind,
    /// The schema of the kind; `None` for kinds without one, which are stored as sent.
    node: Option<Node>,
    /// An object with nothing set, against which a new one is compared.
    zero: Value,
    /// The zero object's fields besides type and metadata, as JSON.
    zero_fields: Vec<u8>,
    /// The fields that a path resets, by subresource.
    ignored: Vec<(&'static str, FieldSet)>,
    /// The fields that other paths reset.
    nothing: FieldSet,
    /// The versions that entries of `managedFields` can name. The events of the two groups do not know each other's.
    versions: KindVersions,
    /// Objects that were created lately.
    valid: RecentlyValid,
}

impl Builtin {
    /// An object as kube-apiserver sees it when it records field owners, where that differs from what is stored: a Job
    /// without labels has those of its template.
    fn as_tracked(&self, new: &Value) -> Option<Value> {
        let unlabelled_job = self.kind.kind == "Job" && new.at("metadata").count("labels") == 0;
        let mut tracked = unlabelled_job.then(|| new.clone())?;
        prepare::label_job(&mut tracked);
        Some(tracked)
    }

    /// The strategy of a built-in kind. What every write needs, such as the object without any fields, is computed
    /// once here.
    pub(crate) fn new(kind: &'static Kind) -> Self {
        let node = schema::node(kind.group, kind.version, kind.kind);
        let mut zero = listwatch_wire::json::json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {}});
        if let Some(node) = node {
            typecheck::fill(node, &mut zero, None);
        }
        Self {
            kind,
            node,
            zero_fields: fields_of(&zero),
            zero,
            ignored: prepare::reset_fields(kind)
                .iter()
                .map(|(subresource, fields)| (*subresource, FieldSet::of_fields(fields)))
                .collect(),
            nothing: FieldSet::new(),
            versions: versions_of(kind),
            valid: RecentlyValid::default(),
        }
    }

    fn fill(&self, object: &mut Value, stored: Option<&Value>) {
        if let Some(node) = self.node {
            typecheck::fill(node, object, stored);
        }
    }

    /// Returns true for CustomResourceDefinitions.
    fn is_definition(&self) -> bool {
        (self.kind.group, self.kind.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    /// The schema of the kind. Every kind of the table has one; the error is for one that was added without.
    fn node(&self) -> Result<Node, Status> {
        self.node.ok_or_else(|| Status::internal(format!("no schema for kind {}", self.kind.kind)))
    }

    /// The fields that a path resets, so that no manager becomes the owner of what it cannot change.
    fn ignored(&self, subresource: &str) -> &FieldSet {
        self.ignored.iter().find(|(name, _)| *name == subresource).map_or(&self.nothing, |(_, fields)| fields)
    }
}

impl Strategy for Builtin {
    fn decode(&self, object: &mut Value, stored: Option<&Value>) -> TypeReport {
        self.node.map(|node| typecheck::decode(node, object, stored)).unwrap_or_default()
    }

    fn complete(&self, object: &mut Value, stored: Option<&Value>) {
        match stored {
            Some(stored) => defaults::apply_change(self.kind, object, stored),
            None => defaults::apply(self.kind, object),
        }
        self.fill(object, stored);
    }

    fn prepare_create(&self, object: &mut Value) {
        prepare::create(self.kind, object);
        if self.is_definition() {
            listwatch_custom::begin(object);
        }
        if self.kind.has_status() {
            self.fill(object, None);
        }
        self.valid.share(object);
    }

    fn prepare_update(&self, view: ObjectView, new: &mut Value, old: &Value) {
        match view {
            ObjectView::Whole => {
                prepare::update(self.kind, new, old);
                if self.is_definition() {
                    listwatch_custom::remember_version(new);
                }
            }
            ObjectView::Status => {
                prepare::status_update(self.kind, new, old);
                self.fill(new, Some(old));
            }
            other => other.prepare(new, old),
        }
    }

    fn stored_form(&self, object: &mut Value) {
        convert::to_stored(self.kind, object);
    }

    fn served_form(&self, object: &mut Value) {
        convert::from_stored(self.kind, object);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let known = self.valid.find(object);
        let mut errors = validate::create_like(self.kind, object, known.as_ref());
        if errors.is_empty() {
            self.valid.add(object, known.as_ref());
        }
        errors.extend(expressions::check::errors(self.kind.group, self.kind.kind, object, None));
        if self.is_definition() {
            errors.extend(listwatch_custom::validate_create(object));
        }
        errors
    }

    fn validate_update(&self, view: ObjectView, new: &Value, old: &Value) -> Vec<FieldError> {
        match view {
            ObjectView::Whole if self.is_definition() => {
                let mut errors = validate::update(self.kind, new, old);
                errors.extend(listwatch_custom::validate_update(new, old));
                errors.extend(bundle_error(new, old));
                errors
            }
            ObjectView::Whole => {
                let mut errors = validate::update(self.kind, new, old);
                errors.extend(expressions::check::errors(self.kind.group, self.kind.kind, new, Some(old)));
                errors
            }
            ObjectView::EphemeralContainers => validate::ephemeral_update(self.kind, new, old),
            ObjectView::Resize => validate::resize_update(self.kind, new, old),
            ObjectView::Finalize => validate::finalize_update(new, old),
            _ => validate::status_update(self.kind, new, old),
        }
    }

    fn zero_fields(&self) -> &[u8] {
        &self.zero_fields
    }

    fn warnings_as_sent(&self, object: &Value) -> Vec<String> {
        warnings::as_sent(self.kind, object)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut told = warnings::of(self.kind, object, old);
        if self.is_definition() {
            told.extend(listwatch_custom::warnings(object, old));
        }
        told
    }

    fn unconditional_update(&self) -> bool {
        self.kind.flags.unconditional_update
    }

    fn create_on_update(&self) -> bool {
        self.kind.flags.create_on_update
    }

    fn returns_deleted_object(&self) -> bool {
        self.kind.flags.returns_deleted_object
    }

    fn held_by(&self) -> Option<&'static str> {
        self.is_definition().then_some(crate::registry::custom::CLEANUP)
    }

    fn scale(&self) -> Option<ScalePaths> {
        self.kind.subresource("scale").map(|_| ScalePaths::builtin())
    }

    fn strategic(&self, object: &mut Value, patch: &Value) -> Result<(), Status> {
        Ok(strategic_merge_patch(object, patch.clone(), self.node()?)?)
    }

    fn track(&self, tracking: &Tracking<'_>, live: Option<&Value>, new: &mut Value) {
        let Some(node) = self.node else { return };
        let manager = tracking.manager(node, &self.zero, self.ignored(tracking.subresource), &self.versions);
        match self.as_tracked(new) {
            None => manager.update(live, new),
            Some(mut tracked) => {
                manager.update(live, &mut tracked);
                if let (Some(meta), Value::Object(fields)) = (new.inner("metadata"), tracked.at("metadata")) {
                    match fields.get("managedFields") {
                        Some(entries) => meta.put("managedFields", entries.clone()),
                        None => drop(meta.remove("managedFields")),
                    }
                }
            }
        }
    }

    fn apply(&self, tracking: &Tracking<'_>, live: Option<&Value>, sent: &Value, force: bool) -> ApplyResult {
        let manager =
            tracking.manager(self.node()?, &self.zero, self.ignored(tracking.subresource), &self.versions);
        Ok(manager.apply(live, sent, force)?)
    }

    fn merge(&self, object: &Value, configuration: &Value) -> Result<Value, Status> {
        Ok(merge_unowned(object, configuration, self.node()?)?)
    }
}

/// The fields of an object besides type and metadata, each as JSON behind a comma.
fn fields_of(object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = object.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion" | "metadata"))
    {
        out.extend_from_slice(format!(",\"{key}\":").as_bytes());
        listwatch_wire::json::write_value(&mut out, value);
    }
    out
}

/// All versions of a built-in kind.
fn versions_of(kind: &Kind) -> KindVersions {
    let same = |other: &&Kind| (other.group, other.kind) == (kind.group, kind.kind);
    KindVersions::builtin(listwatch_kinds::all().iter().filter(same).map(Kind::api_version).collect())
}

/// The error of a `caBundle` for conversions that cannot be read. A definition that is not served yet may have one, and says so
/// in its conditions.
fn bundle_error(new: &Value, old: &Value) -> Option<FieldError> {
    fn bundle(definition: &Value) -> &str {
        definition.at("spec").path(&["conversion", "webhook", "clientConfig"]).text("caBundle")
    }
    let is_established = old
        .at("status")
        .list("conditions")
        .iter()
        .any(|condition| (condition.text("type"), condition.text("status")) == ("Established", "True"));
    if !is_established || bundle_problem(bundle(old)).is_some() {
        return None;
    }
    let path = "spec.conversion.webhookClientConfig.caBundle";
    bundle_problem(bundle(new)).map(|why| FieldError::invalid(path, bundle(new), why))
}
