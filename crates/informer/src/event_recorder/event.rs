//! Events: [`Occurrence`] is the input of the recorder, [`EventRecord`] the `events.k8s.io/v1` Event that is written.
//!
//! Limits follow the validation of kube-apiserver: a note of 1,024 bytes, a reason, action or instance of 128. Notes
//! are cut, because a long error message must not lose the event; the rest makes an occurrence invalid. An Event about
//! a cluster-scoped object is in namespace `default`, as in client-go.
//!
//! Nothing here decides whether an event is written or counted; that is [`Correlator`](super::Correlator).

use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

/// The longest note that the API server accepts; longer ones are cut.
const NOTE_MAX: usize = 1024;
/// The longest reason, action or instance name that the API server accepts.
const WORD_MAX: usize = 128;
/// The longest name of an object.
const NAME_MAX: usize = 253;

/// The `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Severity {
    /// Progress as expected.
    Normal,
    /// Something that a person may have to look at.
    Warning,
}

/// The object that an event is about. `kubectl describe` finds events by kind, namespace, name and uid, so all should
/// be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Its group and version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its namespace; empty for objects without.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl ObjectReference {
    /// Refers to a statically typed object.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
        }
    }

    /// Refers to an object of a cache. Cached objects of built-in kinds have no `apiVersion` and `kind`, so they are
    /// arguments.
    pub fn to<K>(api_version: &str, kind: &str, object: &crate::Object<K>) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().into_owned(),
        }
    }
}

/// Something happened to an object.
///
/// Occurrences that differ only in their note are one series: the note of the first is kept, the others are counted.
/// So the reason and the action should be constants of the program, and details belong into the note.
///
/// ```
/// use listwatch::event_recorder::{Occurrence, ObjectReference};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web-0".into());
/// pod.metadata.namespace = Some("shop".into());
///
/// let pulled = Occurrence::normal(ObjectReference::of(&pod), "Pulled", "Pull", "image app:1.2 in 3 s");
/// assert!(pulled.is_valid());
/// // A series cannot be named by an empty reason, and no server would accept the event.
/// assert!(!Occurrence::normal(ObjectReference::of(&pod), "", "Pull", "").is_valid());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The `type` of the Event.
    pub severity: Severity,
    /// The object it is about.
    pub regarding: ObjectReference,
    /// Another object that has to do with it.
    pub related: Option<ObjectReference>,
    /// The reason in one word, for programs: `FailedMount`.
    pub reason: String,
    /// The action, in one word for programs: `Mounting`.
    pub action: String,
    /// For people. What is longer than a kilobyte is cut.
    pub note: String,
}

impl Occurrence {
    /// An occurrence of type `Normal`.
    pub fn normal(regarding: ObjectReference, reason: &str, action: &str, note: impl Into<String>) -> Self {
        let (reason, action, note) = (reason.to_owned(), action.to_owned(), note.into());
        Self { severity: Severity::Normal, regarding, related: None, reason, action, note }
    }

    /// An occurrence of type `Warning`.
    pub fn warning(regarding: ObjectReference, reason: &str, action: &str, note: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::normal(regarding, reason, action, note) }
    }

    /// True if an API server would accept it.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let word = |text: &str| (1..=WORD_MAX).contains(&text.len());
        word(&self.reason) && word(&self.action) && !self.regarding.name.is_empty()
    }

    pub(super) fn cut(mut self) -> Self {
        let end = self.note.floor_char_boundary(NOTE_MAX);
        self.note.truncate(end);
        self
    }
}

/// The recording program: `reportingController` and `reportingInstance` of its events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reporter {
    /// The program: `example.com/widget-controller`.
    pub controller: String,
    /// The copy of the program: the name of the Pod.
    pub instance: String,
}

/// The repetitions of an event: how often it has happened, and when last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// So many times, the first included.
    pub count: u32,
    /// The last time.
    pub last: Timestamp,
}

/// An event as it is, or shall be, in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its namespace: that of the object it is about, or `default`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The first occurrence, whose note is kept for the whole series.
    pub occurrence: Arc<Occurrence>,
    /// The reporter.
    pub reporter: Arc<Reporter>,
    /// When it happened first.
    pub first: Timestamp,
    /// Nothing if it happened once.
    pub series: Option<Series>,
}

impl EventRecord {
    /// Makes the event of a first occurrence. Its name is that of the object with a suffix that makes it unique, cut
    /// to the length that names may have; events about cluster-scoped objects are in the namespace `default`.
    pub(super) fn new(
        occurrence: Occurrence,
        reporter: Arc<Reporter>,
        first: Timestamp,
        number: u64,
    ) -> Self {
        let regarding = &occurrence.regarding;
        let namespace = if regarding.namespace.is_empty() { "default" } else { &regarding.namespace };
        // The time alone does not distinguish two events of the same nanosecond.
        let suffix = format!(".{:x}{number:04x}", first.as_nanosecond());
        let end = regarding.name.floor_char_boundary(NAME_MAX.saturating_sub(suffix.len()));
        let stem = regarding.name.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
        let (namespace, name) = (namespace.to_owned(), format!("{stem}{suffix}"));
        Self { namespace, name, occurrence: Arc::new(occurrence), reporter, first, series: None }
    }

    /// The object to create, of `events.k8s.io/v1`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let occurrence = &*self.occurrence;
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": micros(self.first),
            "reportingController": self.reporter.controller,
            "reportingInstance": self.reporter.instance,
            "action": occurrence.action,
            "reason": occurrence.reason,
            "regarding": occurrence.regarding,
            "note": occurrence.note,
            "type": occurrence.severity,
        });
        if let Some(fields) = event.as_object_mut() {
            if let Some(related) = &occurrence.related {
                fields.insert("related".to_owned(), json!(related));
            }
            fields.extend(self.series_json().as_object().cloned().unwrap_or_default());
        }
        event
    }

    /// The merge patch that brings the series of an event up to date. Nothing else of an event may change.
    #[must_use]
    pub fn series_json(&self) -> Value {
        match self.series {
            Some(Series { count, last }) => json!({
                "series": {"count": i32::try_from(count).unwrap_or(i32::MAX), "lastObservedTime": micros(last)},
            }),
            None => json!({}),
        }
    }
}

fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
