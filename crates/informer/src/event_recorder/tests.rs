//! Tests of the correlator (which occurrences become events) and of the recorder (events that cannot be written).
//! The correlator is driven with times passed in; the recorder runs under tokio's paused clock with a scripted sink.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::*;
use crate::sync::Mutex;

fn pod(name: &str) -> ObjectReference {
    let (api_version, kind) = ("v1".to_owned(), "Pod".to_owned());
    ObjectReference {
        api_version,
        kind,
        namespace: "x".to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
    }
}

fn failed(name: &str, note: &str) -> Occurrence {
    Occurrence::warning(pod(name), "Failed", "Starting", note)
}

fn reporter() -> Reporter {
    Reporter { controller: "example.com/test".to_owned(), instance: "test-1".to_owned() }
}

struct World {
    correlator: Correlator,
    now: Instant,
}

impl World {
    fn new(options: CorrelatorOptions) -> Self {
        Self { correlator: Correlator::new(reporter(), options), now: Instant::now() }
    }

    fn observe(&mut self, occurrence: Occurrence) -> CorrelateResult {
        self.correlator.observe(occurrence, self.now, Timestamp::UNIX_EPOCH)
    }

    fn pass(&mut self, seconds: u64) -> Vec<u32> {
        self.now += Duration::from_secs(seconds);
        let count = |event: EventRecord| event.series.map_or(1, |series| series.count);
        self.correlator.tick(self.now).into_iter().map(count).collect()
    }
}

#[test]
fn the_first_is_created_the_second_makes_a_series_the_others_are_counted() {
    let mut world = World::new(CorrelatorOptions::default());
    let CorrelateResult::Create(first) = world.observe(failed("a", "one")) else { panic!("not created") };
    let CorrelateResult::Extend(second) = world.observe(failed("a", "two")) else { panic!("not extended") };
    assert_eq!((&second.name, second.series.unwrap().count), (&first.name, 2));
    assert_eq!(second.occurrence.note, "one");
    for _ in 0..100 {
        assert_eq!(world.observe(failed("a", "more")), CorrelateResult::Counted);
    }
    assert!(matches!(world.observe(failed("b", "one")), CorrelateResult::Create(_)));
}

#[test]
fn a_series_is_written_when_it_ends_and_now_and_then_before() {
    let mut world = World::new(CorrelatorOptions::default());
    for _ in 0..5 {
        world.observe(failed("a", ""));
    }
    assert_eq!(world.pass(6 * 60), [5]);
    assert_eq!(world.correlator.followed(), 0);
    assert!(matches!(world.observe(failed("a", "")), CorrelateResult::Create(_)));
    let mut written = Vec::new();
    for _ in 0..35 {
        world.observe(failed("a", ""));
        written.extend(world.pass(60));
    }
    assert_eq!(written.len(), 1);
    assert_eq!(world.pass(6 * 60), [36]);
}

#[test]
fn an_idle_series_is_finished_without_a_tick() {
    let mut world = World::new(CorrelatorOptions::default());
    for _ in 0..3 {
        world.observe(failed("a", ""));
    }
    world.now += Duration::from_secs(3_600);
    assert!(matches!(world.observe(failed("a", "")), CorrelateResult::Create(_)));
    assert_eq!(world.pass(0), [3]);
}

#[test]
fn writes_about_one_object_are_limited_without_delaying_others() {
    let mut world = World::new(CorrelatorOptions::default());
    let reasons = |world: &mut World, from: u32, to: u32| {
        let made = (from..to).filter(|n| {
            let reason = format!("Reason{n}");
            matches!(world.observe(Occurrence { reason, ..failed("a", "") }), CorrelateResult::Create(_))
        });
        made.count()
    };
    assert_eq!(reasons(&mut world, 0, 100), 25);
    assert!(matches!(world.observe(failed("b", "")), CorrelateResult::Create(_)));
    world.now += Duration::from_secs(5 * 60);
    assert_eq!(reasons(&mut world, 100, 200), 1);
}

#[test]
fn bounds_hold_and_what_is_pushed_out_is_written() {
    let mut world = World::new(CorrelatorOptions { series_max: 10, ..CorrelatorOptions::default() });
    for _ in 0..3 {
        world.observe(failed("first", ""));
    }
    for n in 0..100 {
        world.observe(failed(&format!("p{n}"), ""));
    }
    assert_eq!(world.correlator.followed(), 10);
    assert_eq!(world.pass(1), [3]);
}

#[test]
fn events_are_what_the_api_accepts() {
    let mut world = World::new(CorrelatorOptions::default());
    let long = failed(&"n".repeat(253), &"ä".repeat(2_000));
    let CorrelateResult::Create(event) = world.observe(long) else { panic!("not created") };
    assert!(event.name.len() <= 253, "{}", event.name.len());
    assert!(event.occurrence.note.len() <= 1024);
    let json = event.to_json();
    assert_eq!(json["eventTime"], "1970-01-01T00:00:00.000000Z");
    assert_eq!((&json["type"], &json["regarding"]["kind"]), (&"Warning".into(), &"Pod".into()));
    assert!(json.get("series").is_none());
    let CorrelateResult::Extend(event) = world.observe(failed(&"n".repeat(253), "")) else {
        panic!("not extended")
    };
    assert_eq!(event.series_json()["series"]["count"], 2);
    assert!(!Occurrence { reason: String::new(), ..failed("a", "") }.is_valid());
    assert!(!Occurrence { action: "x".repeat(129), ..failed("a", "") }.is_valid());
}

#[test]
fn two_events_of_one_moment_have_two_names() {
    let mut world = World::new(CorrelatorOptions::default());
    let one = world.observe(failed("a", ""));
    let two = world.observe(Occurrence { reason: "Other".to_owned(), ..failed("a", "") });
    let (CorrelateResult::Create(one), CorrelateResult::Create(two)) = (one, two) else {
        panic!("not created")
    };
    assert_ne!(one.name, two.name);
}

/// Records what is written, and fails as scripted.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<SinkState>>);

#[derive(Default)]
struct SinkState {
    lines: Vec<String>,
    failures: Vec<SinkError>,
}

impl Sink {
    fn failing(failures: impl IntoIterator<Item = SinkError>) -> Self {
        let sink = Self::default();
        sink.0.lock().failures.extend(failures);
        sink
    }

    fn take(&self, what: &str, event: &EventRecord) -> Result<(), SinkError> {
        let mut state = self.0.lock();
        if let Some(error) = state.failures.pop() {
            return Err(error);
        }
        let count = event.series.map_or(1, |series| series.count);
        state.lines.push(format!("{what} {} {count}", event.occurrence.regarding.name));
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().lines.clone()
    }
}

#[async_trait::async_trait]
impl EventSink for Sink {
    async fn create(&self, event: &EventRecord) -> Result<(), SinkError> {
        self.take("create", event)
    }

    async fn extend(&self, event: &EventRecord) -> Result<(), SinkError> {
        self.take("extend", event)
    }
}

fn start(sink: &Sink, queue: usize) -> EventRecorder {
    EventRecorder::start(sink.clone(), reporter(), RecorderOptions { queue, ..RecorderOptions::default() })
}

#[tokio::test(start_paused = true)]
async fn a_shut_down_writes_what_is_queued_and_the_counts_of_series() {
    let sink = Sink::default();
    let recorder = start(&sink, 100);
    for _ in 0..5 {
        recorder.record(failed("a", ""));
    }
    recorder.record(failed("b", ""));
    recorder.shut_down().await;
    assert_eq!(sink.lines(), ["create a 1", "extend a 2", "create b 1", "extend a 5"]);
    let stats = recorder.stats();
    assert_eq!((stats.written, stats.counted, stats.dropped), (4, 4, 0));
    recorder.record(failed("c", ""));
    assert_eq!(recorder.stats().dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_for_and_the_queue_drops_what_it_cannot_hold() {
    let sink = Sink::failing((0..8).map(|_| SinkError::Failed("down".to_owned())));
    let recorder = start(&sink, 10);
    recorder.record(failed("a", ""));
    sleep(Duration::from_millis(1)).await;
    for n in 0..30 {
        recorder.record(failed(&format!("p{n}"), ""));
    }
    assert_eq!(recorder.stats().dropped, 20);
    sleep(Duration::from_secs(200)).await;
    assert_eq!(sink.lines().len(), 11);
    assert_eq!(recorder.stats().failed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_event_is_given_up_and_the_next_is_the_first_again() {
    let sink = Sink::failing([SinkError::Refused("namespace is terminating".to_owned())]);
    let recorder = start(&sink, 10);
    recorder.record(failed("a", ""));
    recorder.record(failed("a", ""));
    recorder.record(Occurrence { reason: String::new(), ..failed("a", "") });
    recorder.shut_down().await;
    assert_eq!(sink.lines(), ["create a 1"]);
    assert_eq!((recorder.stats().failed, recorder.stats().invalid), (1, 1));
}

/// Events live for an hour in the cluster; a series may live longer here.
#[tokio::test(start_paused = true)]
async fn a_series_whose_event_is_gone_is_created_again() {
    let sink = Sink::default();
    let recorder = start(&sink, 10);
    recorder.record(failed("a", ""));
    sleep(Duration::from_secs(1)).await;
    sink.0.lock().failures.push(SinkError::Gone);
    recorder.record(failed("a", ""));
    recorder.shut_down().await;
    assert_eq!(sink.lines(), ["create a 1", "create a 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_shut_down_in_an_outage_ends_in_time() {
    let sink = Sink::failing((0..1_000).map(|_| SinkError::Failed("down".to_owned())));
    let recorder = start(&sink, 10);
    for n in 0..10 {
        recorder.record(failed(&format!("p{n}"), ""));
    }
    let start = Instant::now();
    recorder.shut_down().await;
    assert!(start.elapsed() <= Duration::from_secs(6), "{:?}", start.elapsed());
}
