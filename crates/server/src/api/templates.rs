//! [`RecentTemplates`]: decoded bodies of repeated creates.
//!
//! Controllers create many objects from one template: the Pods of a ReplicaSet have the same body and get generated names.
//! Decoding, defaulting and field ownership depend only on the request and the second in which it arrived, so the result
//! for an equal request of the same second is reused. The objects then share one tree, and later steps skip the parts that
//! are unchanged.
//!
//! A body is kept when it arrives for the second time. Steps that depend on other objects or on chance come later and run for
//! each request: admission, names, uids, validation (`pipeline/create.rs`).

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;
use listwatch_wire::json::Value;
use listwatch_wire::options::Query;
use parking_lot::Mutex;

use crate::registry::Resource;

/// The number of templates that are kept. Few controllers create at the same moment.
const KEPT: usize = 8;
/// The number of bodies whose repetition is noticed.
const NOTICED: usize = 32;
/// Larger bodies are not kept.
const LARGEST: usize = 16 << 10;

/// A request to create an object, as far as it decides what is made of its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateKey<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) query: &'a Arc<Query<'static>>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) body: &'a Bytes,
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The second of the request, which field ownership records.
    pub(crate) time: &'a str,
}

/// An object that was made of a body, before admission, and the warnings about the body.
#[derive(Clone, Debug)]
pub(crate) struct TemplateObject {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// The bodies of creations that came more than once lately.
#[derive(Debug, Default)]
pub(crate) struct RecentTemplates {
    /// Held for a few comparisons of bytes.
    templates: Mutex<Templates>,
    hasher: foldhash::fast::RandomState,
}

/// Both queues are bounded: a new entry evicts the oldest.
#[derive(Debug, Default)]
struct Templates {
    /// The hashes of bodies, the newest last.
    seen: VecDeque<u64>,
    /// The newest last.
    kept: VecDeque<Template>,
}

/// A request that came more than once.
#[derive(Debug)]
struct Template {
    resource: Arc<Resource>,
    namespace: Option<String>,
    query: Arc<Query<'static>>,
    content_type: Option<String>,
    body: Bytes,
    manager: String,
    time: String,
    made: TemplateObject,
}

impl Template {
    /// Copies everything that it is compared by, since the request ends before the next one comes.
    fn new(key: TemplateKey<'_>, made: TemplateObject) -> Self {
        Self {
            resource: Arc::clone(key.resource),
            namespace: key.namespace.map(str::to_owned),
            query: Arc::clone(key.query),
            content_type: key.content_type.map(str::to_owned),
            // Copied: a slice would keep the whole read buffer of the connection in memory.
            body: Bytes::copy_from_slice(key.body),
            manager: key.manager.to_owned(),
            time: key.time.to_owned(),
            made,
        }
    }

    /// Returns true if the request is the same but for its time. A resource that was defined anew is another one.
    fn is_like(&self, key: TemplateKey<'_>) -> bool {
        self.body == key.body
            && Arc::ptr_eq(&self.resource, key.resource)
            && self.namespace.as_deref() == key.namespace
            && self.query == *key.query
            && self.content_type.as_deref() == key.content_type
            && self.manager == key.manager
    }
}

impl RecentTemplates {
    /// The object that was made of the same request in this second.
    pub(crate) fn get(&self, key: TemplateKey<'_>) -> Option<TemplateObject> {
        let templates = self.templates.lock();
        let mut same = templates.kept.iter().rev().filter(|kept| kept.time == key.time);
        same.find(|kept| kept.is_like(key)).map(|kept| kept.made.clone())
    }

    /// Notes what was made of a request, and keeps it if its body came before.
    pub(crate) fn note(&self, key: TemplateKey<'_>, made: impl FnOnce() -> TemplateObject) {
        if key.body.len() > LARGEST {
            return;
        }
        let hash = self.hasher.hash_one(key.body);
        let mut templates = self.templates.lock();
        if !templates.seen.contains(&hash) {
            return push(&mut templates.seen, hash, NOTICED);
        }
        templates.kept.retain(|kept| !kept.is_like(key));
        push(&mut templates.kept, Template::new(key, made()), KEPT);
    }
}

/// Adds an entry in the place of the oldest.
fn push<T>(entries: &mut VecDeque<T>, entry: T, most: usize) {
    if entries.len() >= most {
        entries.pop_front();
    }
    entries.push_back(entry);
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn resource() -> Arc<Resource> {
        let engine = Arc::new(listwatch_storage::MemoryEngine::default());
        let cache = crate::cache::Cache::new(engine, crate::CacheLimits::default());
        let kind = listwatch_kinds::by_kind("", "v1", "Pod").unwrap();
        Arc::new(Resource::builtin(kind, cache.collection("pods", &[])))
    }

    #[test]
    fn the_second_of_equal_requests_is_kept_for_those_after_it() {
        let (templates, resource, other) = (RecentTemplates::default(), resource(), resource());
        let (query, body) = (Arc::new(Query::default()), Bytes::from_static(b"a template"));
        let key = TemplateKey {
            resource: &resource,
            namespace: Some("n"),
            query: &query,
            content_type: None,
            body: &body,
            manager: "m",
            time: "1",
        };
        let made = |n: u64| TemplateObject { object: json!({"made": n}), warnings: Vec::new() };
        let found = |key| templates.get(key).map(|made| made.object);
        templates.note(key, || unreachable!("nothing is kept of what comes once"));
        assert_eq!(found(key), None);
        templates.note(key, || made(2));
        assert_eq!(found(key), Some(json!({"made": 2})));
        let (elsewhere, mine) =
            (Bytes::from_static(b"another"), Arc::new(Query::parse("dryRun=All").into_owned()));
        for different in [
            TemplateKey { resource: &other, ..key },
            TemplateKey { namespace: None, ..key },
            TemplateKey { query: &mine, ..key },
            TemplateKey { content_type: Some("application/yaml"), ..key },
            TemplateKey { body: &elsewhere, ..key },
            TemplateKey { manager: "", ..key },
            TemplateKey { time: "2", ..key },
        ] {
            assert_eq!(found(different), None, "{different:?}");
        }
        let later = TemplateKey { time: "2", ..key };
        templates.note(later, || made(3));
        assert_eq!((found(later), found(key)), (Some(json!({"made": 3})), None));
        assert_eq!(templates.templates.lock().kept.len(), 1);
    }

    #[test]
    fn few_are_kept() {
        let (templates, resource, query) =
            (RecentTemplates::default(), resource(), Arc::new(Query::default()));
        for n in 0..100 {
            let body = Bytes::from(format!("template {n}"));
            let key = TemplateKey {
                resource: &resource,
                namespace: None,
                query: &query,
                content_type: None,
                body: &body,
                manager: "m",
                time: "1",
            };
            for _ in 0..2 {
                let made = || TemplateObject { object: Value::Null, warnings: Vec::new() };
                templates.note(key, made);
            }
        }
        let templates = templates.templates.lock();
        assert_eq!((templates.seen.len(), templates.kept.len()), (NOTICED, KEPT));
    }
}
