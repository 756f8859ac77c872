//! [`Transform`]: a change to each object before it is cached.
//!
//! A transformation is the user's code, so its panic is contained here. An object that it rejects is left out of the
//! cache and reported; a deletion is delivered even then, with the object as the server sent it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::lister_watcher::WatchEvent;
use crate::object::Object;

/// Changes an object before it is cached. Runs exactly once per object received, in the task of the reflector, so it must
/// not block. An error keeps the object out of the cache; its text is reported as a
/// [`Problem`](crate::Problem).
#[doc(alias = "TransformFunc")]
pub type Transform<K> = dyn Fn(Object<K>) -> Result<Object<K>, String> + Send + Sync;

/// The event of the type the informer is about, its object transformed.
pub(super) fn typed<K>(event: WatchEvent, transform: Option<&Transform<K>>) -> WatchEvent<K> {
    let change = |object: Object, make: fn(Object<K>) -> WatchEvent<K>| match transformed(object, transform) {
        Ok(object) => make(object),
        Err((object, reason)) => {
            let (key, revision) = (object.key().clone(), object.revision());
            WatchEvent::Rejected { key, revision, reason }
        }
    };
    match event {
        WatchEvent::Added(object) => change(object, WatchEvent::Added),
        WatchEvent::Modified(object) => change(object, WatchEvent::Modified),
        WatchEvent::Deleted(object) => match transformed(object, transform) {
            // A deletion is delivered even if the object's last state cannot be transformed.
            Ok(object) | Err((object, _)) => WatchEvent::Deleted(object),
        },
        WatchEvent::Bookmark { revision, initial_events_end } => {
            WatchEvent::Bookmark { revision, initial_events_end }
        }
        WatchEvent::Error(status) => WatchEvent::Error(status),
        WatchEvent::Rejected { key, revision, reason } => WatchEvent::Rejected { key, revision, reason },
        WatchEvent::Unusable(reason) => WatchEvent::Unusable(reason),
    }
}

pub(super) fn transformed<K>(
    object: Object,
    transform: Option<&Transform<K>>,
) -> Result<Object<K>, (Object<K>, String)> {
    let object = object.cast::<K>();
    let Some(transform) = transform else { return Ok(object) };
    match catch_unwind(AssertUnwindSafe(|| transform(object.clone()))) {
        Ok(Ok(changed)) => Ok(changed),
        Ok(Err(reason)) => Err((object, reason)),
        Err(_) => Err((object, "the transformation panicked".to_owned())),
    }
}
