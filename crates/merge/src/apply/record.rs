//! The entries of `metadata.managedFields`: reading, writing, and their bound.
//!
//! Entries from the store are trusted; those that a client sends are checked, and an invalid record counts as none, as
//! in kube-apiserver. Beyond ten entries of operation `Update` the oldest are merged as `ancient-changes`, or objects
//! that many controllers write would grow without end; appliers are never merged, since their fields decide what the
//! next apply removes. The order of entries is kube-apiserver's, because objects are compared byte for byte.
//!
//! An entry that a write leaves alone is put back as the stored tree has it, so that the encoder finds it there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use listwatch_json::{Map, Text, Value};

use super::field_set::FieldSet;
use listwatch_json::go;

/// The longest name of a manager made from a user agent.
///
/// An explicit `fieldManager` has the same bound, which is checked with the options of a request.
pub const DEFAULT_MANAGER_MAX: usize = 128;
/// The most entries of plain writers that are kept apart; the oldest beyond that are merged.
///
/// kube-apiserver's number.
const UPDATERS_MAX: usize = 10;
/// The manager that the oldest entries of updates are merged into beyond the bound on entries, as in kube-apiserver.
const ANCIENT: &str = "ancient-changes";

/// The name of a writer that gives none: its user agent up to the first slash.
///
/// ```
/// use listwatch_merge::apply::manager_from_user_agent;
/// assert_eq!(manager_from_user_agent("my-tool/v1.2 (linux)"), "my-tool");
/// ```
#[must_use]
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    // Nearly every name is plain, and every write looks it up.
    if name.len() <= DEFAULT_MANAGER_MAX && name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return name.to_owned();
    }
    let mut out = String::new();
    for c in name.chars().filter(|c| go::is_print(*c)) {
        if out.len() + c.len_utf8() > DEFAULT_MANAGER_MAX {
            break;
        }
        out.push(c);
    }
    out
}

/// The operation by which a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ManagerOperation {
    Apply,
    Update,
}

impl ManagerOperation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One manager and what it owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagerEntry {
    pub(super) manager: Text,
    pub(super) operation: ManagerOperation,
    pub(super) api_version: Text,
    pub(super) subresource: Text,
    /// RFC 3339 text, which sorts as the time does. Absent for an applier whose configuration changed nothing.
    pub(super) time: Option<Text>,
    /// An entry without fields is dropped when the record is written.
    pub(super) fields: FieldSet,
    /// The entry as it is stored, if only its time and its fields may differ from it.
    pub(super) stored: Option<Map>,
}

impl ManagerEntry {
    /// Returns true if both are of the same manager. An applier is the same through all versions.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == ManagerOperation::Apply || self.api_version == other.api_version)
    }

    fn order(&self) -> impl Ord {
        (self.operation, &self.time, &self.manager, &self.api_version, &self.subresource)
    }

    /// Reads an entry. Sets of fields from the store were checked on their way in; others are checked by `fields`.
    fn parse(map: &Map, fields: fn(Value) -> Option<FieldSet>) -> Option<Self> {
        let text = |name: &str| match map.get(name) {
            None | Some(Value::Null) => Some(Text::default()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => None,
        };
        let operation = match text("operation")?.as_str() {
            "Apply" => ManagerOperation::Apply,
            "Update" => ManagerOperation::Update,
            _ => return None,
        };
        if text("fieldsType")? != "FieldsV1" || text("apiVersion")?.is_empty() {
            return None;
        }
        Some(Self {
            operation,
            manager: text("manager")?,
            api_version: text("apiVersion")?,
            subresource: text("subresource")?,
            time: text("time").filter(|t| !t.is_empty()),
            fields: match map.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::new(),
                Some(set) => fields(set.clone())?,
            },
            stored: None,
        })
    }

    /// Reads an entry that a client sent.
    fn read_sent(value: &Value) -> Option<Self> {
        Self::parse(value.as_object()?, FieldSet::from_json)
    }

    /// Reads an entry from the store.
    fn read_stored(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        let entry = Self::parse(map, FieldSet::from_stored)?;
        Some(Self { stored: Some(map.clone()), ..entry })
    }

    /// The JSON of an entry of `metadata.managedFields`, without empty fields. An entry that still has its fields is the stored
    /// one, with its time.
    fn into_value(self) -> Value {
        let same_fields = |map: &&Map| self.fields.is_same(map.get("fieldsV1"));
        match self.stored.as_ref().filter(same_fields) {
            Some(map) => with_time(map.clone(), self.time.clone()),
            None => self.to_value(),
        }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::with_capacity(7);
        let mut text = |key: &'static str, value: &str| {
            if !value.is_empty() {
                map.insert(key, value.into());
            }
        };
        text("apiVersion", &self.api_version);
        text("fieldsType", "FieldsV1");
        text("manager", &self.manager);
        text("operation", self.operation.as_str());
        text("subresource", &self.subresource);
        text("time", self.time.as_deref().unwrap_or_default());
        map.insert("fieldsV1", self.fields.to_json());
        Value::Object(map)
    }
}

/// A stored entry with this time.
fn with_time(mut entry: Map, time: Option<Text>) -> Value {
    match time {
        Some(time) if entry.get("time").and_then(Value::as_str) != Some(time.as_str()) => {
            entry.insert("time", Value::String(time));
        }
        Some(_) => {}
        None => drop(entry.remove("time")),
    }
    Value::Object(entry)
}

/// The `managedFields` of an object.
pub(super) enum Given {
    /// Nothing, or nothing that can be read.
    Nothing,
    /// An empty list, or one with one empty entry: reset all ownership.
    Reset,
    /// Entries.
    Entries(Vec<ManagerEntry>),
}

/// Takes the entries out of an object.
pub(super) fn take(object: &mut Value) -> Given {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(value) = metadata.and_then(|m| m.remove("managedFields")) else { return Given::Nothing };
    let Value::Array(items) = value else { return Given::Nothing };
    let reset = match items.as_slice() {
        [] => true,
        [Value::Object(only)] => only.is_empty(),
        _ => false,
    };
    if reset {
        return Given::Reset;
    }
    let entries: Option<Vec<ManagerEntry>> = items.iter().map(ManagerEntry::read_sent).collect();
    entries.map_or(Given::Nothing, |entries| Given::Entries(last_of_each(entries)))
}

/// Drops entries that a later one of the same manager replaces, as kube-apiserver does when it reads them into a map.
fn last_of_each(entries: Vec<ManagerEntry>) -> Vec<ManagerEntry> {
    let mut kept: Vec<ManagerEntry> = Vec::with_capacity(entries.len());
    let mut places = HashMap::new();
    for entry in entries {
        let version = (entry.operation == ManagerOperation::Update).then(|| entry.api_version.clone());
        let key = (entry.operation, entry.manager.clone(), entry.subresource.clone(), version);
        match places.entry(key) {
            Entry::Occupied(place) => {
                if let Some(slot) = kept.get_mut(*place.get()) {
                    *slot = entry;
                }
            }
            Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}

/// Takes the record out of an object, unread.
pub(super) fn remove(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Replaces an object's managedFields by those of the stored one, or removes them.
pub(super) fn restore(object: &mut Value, live: Option<&Value>) {
    remove(object);
    if let (Some(record), Some(Value::Object(metadata))) = (live.and_then(raw), object.get_mut("metadata")) {
        metadata.insert("managedFields", record.clone());
    }
}

/// The `managedFields` of an object, unparsed.
pub(super) fn raw(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The entries of an object from the store.
///
/// One entry that cannot be read makes the whole record count as none, as in kube-apiserver.
pub(super) fn read(object: &Value) -> Vec<ManagerEntry> {
    let items = raw(object).and_then(Value::as_array);
    let entries: Option<Vec<ManagerEntry>> =
        items.into_iter().flatten().map(ManagerEntry::read_stored).collect();
    entries.unwrap_or_default()
}

/// Puts entries into an object, in kube-apiserver's order; none leave no trace.
pub(super) fn put(object: &mut Value, mut entries: Vec<ManagerEntry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| a.order().cmp(&b.order()));
    let Value::Object(root) = object else { return };
    let metadata = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(metadata) = metadata else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        let list = entries.into_iter().map(ManagerEntry::into_value).collect();
        metadata.insert("managedFields", Value::Array(list));
    }
}

/// Merges the oldest plain writers of each version into one entry, until no more than the maximum are left.
///
/// Called on each change, so at most one entry is too many, except for records that a client brought.
pub(super) fn cap_updaters(entries: &mut Vec<ManagerEntry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    if entries.len() <= UPDATERS_MAX {
        return;
    }
    let (mut updaters, appliers): (Vec<ManagerEntry>, Vec<ManagerEntry>) =
        std::mem::take(entries).into_iter().partition(|e| e.operation == ManagerOperation::Update);
    updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
    let updaters = merge_oldest(updaters);
    entries.extend(appliers);
    entries.extend(updaters);
}

/// Merges entries into the oldest one of their version, from the oldest on, until few enough are left.
fn merge_oldest(updaters: Vec<ManagerEntry>) -> Vec<ManagerEntry> {
    let mut excess = updaters.len().saturating_sub(UPDATERS_MAX);
    let mut kept: Vec<ManagerEntry> = Vec::with_capacity(updaters.len());
    let mut oldest: HashMap<Text, usize> = HashMap::new();
    for entry in updaters {
        match oldest.get(&entry.api_version).and_then(|at| kept.get_mut(*at)).filter(|_| excess > 0) {
            Some(bucket) => {
                bucket.fields.union(&entry.fields);
                bucket.time = entry.time;
                bucket.manager = ANCIENT.into();
                bucket.subresource.clear();
                bucket.stored = None;
                excess -= 1;
            }
            None => {
                oldest.entry(entry.api_version.clone()).or_insert(kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}
