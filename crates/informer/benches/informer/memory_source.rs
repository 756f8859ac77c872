//! Updates from a source in memory, to the store with one index and to handlers: processor time per update.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, stream};
use listwatch::lister_watcher::{
    ListRequest, ListerWatcher, SourceError, SourcePage, WatchEvent, WatchRequest, WatchStream,
};
use listwatch::object::{Keep, Object};
use listwatch::{Event, HandlerOptions, Revision, SharedInformer};
use tokio::sync::watch;

use crate::measure::{cpu_micros, elsewhere};
use crate::row;

const OBJECTS: usize = 10_000;
const UPDATES: usize = 1_000_000;

pub(crate) fn all() {
    for (handlers, goal, go, kube) in [(1, "0.8", "4.2", "45*"), (10, "2.0", "13.4", "-")] {
        for batch in [100, 1] {
            let [all, making, keeping] = least(handlers, batch);
            let name = format!(
                "in-memory source, {handlers} handlers, 1 index, {batch} per read: CPU us per update"
            );
            row(&name, &format!("{:.2}", all - making), goal, go, kube);
            println!(
                "    which is {all:.2} all in all, less {making:.2} for making the objects; \
                 an array that keeps them: {:.2}",
                keeping - making
            );
        }
    }
}

/// The least of five runs, of each part: what else the machine does only ever adds.
fn least(handlers: usize, batch: usize) -> [f64; 3] {
    let run = |_| elsewhere(&["updates", &handlers.to_string(), &batch.to_string()]);
    let runs: Vec<_> = (0..5).map(run).collect();
    [0, 1, 2].map(|at| runs.iter().map(|run| run[at]).fold(f64::INFINITY, f64::min))
}

pub(crate) fn json(number: usize, version: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"pod-{number:06}","namespace":"team-{:02}","uid":"{number}","resourceVersion":"{version}","labels":{{"node":"node-{:03}"}}}},"spec":{{"nodeName":"node-{:03}"}}}}"#,
        number % 20,
        number % 100,
        number % 100,
    )
}

pub(crate) fn object(number: usize, version: usize) -> Object {
    Object::from_json(json(number, version).as_bytes(), Keep::default()).unwrap()
}

/// The watch makes its objects on the fly, as a decoder would; that cost is measured separately and subtracted.
struct Updates {
    batch: usize,
    go: watch::Receiver<bool>,
}

/// Every object in turn but not in order: neighbours in time are not neighbours in the tree.
fn update(at: usize) -> WatchEvent {
    WatchEvent::Modified(object(at * 7919 % OBJECTS, OBJECTS + at + 1))
}

fn batch(number: usize, size: usize) -> Vec<WatchEvent> {
    (number * size..(number + 1) * size).map(update).collect()
}

/// Microseconds of processor time per update of doing something with all of them.
fn cost(size: usize, mut each: impl FnMut(Vec<WatchEvent>)) -> f64 {
    let cpu = cpu_micros();
    for number in 0..UPDATES / size {
        each(batch(number, size));
    }
    (cpu_micros() - cpu) / UPDATES as f64
}

/// Making the objects, and nothing else. This is taken off the figure.
fn making(size: usize) -> f64 {
    cost(size, |events| {
        std::hint::black_box(events);
    })
}

/// The cost that any cache must pay and that is not subtracted: making the objects and keeping the last version of
/// each, in an array that is indexed directly.
fn keeping(size: usize) -> f64 {
    let mut at = 0;
    let mut kept: Vec<_> = (0..OBJECTS).map(|number| object(number, number + 1)).collect();
    cost(size, |events| {
        for event in events {
            if let WatchEvent::Modified(object) = event {
                kept[at * 7919 % OBJECTS] = object;
            }
            at += 1;
        }
    })
}

#[async_trait::async_trait]
impl ListerWatcher for Updates {
    async fn list(&self, _: &ListRequest) -> Result<SourcePage, SourceError> {
        let objects = (0..OBJECTS).map(|number| object(number, number + 1)).collect();
        let revision = Revision(OBJECTS as u64);
        Ok(SourcePage { objects, revision, ..SourcePage::default() })
    }

    async fn watch(&self, _: &WatchRequest) -> Result<WatchStream, SourceError> {
        let size = self.batch;
        let mut go = self.go.clone();
        let ready = stream::once(async move {
            let _ = go.wait_for(|go| *go).await;
            Ok(Vec::new())
        });
        Ok(WatchStream::new(
            ready
                .chain(stream::iter((0..UPDATES / size).map(move |number| Ok(batch(number, size)))))
                .chain(stream::pending()),
        ))
    }

    fn streams_initial_events(&self) -> bool {
        false
    }
}

pub(crate) fn updates(handlers: usize, size: usize) {
    let (go, ready) = watch::channel(false);
    let source = Updates { batch: size, go: ready };
    let (making, keeping) = (making(size), keeping(size));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let informer = SharedInformer::<listwatch::Raw>::new(source);
        let store = informer.store();
        store
            .add_index("node", |o: &Object| Ok(o.label("node").map(String::from).into_iter().collect()))
            .unwrap();
        let seen: Arc<Vec<AtomicU64>> = Arc::new((0..handlers).map(|_| AtomicU64::new(0)).collect());
        let mut registrations = Vec::new();
        for at in 0..handlers {
            let seen = Arc::clone(&seen);
            let handler = move |event: &Event| {
                if let Some(object) = event.object() {
                    seen[at].store(object.revision().0, Ordering::Relaxed);
                }
            };
            let options = HandlerOptions::default().max_backlog(usize::MAX);
            registrations.push(informer.add_event_handler_with(handler, options).unwrap());
        }
        informer.start().unwrap();
        for registration in &registrations {
            registration.wait_synced().await;
        }
        let cpu = cpu_micros();
        go.send(true).unwrap();
        let last = Revision((OBJECTS + UPDATES) as u64);
        store.wait_for(last).await.unwrap();
        while seen.iter().any(|seen| seen.load(Ordering::Relaxed) < last.0) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let delivered: u64 = registrations.iter().map(|r| r.status().delivered).sum();
        assert!(delivered >= (handlers * UPDATES) as u64, "{delivered} delivered");
        println!("{} {making} {keeping}", (cpu_micros() - cpu) / UPDATES as f64);
    });
    std::process::exit(0);
}
