//! The writers and listers of a workload.
//!
//! Each writer has keys of its own, so that the next valid operation is certain and a refusal is a fault of the
//! server. Failed lists are repeated after a pause; only responses are checked. Names, selectors and operations are
//! drawn in `names`; the third kind of actor is in `watcher`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use listwatch_wire::{ObjectKey, Revision};
use rand::RngExt;
use serde_json::Value;

use super::{WorkloadStage, names};
use crate::collection::items;
use crate::history::{Acknowledged, ListRecord, Seen};
use crate::raw::RawError;

/// The pause between lists, and after a failed request.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Creates, changes and deletes its own keys at random.
///
/// Any refusal ends the run with an error: no other writer touches these keys.
pub(super) async fn writer(stage: Arc<WorkloadStage>, number: usize) -> Result<Vec<Acknowledged>, RawError> {
    let mut random = stage.random(number as u64);
    let mut exists = vec![false; stage.workload.keys];
    let mut acknowledged = Vec::new();
    for write in 0..stage.workload.writes {
        let slot = random.random_range(0..exists.len().max(1));
        let Some(there) = exists.get_mut(slot) else { break };
        // With the seed in the name, several runs can follow each other on one server.
        let name = format!("s{}-w{number}-{slot}", stage.workload.seed);
        let (method, path, body) = names::operation(&mut random, &stage.collection, &name, *there, write);
        let answer = stage.writes.done(method.clone(), &path, body.as_ref()).await?;
        *there = method != Method::DELETE;
        let object = if method == Method::DELETE { None } else { Seen::from_object(answer) };
        if let Some(object) = &object {
            stage.acknowledged.fetch_max(object.revision.0, Ordering::SeqCst);
        }
        acknowledged
            .push(Acknowledged { key: ObjectKey::namespaced(stage.collection.namespace(), &name), object });
    }
    Ok(acknowledged)
}

/// Lists with random selectors for as long as there is writing. A failed list is repeated: only responses are checked.
pub(super) async fn lister(stage: Arc<WorkloadStage>, number: usize) -> Result<Vec<ListRecord>, RawError> {
    let mut random = stage.random(1_000 + number as u64);
    let mut lists = Vec::new();
    while stage.end.borrow().is_none() {
        let (filter, query) = names::filter(&mut random, &stage.collection);
        let not_older_than = stage.newest_acknowledged();
        let name = format!("list {number}.{}", lists.len());
        let path = format!("{}?{query}", stage.collection.path());
        if let Ok(answer) = stage.reads.done(Method::GET, &path, None).await {
            let (revision, items) = (list_revision(&answer)?, items(&answer));
            lists.push(ListRecord { name, filter, not_older_than, revision, items });
        }
        // Lists are checked between writes and should not crowd them out.
        tokio::time::sleep(PAUSE).await;
    }
    Ok(lists)
}

/// The revision of a list, at which its items are compared.
pub(super) fn list_revision(list: &Value) -> Result<Revision, RawError> {
    let text = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| RawError::Malformed("a list without resourceVersion".into()))
}
