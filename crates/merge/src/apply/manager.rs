//! [`FieldManager`]: one write by one manager, and what it does to the ownership of fields.
//!
//! An update becomes the only owner of the fields it changed. An apply owns what it sends, removes what it sent last
//! time unless another manager owns it, and conflicts where another manager owns a field that it would change; with
//! `force` it takes ownership. An object that has no record yet is owned by `before-first-apply`, so that a first apply
//! cannot remove what it never set.
//!
//! It compares trees with shared containers, so the cost of an update depends on what it changed. Upgrading from
//! client-side apply is `last_applied`; the entries themselves are `record`.

use listwatch_json::{Text, Value};

use super::compare::{self, PathChanges};
use super::conflict::{ApplyError, Conflict};
use super::extract;
use super::field_set::FieldSet;
use super::merge::merge;
use super::prune;
use super::record::{self, Given, ManagerEntry, ManagerOperation};
use super::versions::KindVersions;
use crate::patch::MergeSchema;
use listwatch_wire::gvk::GroupVersion;

/// The manager of fields that an object had before it was first applied, as in kube-apiserver.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// One write by one manager: everything about it but the objects.
///
/// Borrows everything, since one is made per write. `S` is a handle of a few words. The time is passed in, so that
/// the result depends on the arguments only.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "managedFields")]
pub struct FieldManager<'a, S> {
    /// The schema of the kind.
    pub schema: S,
    /// The object of this kind with nothing set: what a new object is compared with. Structs that are always present
    /// are in it, empty, so that their presence has no owner. `{}` for kinds without such.
    pub zero: &'a Value,
    /// The fields that this endpoint resets, such as `status` on the main resource; writes to it do not own them.
    pub ignored: &'a FieldSet,
    /// The versions that entries of the record can name.
    pub versions: &'a KindVersions,
    /// The name of the manager.
    ///
    /// From `fieldManager`, or [`manager_from_user_agent`](super::manager_from_user_agent) where that is absent.
    pub manager: &'a str,
    /// The API version of the write.
    ///
    /// Entries of plain writers are kept apart by it, those of appliers are not.
    pub api_version: &'a str,
    /// The subresource written to, or nothing.
    pub subresource: &'a str,
    /// The time in RFC 3339, in whole seconds of UTC.
    pub now: &'a str,
}

/// The result of applying a configuration, before defaults and validation. Ownership is decided on the object as it was
/// applied; defaulted fields have no owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object with its new record; defaults are not set yet.
    pub object: Value,
    /// True if anything but `managedFields` differs from before.
    pub changed: bool,
}

impl<S: MergeSchema> FieldManager<'_, S> {
    /// Records a plain write: its manager becomes the only owner of the changed fields.
    ///
    /// `live` is the object before, or `None` if it is being created. `new` is the object as it will be; its
    /// `managedFields` are rewritten. An object without a record stays without one, until something is applied to it.
    ///
    /// Costs as much as was changed. A write that changes nothing and sends the record back as it was reads no entry.
    pub fn update(&self, live: Option<&Value>, new: &mut Value) {
        let changes = compare::objects(live.unwrap_or(self.zero), new, self.schema).without(self.ignored);
        // Most writes send the record back as it was: then there is no need to read it twice, or at all.
        let same_record = live.is_some_and(|live| record::raw(live) == record::raw(new));
        if changes.is_empty() && same_record {
            return;
        }
        let given = if same_record { Given::Nothing } else { record::take(new) };
        let mut entries = match given {
            Given::Entries(entries) if self.subresource.is_empty() && !entries.is_empty() => entries,
            Given::Reset if self.subresource.is_empty() => Vec::new(),
            // The record cannot be written through a subresource, nor lost by leaving it out.
            _ => live.map(record::read).unwrap_or_default(),
        };
        if entries.is_empty() && live.is_some() {
            return;
        }
        // What does not fit the schema has no owner, and leaves the record as it was, as in kube-apiserver.
        let before = live.unwrap_or(self.zero);
        let unconvertible =
            || self.versions.conversion_error(&entries, self.api_version, (before, new)).is_some();
        if changes.is_untypable || self.versions.fail_on(&entries) || unconvertible() {
            return record::restore(new, live);
        }
        self.versions.retain(&mut entries);
        self.take_over(&mut entries, changes, self.manager);
        record::put(new, entries);
    }

    /// Moves the changed fields to the writing manager: every other manager loses them, and fields that were removed
    /// have no owner any more.
    fn take_over(&self, entries: &mut Vec<ManagerEntry>, changes: PathChanges, manager: &str) {
        let PathChanges { changed, removed, .. } = changes;
        let new = self.entry(manager, ManagerOperation::Update, changed);
        let own = entries.iter().position(|entry| entry.is(&new));
        for (at, entry) in entries.iter_mut().enumerate() {
            // Most writers change fields that they own already: then their set stays shared with the stored object.
            if own != Some(at) || !entry.fields.contains(&new.fields) {
                entry.fields.subtract(&new.fields);
            }
            entry.fields.subtract(&removed);
        }
        if !new.fields.is_empty() {
            match own.and_then(|own| entries.get_mut(own)) {
                Some(entry) => {
                    entry.fields.union(&new.fields);
                    entry.time = new.time;
                }
                None => entries.push(new),
            }
        }
        record::cap_updaters(entries);
    }

    /// The record of what a manager owns after this write.
    fn entry(&self, manager: &str, operation: ManagerOperation, fields: FieldSet) -> ManagerEntry {
        ManagerEntry {
            manager: manager.into(),
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
            time: Some(self.now.into()),
            fields,
            stored: None,
        }
    }

    /// Applies a configuration. What the manager owns by updates does not matter.
    ///
    /// `live` is not changed: trees share, so copying one costs a pointer.
    pub(super) fn merge_in(
        &self,
        live: Option<&Value>,
        config: &Value,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let mut set = fields_of(config, self.schema)?;
        set.subtract_recursive(self.ignored);

        let before = live.unwrap_or(self.zero);
        let mut base = before.clone();
        record::remove(&mut base);
        self.check_live(&base)?;
        let mut entries = self.entries_of(before, live.is_some())?;

        let last = self.replace_own(&mut entries, set);
        // Pruned before the merge, so that all of the configuration is there afterwards, be it an empty list.
        let emptied = self.prune(&mut base, &entries, last.as_ref());
        let mut object = merge(Some(base), config, Some(self.schema));
        let mut changes = compare::objects(before, &object, self.schema).without(self.ignored);
        changes.removed.subtract(&emptied);
        if let Some(why) = self.versions.conversion_error(&entries, self.api_version, (before, &object)) {
            return Err(ApplyError::Unconvertible(why));
        }
        self.settle(&mut entries, &changes, force)?;

        let changed = differs(before, &object);
        if let Some(own) = entries.iter_mut().find(|entry| self.is_own(entry)) {
            // A configuration that changes nothing does not move the time of its entry, and sets none on a new one.
            let previous = last.and_then(|last| last.time);
            own.time = if changed { Some(self.now.into()) } else { previous };
        }
        record::put(&mut object, entries);
        Ok(Applied { object, changed })
    }

    /// Reads the record of an object. Fields of an existing object without a record get an owner, as in kube-apiserver.
    fn entries_of(&self, before: &Value, is_live: bool) -> Result<Vec<ManagerEntry>, ApplyError> {
        let mut entries = record::read(before);
        let has_record = !entries.is_empty();
        if let Some(why) = self.versions.missing_version(&entries) {
            return Err(ApplyError::Unconvertible(why));
        }
        self.versions.retain(&mut entries);
        if !has_record && is_live {
            let all = compare::objects(self.zero, before, self.schema).without(self.ignored);
            self.take_over(&mut entries, all, BEFORE_FIRST_APPLY);
        }
        Ok(entries)
    }

    /// Checks the types in a live object of a custom kind, whose schema may have changed since it was written.
    fn check_live(&self, live: &Value) -> Result<(), ApplyError> {
        if !self.versions.is_custom() {
            return Ok(());
        }
        let errors = extract::check(live, self.schema).err().unwrap_or_default();
        let errors: Vec<_> = errors.into_iter().filter(|error| error.contains(extract::MISFIT)).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(ApplyError::UntypableLive { object: describe(live), errors }),
        }
    }

    fn is_own(&self, entry: &ManagerEntry) -> bool {
        entry.operation == ManagerOperation::Apply
            && entry.manager == self.manager
            && entry.subresource == self.subresource
    }

    /// Puts the new set of the manager in the place of its last one, which is returned.
    fn replace_own(&self, entries: &mut Vec<ManagerEntry>, set: FieldSet) -> Option<ManagerEntry> {
        let at = entries.iter().position(|entry| self.is_own(entry));
        let last = at.map(|at| entries.swap_remove(at));
        entries.push(self.entry(self.manager, ManagerOperation::Apply, set));
        last
    }

    /// Removes what was applied last time and has no owner now. Returns the containers that this emptied.
    ///
    /// Returns early if the configuration still has all fields of the last one, which is the usual case.
    fn prune(&self, object: &mut Value, entries: &[ManagerEntry], last: Option<&ManagerEntry>) -> FieldSet {
        let Some(last) = last else { return FieldSet::new() };
        let own = entries.iter().filter(|entry| self.is_own(entry)).map(|entry| &entry.fields);
        let mut dropped = last.fields.clone();
        own.for_each(|own| dropped.subtract(own));
        if dropped.is_empty() {
            return FieldSet::new();
        }
        let owned = entries.iter().map(|entry| &entry.fields);
        let gone = prune::abandoned(&last.fields, owned, self.schema);
        prune::remove(object, &gone, self.schema)
    }

    /// Takes from the other managers what changed, or reports it if that is not allowed.
    ///
    /// Without `force` every conflict is collected, so that a user sees all of them at once.
    fn settle(
        &self,
        entries: &mut Vec<ManagerEntry>,
        changes: &PathChanges,
        force: bool,
    ) -> Result<(), ApplyError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut conflicts = Vec::new();
        for entry in entries.iter_mut() {
            if self.is_own(entry) {
                continue;
            }
            if force {
                entry.fields.subtract(&changes.changed);
            } else {
                let contested = entry.fields.intersection(&changes.changed);
                if !contested.is_empty() {
                    conflicts.push(Conflict::new(entry, contested));
                }
            }
            entry.fields.subtract(&changes.removed);
        }
        if conflicts.is_empty() {
            entries.retain(|entry| !entry.fields.is_empty());
            return Ok(());
        }
        conflicts.sort_by(|a, b| a.manager.cmp(&b.manager));
        Err(ApplyError::Conflicts(conflicts))
    }
}

/// `namespace/name; group/version, Kind=Kind`
fn describe(config: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |key: &str| text(config.get("metadata").and_then(|m| m.get(key)));
    let version: GroupVersion = text(config.get("apiVersion")).parse().unwrap_or_default();
    let kind = version.with_kind(text(config.get("kind")));
    format!("{}/{}; {kind}", metadata("namespace"), metadata("name"))
}

/// Returns true if two objects differ, `managedFields` aside.
fn differs(before: &Value, after: &Value) -> bool {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return before != after };
    let is_same = |key: &str, a: &Value, b: &Value| match (key, a, b) {
        ("metadata", Value::Object(a), Value::Object(b)) => {
            let plain = |(key, _): &(&Text, &Value)| *key != "managedFields";
            a.iter().filter(plain).eq(b.iter().filter(plain))
        }
        _ => a == b,
    };
    before.len() != after.len()
        || !after.iter().all(|(key, b)| before.get(key).is_some_and(|a| is_same(key, a, b)))
}

/// Merges a configuration into an object by the merge keys of its schema, without recording ownership.
///
/// For mutations of admission policies, which own nothing: the `managedFields` of the object stay. Costs as much as the
/// configuration is large, however large the object is.
///
/// # Errors
/// [`ApplyError`] for a configuration that does not fit the schema or brings `managedFields`.
pub fn merge_unowned<S: MergeSchema>(live: &Value, config: &Value, schema: S) -> Result<Value, ApplyError> {
    refuse_managed_fields(config)?;
    extract::check(config, schema).map_err(|errors| untypable(config, errors))?;
    Ok(merge(Some(live.clone()), config, Some(schema)))
}

/// The fields that a configuration sets, if it is one.
fn fields_of<S: MergeSchema>(config: &Value, schema: S) -> Result<FieldSet, ApplyError> {
    refuse_managed_fields(config)?;
    extract::field_set(config, schema).map_err(|errors| untypable(config, errors))
}

fn refuse_managed_fields(config: &Value) -> Result<(), ApplyError> {
    let has_them = config.get("metadata").and_then(|m| m.get("managedFields")).is_some_and(|m| !m.is_null());
    if has_them { Err(ApplyError::ManagedFieldsPresent) } else { Ok(()) }
}

fn untypable(config: &Value, errors: Vec<String>) -> ApplyError {
    ApplyError::Untypable { object: describe(config), errors }
}
