//! [`TestCollection`]: one resource in one namespace, under its names in the API and in the store, and the truth about it.
//!
//! The truth is read from the storage engine's log and not through the server, so that a fault of the watch cache
//! cannot hide itself. It knows the layout `/registry/RESOURCE/NAMESPACE/NAME` of the server's keys for namespaced
//! resources of the core group, and nothing else.

use std::collections::BTreeMap;

use http::Method;
use listwatch_storage::{Engine, Range};
use listwatch_wire::{ObjectKey, Revision};
use serde_json::Value;

use crate::history::{Seen, Truth};
use crate::raw::{RawClient, RawError};

/// A namespaced resource of the core group.
///
/// Small and cloneable; it holds names and no connection. It is what a [`Workload`](crate::workload::Workload) runs
/// on.
///
/// ```
/// use listwatch_testkit::TestCollection;
///
/// let secrets = TestCollection::core("secrets", "default");
/// assert_eq!(secrets.path(), "/api/v1/namespaces/default/secrets");
/// ```
#[derive(Clone, Debug)]
pub struct TestCollection {
    resource: String,
    namespace: String,
}

impl TestCollection {
    /// A resource of the core group in one namespace, for example `secrets` in `default`.
    #[must_use]
    pub fn core(resource: &str, namespace: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned() }
    }

    /// The path of the collection in the API.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/{}", self.namespace, self.resource)
    }

    /// The namespace that all its objects are in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The content of the store's own log: the objects that were there at `begin`, and every change since then.
    ///
    /// Reads to the revision that is current when it is called, so call it after the last write was answered. Changes
    /// of other collections pass by and are skipped.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn truth(&self, engine: &dyn Engine, begin: Revision) -> Result<Truth, RawError> {
        let mut truth = Truth::default();
        for (revision, key, content) in self.state_at(engine, begin).await? {
            truth.push(revision, key, Some(content));
        }
        let end = engine.current().await.map_err(storage)?;
        let mut changes = engine.changes(begin).await.map_err(storage)?;
        let mut upto = begin;
        while upto < end {
            let batch = changes.next().await.map_err(storage)?;
            upto = batch.upto;
            for change in batch.changes.iter() {
                let Some(key) = self.key(&change.key) else { continue };
                let content = change.value.as_ref().map(|value| content(value)).transpose()?;
                truth.push(change.revision, key, content);
            }
        }
        Ok(truth)
    }

    /// The list of the server.
    ///
    /// One unlimited list without a selector: for collections of tests, not for large ones.
    ///
    /// # Errors
    /// If the list fails.
    pub async fn state(&self, raw: &RawClient) -> Result<BTreeMap<ObjectKey, Seen>, RawError> {
        let list = raw.done(Method::GET, &self.path(), None).await?;
        Ok(items(&list).into_iter().map(|seen| (seen.key.clone(), seen)).collect())
    }

    /// The objects of a revision, in the order of their own revisions, as if they had been written one by one.
    async fn state_at(
        &self,
        engine: &dyn Engine,
        at: Revision,
    ) -> Result<Vec<(Revision, ObjectKey, Value)>, RawError> {
        if at == Revision::ZERO {
            return Ok(Vec::new());
        }
        let prefix = self.prefix();
        // '0' follows '/', so this is the first key behind the prefix.
        let end = format!("{}0", prefix.trim_end_matches('/'));
        let range = Range { start: prefix.into(), end: end.into(), limit: 0, at: Some(at) };
        let mut items = Vec::new();
        for item in engine.range(range).await.map_err(storage)?.items {
            if let Some(key) = self.key(&item.key) {
                items.push((item.revision, key, content(&item.value)?));
            }
        }
        items.sort_by_key(|(revision, ..)| *revision);
        Ok(items)
    }

    /// Where the server stores the objects.
    fn prefix(&self) -> String {
        format!("/registry/{}/{}/", self.resource, self.namespace)
    }

    /// The key of a stored path; `None` for another collection.
    fn key(&self, path: &str) -> Option<ObjectKey> {
        path.strip_prefix(&self.prefix()).map(|name| ObjectKey::namespaced(&self.namespace, name))
    }
}

/// The items of a list.
pub(crate) fn items(list: &Value) -> Vec<Seen> {
    let items = list.get("items").and_then(Value::as_array);
    items.into_iter().flatten().cloned().filter_map(Seen::from_object).collect()
}

/// A stored object as the validators see it; a resourceVersion is put in only because [`Seen`] takes it out again.
fn content(value: &[u8]) -> Result<Value, RawError> {
    let malformed = || RawError::Malformed("the store holds something that is not an object".into());
    let mut object: Value = serde_json::from_slice(value).map_err(|_| malformed())?;
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).ok_or_else(malformed)?;
    metadata.insert("resourceVersion".into(), "1".into());
    Ok(Seen::from_object(object).ok_or_else(malformed)?.content)
}

fn storage(error: impl std::fmt::Display) -> RawError {
    RawError::Connection(format!("store: {error}"))
}
