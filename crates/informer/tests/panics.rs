//! Panics in user code: sources and hooks. Handlers are in `handlers.rs`, transformations in `transform.rs`.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use listwatch::delta::{Form, QueueOptions};
use listwatch::lister_watcher::{
    InMemory, ListRequest, ListerWatcher, SourceError, SourcePage, Sources, WatchRequest, WatchStream,
};
use listwatch::{InformerOptions, SharedInformer};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A source that panics in chosen calls, a given number of times.
#[derive(Clone)]
struct Panics {
    source: InMemory,
    list: Arc<AtomicUsize>,
    watch: Arc<AtomicUsize>,
    stream: Arc<AtomicUsize>,
}

impl Panics {
    fn new(source: &InMemory, [list, watch, stream]: [usize; 3]) -> Self {
        let counter = |times| Arc::new(AtomicUsize::new(times));
        Self { source: source.clone(), list: counter(list), watch: counter(watch), stream: counter(stream) }
    }
}

fn maybe_panic(times: &AtomicUsize, place: &str) {
    let left = times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    assert!(left.is_err(), "{place}");
}

#[async_trait::async_trait]
impl ListerWatcher for Panics {
    async fn list(&self, request: &ListRequest) -> Result<SourcePage, SourceError> {
        maybe_panic(&self.list, "panic in list");
        self.source.list(request).await
    }

    async fn watch(&self, request: &WatchRequest) -> Result<WatchStream, SourceError> {
        maybe_panic(&self.watch, "panic in watch");
        let times = Arc::clone(&self.stream);
        let stream = self.source.watch(request).await?;
        Ok(WatchStream::new(stream.inspect(move |_| maybe_panic(&times, "panic in stream"))))
    }

    fn streams_initial_events(&self) -> bool {
        false
    }
}

fn pod(namespace: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": "a", "uid": namespace}})
}

/// With several namespaces, the one whose source panicked was silently frozen for ever; with one, the informer ended.
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_source_is_reported_and_the_source_retried() {
    for (place, times) in [("list", [1, 0, 0]), ("watch", [0, 1, 0]), ("stream", [0, 0, 1])] {
        for namespaces in [vec!["good", "bad"], vec!["bad"]] {
            let (good, bad) = (InMemory::new(10), InMemory::new(10));
            let panics = Panics::new(&bad, times);
            let sources = namespaces.iter().map(|namespace| {
                let source: Arc<dyn ListerWatcher> =
                    if *namespace == "bad" { Arc::new(panics.clone()) } else { Arc::new(good.clone()) };
                ((*namespace).to_owned(), source)
            });
            let informer = SharedInformer::<Value>::new(Sources::per_namespace(sources));
            informer.start().unwrap();
            assert!(informer.wait_synced().await);
            bad.put(&pod("bad")).unwrap();
            sleep(Duration::from_secs(60)).await;
            assert!(informer.store().get_by("bad", "a").is_some(), "{place} {namespaces:?}");
            let status = informer.status();
            assert!(!informer.is_stopped() && status.phase == "watching", "{status:?}");
            let problem = status.last_problem.unwrap().problem.to_string();
            assert!(problem.contains(&format!("panic in {place}")), "{problem}");
        }
    }
}

/// A hook that panics ended an informer with one source, and its phase still said that it was watching.
#[tokio::test(start_paused = true)]
async fn a_problem_hook_that_panics_does_not_end_the_informer() {
    for form in [Form::InOrder, Form::Coalescing] {
        let source = InMemory::new(10);
        let mut options = InformerOptions::default();
        options.queue = QueueOptions::default().form(form);
        let informer = SharedInformer::<Value>::builder(Panics::new(&source, [2, 2, 2]))
            .options(options)
            .on_problem(|_, _| panic!("in the hook"))
            .build();
        informer.start().unwrap();
        timeout(Duration::from_secs(600), informer.wait_synced()).await.expect("it syncs");
        let last = source.put(&pod("x")).unwrap();
        timeout(Duration::from_secs(600), informer.store().wait_for(last))
            .await
            .expect("it watches")
            .unwrap();
        assert_eq!((informer.store().len(), informer.status().phase), (1, "watching"));
        informer.stop().await;
        assert!(informer.is_stopped() && informer.status().phase == "stopped");
    }
}

/// An informer that was stopped before it was started claimed to be idle.
#[tokio::test(start_paused = true)]
async fn an_informer_that_never_ran_is_stopped_in_every_respect() {
    let informer = SharedInformer::<Value>::new(InMemory::new(10));
    informer.stop().await;
    assert!(informer.is_stopped() && informer.status().phase == "stopped");
}
