//! Predicates: which events lead to a reconcile. Any function of an [`Event`] is one; these are the common ones.
//!
//! Additions, deletions and resyncs always pass: a predicate is about updates that change nothing of interest.
//!
//! ```
//! use listwatch::Event;
//! use listwatch::controller::predicate;
//! use serde_json::Value;
//!
//! // Either of two, as any two functions are combined:
//! let interesting = |event: &Event<Value>| predicate::generation(event) || predicate::labels(event);
//! // Something of one's own:
//! let phase = predicate::changed(|pod| pod.text(&["status", "phase"]).map(|phase| phase.into_owned()));
//! # let _: (_, Box<dyn Fn(&Event<Value>) -> bool>) = (interesting, Box::new(phase));
//! ```

use crate::object::Object;
use crate::processor::Event;

/// Passes updates of which a value, read from the old and the new object, differs. Additions and deletions always
/// pass.
pub fn changed<K, V: PartialEq>(
    value: impl Fn(&Object<K>) -> V + Send + Sync + 'static,
) -> impl Fn(&Event<K>) -> bool + Send + Sync + 'static {
    move |event| differs(event, |old, new| value(old) != value(new))
}

/// Passes updates that changed the value at a dotted path, such as `spec.replicas`. Where the server sent the change
/// as a patch, nothing is compared: the patch names what it changed.
pub fn field<K>(path: impl Into<String>) -> impl Fn(&Event<K>) -> bool + Send + Sync + 'static {
    let path = path.into();
    move |event| event.is_resync() || event.changed(&path)
}

/// Applies a comparison to an update. Other events, and resyncs, pass.
fn differs<K>(event: &Event<K>, differ: impl Fn(&Object<K>, &Object<K>) -> bool) -> bool {
    match event {
        Event::Updated { old, new } => event.is_resync() || differ(old, new),
        Event::Added { .. } | Event::Deleted(_) | Event::Synced => true,
    }
}

/// Passes updates of the desired state: of the generation, or the request to delete the object. Not of its status,
/// for kinds with a status subresource. Objects without a generation always pass.
///
/// ```
/// use listwatch::controller::predicate;
/// use listwatch::{Event, Object};
/// use serde_json::{Value, json};
///
/// let version = |revision: &str, generation: u32| {
///     let meta = json!({"name": "web", "resourceVersion": revision, "generation": generation});
///     Object::<Value>::from_value(&json!({"metadata": meta, "status": {"seen": revision}}))
/// };
/// let status_only = Event::Updated { old: version("1", 1)?, new: version("2", 1)? };
/// let spec_too = Event::Updated { old: version("2", 1)?, new: version("3", 2)? };
/// assert!(!predicate::generation(&status_only));
/// assert!(predicate::generation(&spec_too));
/// # Ok::<(), listwatch::ObjectError>(())
/// ```
#[doc(alias = "GenerationChangedPredicate")]
pub fn generation<K>(event: &Event<K>) -> bool {
    differs(event, |old, new| {
        let generation = new.generation();
        generation.is_none() || generation != old.generation() || old.is_deleting() != new.is_deleting()
    })
}

/// Passes updates that changed the labels.
#[doc(alias = "LabelChangedPredicate")]
pub fn labels<K>(event: &Event<K>) -> bool {
    differs(event, |old, new| !old.labels().eq(new.labels()))
}

/// Passes updates that changed the annotations.
#[doc(alias = "AnnotationChangedPredicate")]
pub fn annotations<K>(event: &Event<K>) -> bool {
    differs(event, |old, new| !old.annotations().eq(new.annotations()))
}

/// Passes updates that changed the finalizers.
pub fn finalizers<K>(event: &Event<K>) -> bool {
    differs(event, |old, new| old.finalizers() != new.finalizers())
}
