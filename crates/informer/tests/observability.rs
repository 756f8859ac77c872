//! The observability of an informer: problems, metrics, the debug page.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use listwatch::leader_election::{ElectionOptions, ElectionOutcome, InMemoryLease, LeaderElection};
use listwatch::lister_watcher::{InMemory, Scripted, ScriptedAnswer, WatchEvent};
use listwatch::{Event, HandlerOptions, Problem, Revision};
use listwatch_wire::status::Status;
use serde_json::Value;
use support::informer::{Informer, events, expired, page, settle, started};
use support::object;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn the_problem_hook_receives_failures_within_a_stream() {
    let source = Scripted::lists_only();
    for revision in [10, 20, 30] {
        source.on_list(page(revision, &[]));
        source.on_watch(events(vec![expired()]));
    }
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let informer = Informer::builder(source)
        .on_problem(move |problem, _| {
            assert!(matches!(problem, Problem::Watch(error) if error.is_expired()));
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .build();
    informer.start().unwrap();
    informer.store().wait_for(Revision(30)).await.unwrap();
    settle().await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!(informer.status().problems, [("expired", 3)]);
}

#[tokio::test(start_paused = true)]
async fn metrics_and_the_debug_page_show_lists_watches_problems_and_lag() {
    let source = Scripted::lists_only();
    source.on_list(page(10, &[("x/a", 1)]));
    source.on_watch(events(vec![WatchEvent::Modified(object("x/a", 11)), expired()]));
    source.on_list(page(20, &[("x/a", 11)]));
    let informer = Informer::builder(source).name("pods").build();
    informer.add_event_handler_with(|_: &Event<Value>| {}, HandlerOptions::named("queue")).unwrap();
    informer.start().unwrap();
    informer.store().wait_for(Revision(20)).await.unwrap();
    settle().await;
    let mut prometheus = listwatch::metrics::Prometheus::default();
    listwatch::metrics::collect(&[informer.status()], &mut prometheus);
    for line in [
        "# TYPE listwatch_informer_lists_total counter",
        "listwatch_informer_lists_total{informer=\"pods\"} 2",
        "listwatch_informer_watches_total{informer=\"pods\"} 2",
        "listwatch_informer_objects{informer=\"pods\"} 1",
        "listwatch_informer_revision{informer=\"pods\"} 20",
        "listwatch_informer_problems_total{informer=\"pods\",reason=\"expired\"} 1",
        "listwatch_handler_events_total{informer=\"pods\",handler=\"queue\"} 3",
        "listwatch_handler_backlog{informer=\"pods\",handler=\"queue\"} 0",
    ] {
        assert!(prometheus.text().lines().any(|l| l == line), "{line} is not in\n{}", prometheus.text());
    }
    let page = listwatch::debug::page(&[informer.status()]);
    assert!(page.starts_with("pods: opening, synced, 1 objects at revision 20\n"), "{page}");
    assert!(page.contains("too old; start over in"), "{page}");
    assert!(
        page.contains("handler queue: synced, 3 delivered, 0 unread, at revision 11, 0 panics"),
        "{page}"
    );
}

/// Two namespaces, of which one may not be listed: the page names it, and shows the other as healthy.
#[tokio::test(start_paused = true)]
async fn the_debug_page_shows_each_namespace_apart() {
    let (one, two) = (InMemory::new(10), Scripted::lists_only());
    two.on_list(ScriptedAnswer::Error(Status::forbidden("", "pods", "", "not yours").into()));
    let sources = listwatch::Sources::per_namespace([
        ("one".to_owned(), Arc::new(one) as Arc<dyn listwatch::ListerWatcher>),
        ("two".to_owned(), Arc::new(two) as Arc<dyn listwatch::ListerWatcher>),
    ]);
    let (informer, _) = started(sources).await;
    settle().await;
    let status = informer.status();
    let phases: Vec<_> = status.sources.iter().map(|s| (s.namespace.as_deref(), s.phase)).collect();
    assert_eq!(phases, [(Some("one"), "watching"), (Some("two"), "waiting")]);
    assert_eq!((status.phase, status.lists, status.streaming_lists), ("waiting", 1, 1));
    assert_eq!(status.sources[1].problems, [("list", 1)]);
    let page = listwatch::debug::page(&[status]);
    assert!(page.contains("  namespace one: watching, "), "{page}");
    assert!(page.contains("  namespace two: waiting, received up to 0, 1 lists"), "{page}");
    assert!(page.contains("    last problem, 0 s ago: "), "{page}");
    assert!(page.contains("not yours"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn an_election_reports_its_state_while_it_runs_and_after() {
    let lock = Arc::new(InMemoryLease::default());
    let election = LeaderElection::new(lock, ElectionOptions::new("me")).unwrap();
    let monitor = election.monitor();
    assert_eq!(monitor.status(), Default::default());
    let inside = monitor.clone();
    let work = |_| async move { inside.status() };
    let ElectionOutcome::Finished(during) = election.run(&CancellationToken::new(), work).await else {
        panic!()
    };
    assert_eq!((during.leading, during.leader.as_deref(), during.terms), (true, Some("me"), 1));
    assert!(!monitor.status().leading);
    // A leader that is dropped in the middle of its term does not lead.
    let never = CancellationToken::new();
    let forever = election.run(&never, |_| std::future::pending::<()>());
    assert!(timeout(Duration::from_secs(60), forever).await.is_err());
    let after = monitor.status();
    assert_eq!((after.leading, after.terms), (false, 2));
    let mut prometheus = listwatch::metrics::Prometheus::default();
    listwatch::metrics::collect_each(&[("greeter", after)], &mut prometheus);
    assert!(prometheus.text().contains("listwatch_election_terms_total{election=\"greeter\"} 2\n"));
    assert!(prometheus.text().contains("# TYPE listwatch_election_leading gauge\n"));
}
