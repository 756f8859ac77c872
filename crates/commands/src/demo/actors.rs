//! The parts of the demo: writers, a plain watch, two handlers, a controller.
//!
//! They use the public API of the libraries only, so the file can be read as an example. No two writers share an
//! object, and each object contains its time of sending, so that latency is measured end to end with one clock. The
//! controller writes with the resourceVersion of its cache: a conflict means that the object has changed since, and the
//! event of that change queues the key again. All responses and events are recorded for `verdict`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use http::{Method, StatusCode};
use listwatch::workqueue::{Job, Outcome, Runner, Running};
use listwatch::{Deleted, Event, Object, ObjectKey, Revision, Store};
use listwatch_testkit::history::handler::HandlerCall;
use listwatch_testkit::history::{Acknowledged, Frame, Seen, Start, Watch, WatchFilter};
use listwatch_testkit::raw::RawError;
use listwatch_testkit::{RawClient, TestCollection};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use super::counters::{DemoCounters, DemoHandler};
use super::{Demo, DemoArguments, LABEL, PATIENCE};

/// A part of each object that does not change, as most of a real one does not: about a KiB.
const TEXT: &str = "what stays as it is\n";
const TEXT_LINES: usize = 50;

/// The last desired state, by key, and every acknowledgement.
/// Grows with the run, because the verdict needs all of it.
#[derive(Debug, Default)]
pub(crate) struct WrittenValues {
    pub(crate) last: BTreeMap<ObjectKey, String>,
    pub(crate) acknowledged: Vec<Acknowledged>,
}

/// Writes desired values at the requested rate until the time is over, by several writers with separate keys.
///
/// The pace is one interval per writer, which catches up after a slow write, so the rate is kept as long as the
/// server can keep it.
pub(crate) async fn write_all(demo: &Demo) -> anyhow::Result<WrittenValues> {
    let DemoArguments { seconds, rate, writers: count, objects, .. } = demo.arguments;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let mut writers = JoinSet::new();
    for writer in 0..count {
        let (raw, collection, counters) = (demo.raw.clone(), demo.collection.clone(), demo.counters.clone());
        // Writes are assigned round-robin; with a multiple of the writers, no two of them share an object.
        let objects = objects.next_multiple_of(count);
        writers.spawn(async move {
            let mut values = WrittenValues::default();
            let mut pace = tokio::time::interval(Duration::from_secs_f64(f64::from(count) / f64::from(rate)));
            for value in (writer..).step_by(count as usize) {
                pace.tick().await;
                if tokio::time::Instant::now() >= deadline || !counters.is_writing() {
                    break;
                }
                let name = format!("object-{}", value % objects);
                values.write(&raw, &collection, &counters, &name, value).await?;
            }
            anyhow::Ok(values)
        });
    }
    let mut all = WrittenValues::default();
    while let Some(values) = writers.join_next().await {
        let values = values??;
        all.last.extend(values.last);
        all.acknowledged.extend(values.acknowledged);
    }
    demo.counters.end_writing();
    Ok(all)
}

impl WrittenValues {
    /// Writes an object and records what the server acknowledged, which is later compared with the store's log.
    async fn write(
        &mut self,
        raw: &RawClient,
        at: &TestCollection,
        counters: &DemoCounters,
        name: &str,
        value: u32,
    ) -> anyhow::Result<()> {
        let key = ObjectKey::namespaced(at.namespace(), name);
        let body = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": at.namespace(), "labels": {LABEL: "yes"}},
            "data": {"desired": value.to_string(), "sent": counters.now().to_string(), "text": TEXT.repeat(TEXT_LINES)},
        });
        let answer = if self.last.contains_key(&key) {
            raw.done(Method::PUT, &format!("{}/{name}", at.path()), Some(&body)).await?
        } else {
            raw.done(Method::POST, &at.path(), Some(&body)).await?
        };
        counters.written.fetch_add(1, Ordering::Relaxed);
        self.last.insert(key.clone(), value.to_string());
        self.acknowledged.push(Acknowledged { key, object: Seen::from_object(answer) });
        Ok(())
    }
}

/// A watch without any cache: what the server delivers, as it delivers it.
pub(crate) async fn watch(
    raw: RawClient,
    at: TestCollection,
    after: Revision,
    counters: Arc<DemoCounters>,
) -> anyhow::Result<Watch> {
    let filter = WatchFilter { namespace: Some(at.namespace().to_owned()), labels: LABEL.parse()? };
    let mut watch = Watch::new("watch", filter, Start::After(after));
    let path = format!("{}?watch=true&labelSelector={LABEL}&resourceVersion={after}", at.path());
    let mut stream = raw.watch(&path).await?;
    while let Some(frame) = next(&mut stream, &counters).await? {
        counters.delivered.fetch_add(u64::from(matches!(frame, Frame::Event { .. })), Ordering::Relaxed);
        watch.frames.push(frame);
    }
    Ok(watch)
}

/// The next frame; `None` when the demo is over.
async fn next(
    stream: &mut listwatch_testkit::raw::RawWatch,
    counters: &DemoCounters,
) -> Result<Option<Frame>, RawError> {
    loop {
        match tokio::time::timeout(Duration::from_millis(50), stream.next()).await {
            Ok(frame) => return frame,
            Err(_) if counters.is_finished() => return Ok(None),
            Err(_) => {}
        }
    }
}

/// Ends the watch once it has what it must have, or has had time enough for it.
pub(crate) async fn end_of_watch(
    watching: JoinHandle<anyhow::Result<Watch>>,
    counters: &DemoCounters,
    last: Revision,
) -> anyhow::Result<Watch> {
    // Everything is written and settled; what the watch has not been sent by now is not coming late, it is lost.
    tokio::time::sleep(Duration::from_millis(200)).await;
    counters.finish();
    let mut watch = tokio::time::timeout(PATIENCE, watching).await.context("the watch does not end")???;
    watch.complete_until = Some(last);
    Ok(watch)
}

/// The quick handler: records the event, and queues the key.
pub(crate) fn quick(demo: &Demo) -> impl FnMut(&Event<Value>) + Send + use<> {
    let (counters, queue) = (demo.counters.clone(), demo.queue.clone());
    move |event| {
        if let Some(object) = event.object().filter(|object| !is_reconciled(object)) {
            if let Some(sent) = data(object, "sent").and_then(|text| text.parse().ok()) {
                counters.record_latency(sent);
            }
            // Refused only when the queue is shut down, which is when nothing is left to do.
            queue.add(object.key().clone()).ok();
        }
        counters.record_call(DemoHandler::Quick, handler_call(event));
    }
}

/// The slow handler: sleeps for each event, which delays no other handler.
pub(crate) fn slow(demo: &Demo) -> impl FnMut(Event<Value>) -> tokio::time::Sleep + Send + use<> {
    let (counters, pause) = (demo.counters.clone(), Duration::from_millis(demo.arguments.slow));
    move |event| {
        counters.record_call(DemoHandler::Slow, handler_call(&event));
        tokio::time::sleep(pause)
    }
}

/// The controller: reconciles the desired value of the cached object.
///
/// Four workers: enough to show that one key is never handled by two at once.
pub(crate) fn controller(demo: &Demo) -> Running<ObjectKey> {
    let (raw, at, counters) = (demo.raw.clone(), demo.collection.clone(), demo.counters.clone());
    let store = demo.informer.store().clone();
    Runner::new(move |job: Job<ObjectKey>| {
        let (raw, at, counters, store) = (raw.clone(), at.clone(), counters.clone(), store.clone());
        async move { reconcile(&raw, &at, &counters, &store, &job.key).await }
    })
    .workers(4)
    .start(&demo.queue)
}

/// Reconciles one object: copies the desired value into `done`. A conflict is not an error, because the event of the newer
/// version queues the key again.
async fn reconcile(
    raw: &RawClient,
    at: &TestCollection,
    counters: &DemoCounters,
    store: &Store<Value>,
    key: &ObjectKey,
) -> Result<Outcome, RawError> {
    let Some(object) = store.get(key).filter(|object| !is_reconciled(object)) else {
        return Ok(Outcome::Done);
    };
    let mut body: Value =
        serde_json::from_slice(object.json()).map_err(|error| RawError::Malformed(error.to_string()))?;
    if let Some(fields) = body.get_mut("data").and_then(Value::as_object_mut) {
        fields.insert("done".into(), data(&object, "desired").unwrap_or_default().into());
    }
    // The body has the resourceVersion of the cache: if there is a newer value, the server answers with a conflict, and
    // the event of that value queues the key again.
    match raw.call(Method::PUT, &format!("{}/{}", at.path(), key.name()), Some(&body)).await? {
        (status, _) if status.is_success() => counters.reconciled.fetch_add(1, Ordering::Relaxed),
        (StatusCode::CONFLICT, _) => counters.retried.fetch_add(1, Ordering::Relaxed),
        (status, answer) => return Err(RawError::Refused(status, answer)),
    };
    Ok(Outcome::Done)
}

/// Objects that the controller has written itself are done, which ends the cycle of its own events.
pub(crate) fn is_reconciled(object: &Object<Value>) -> bool {
    data(object, "done").is_some_and(|done| data(object, "desired") == Some(done))
}

pub(crate) fn data(object: &Object<Value>, field: &str) -> Option<String> {
    object.text(&["data", field]).map(std::borrow::Cow::into_owned)
}

/// `None` for events without an object, and for objects without the fields that the verdict compares.
fn handler_call(event: &Event<Value>) -> Option<HandlerCall> {
    match event {
        Event::Added { object, .. } => Some(HandlerCall::Added(seen(object)?)),
        Event::Updated { old, new } => Some(HandlerCall::Updated { old: seen(old)?, new: seen(new)? }),
        Event::Deleted(Deleted { object, .. }) => Some(HandlerCall::Deleted(seen(object)?)),
        Event::Synced => None,
    }
}

pub(crate) fn seen(object: &Object<Value>) -> Option<Seen> {
    Seen::from_object(serde_json::from_slice(object.json()).ok()?)
}
