//! [`LastCreated`]: the encodings of the last objects that were created from templates.
//!
//! Objects of one template share most of their trees ([`crate::api::RecentTemplates`]), so the encoding of one has most bytes of the
//! next. The encoder copies only what is the same container, so an example that does not fit costs nothing but the look.

use std::collections::VecDeque;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use parking_lot::Mutex;

use crate::cache::trees::WrittenTree;

/// The number of templates that objects can be made of in turns.
const KEPT: usize = 4;
/// Larger encodings are not kept.
const LARGEST: usize = 16 << 10;

/// The last object of each of a few templates, the newest template last.
#[derive(Debug, Default)]
pub(crate) struct LastCreated(Mutex<VecDeque<WrittenTree>>);

impl LastCreated {
    /// The last object of the same template.
    pub(crate) fn like(&self, object: &Value) -> Option<WrittenTree> {
        let prefix = template(object)?;
        self.0.lock().iter().find(|known| template(&known.value) == Some(prefix)).cloned()
    }

    /// Keeps an object that was created, in the place of the one before it.
    pub(crate) fn note(&self, created: &WrittenTree) {
        let Some(prefix) = template(&created.value).filter(|_| created.bytes.len() <= LARGEST) else {
            return;
        };
        let mut known = self.0.lock();
        let same = known.iter_mut().find(|known| template(&known.value) == Some(prefix));
        let former = match same {
            Some(same) => Some(std::mem::replace(same, created.clone())),
            None => {
                known.push_back(created.clone());
                if known.len() > KEPT { known.pop_front() } else { None }
            }
        };
        // Trees are dropped after the lock is released.
        drop(known);
        drop(former);
    }
}

/// The beginning of the names of objects of one template; `None` for an object that its sender named.
pub(crate) fn template(object: &Value) -> Option<&str> {
    Some(object.at("metadata").text("generateName")).filter(|prefix| !prefix.is_empty())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::{EarlierEncoding, Encoded, encode_after, json};

    use super::*;

    fn written(value: Value, earlier: Option<EarlierEncoding<'_>>) -> WrittenTree {
        let Encoded { bytes, spans, .. } = encode_after(&value, earlier);
        WrittenTree::new(value, bytes.into(), spans.into())
    }

    fn pod(template: &str, name: &str) -> Value {
        json!({"metadata": {"name": name, "generateName": template}, "spec": {"text": "long ".repeat(50)}})
    }

    #[test]
    fn the_next_object_of_a_template_is_encoded_with_the_bytes_of_the_last() {
        let created = LastCreated::default();
        created.note(&written(pod("web-", "web-1"), None));
        let mut next = pod("web-", "web-2");
        let last = created.like(&next).unwrap();
        next["spec"] = last.value["spec"].clone();
        let of_last = written(next.clone(), Some(last.encoding()));
        assert_eq!(of_last.bytes, written(next.clone(), None).bytes);
        created.note(&of_last);
        assert_eq!(created.like(&next).unwrap().value["metadata"]["name"], "web-2");
        assert_eq!(created.0.lock().len(), 1, "one of a template is enough");
        assert!(created.like(&pod("db-", "a")).is_none() && created.like(&pod("", "a")).is_none());
    }

    #[test]
    fn few_and_small_objects_are_kept() {
        let created = LastCreated::default();
        created.note(&written(pod("", "named by its sender"), None));
        created.note(&written(pod("web-", &"x".repeat(LARGEST)), None));
        assert_eq!(created.0.lock().len(), 0);
        (0..10).for_each(|n| created.note(&written(pod(&format!("{n}-"), "a"), None)));
        assert_eq!(created.0.lock().len(), KEPT);
        assert!(created.like(&pod("9-", "a")).is_some() && created.like(&pod("0-", "a")).is_none());
    }
}
