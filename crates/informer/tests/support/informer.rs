//! Informers over scripted sources, and a log of the events that handlers receive.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use listwatch::lister_watcher::{InMemory, ScriptedAnswer, SourcePage, WatchEvent};
use listwatch::{Event, Revision, SharedInformer};
use listwatch_wire::status::Status;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::object;

pub(crate) type Informer = SharedInformer<Value>;

/// The events of a handler, one line each.
#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn handler(&self) -> impl FnMut(&Event<Value>) + Send + 'static {
        let log = self.clone();
        move |event: &Event<Value>| log.push(event)
    }

    pub(crate) fn push(&self, event: &Event<Value>) {
        self.0.lock().unwrap().push(event.to_string());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Lets every task run until it waits for something; with paused time, a moment passes.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

pub(crate) fn page(revision: u64, objects: &[(&str, u64)]) -> ScriptedAnswer {
    let objects = objects.iter().map(|(key, revision)| object(key, *revision)).collect();
    ScriptedAnswer::Page(SourcePage { objects, revision: Revision(revision), ..SourcePage::default() })
}

pub(crate) fn events(events: Vec<WatchEvent>) -> ScriptedAnswer {
    ScriptedAnswer::Events { events, stay_open: true }
}

pub(crate) fn expired() -> WatchEvent {
    WatchEvent::Error(Box::new(Status::expired("too old")))
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"namespace": "x", "name": name, "uid": name}})
}

/// An informer that has just been started, and the log of its handler.
pub(crate) async fn started(source: impl Into<listwatch::Sources>) -> (Informer, Log) {
    let informer = Informer::new(source);
    let log = Log::default();
    informer.add_event_handler(log.handler()).unwrap();
    informer.start().unwrap();
    (informer, log)
}

/// An informer that has synced with these pods.
pub(crate) async fn synced(names: &[&str]) -> (InMemory, Informer) {
    let source = InMemory::new(100_000);
    names.iter().for_each(|name| {
        source.put(&pod(name)).unwrap();
    });
    let informer = Informer::new(source.clone());
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    (source, informer)
}
