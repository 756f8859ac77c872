//! A thousand watchers of which ten never read: the effect on the latency of the others.
//!
//! 990 watchers read all the time. Short rounds of paced writes with and without ten more that do not read take turns in one
//! run, A B B A, so that other load on the machine affects both equally. A latency is the time from sending a write to an
//! event's arrival at one watcher. The ten begin far back in history, so that they are stuck before a round begins; the
//! server's list of watches confirms it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{interval, sleep, timeout};

use crate::client::{Connection, config_map, config_maps};
use crate::process::Server;

const READERS: usize = 990;
const STUCK: usize = 10;
/// Rounds of each arm, unless `LISTWATCH_ROUNDS` says otherwise.
const ROUNDS: usize = 40;
const WRITES: usize = 20;
/// A write becomes 990 events, which take several milliseconds of both cores: this leaves them idle most of the time.
const PACE: Duration = Duration::from_millis(50);
/// More than the kernel takes for a connection (4 MB at most, and what the other side takes).
const BACKLOG_EVENTS: usize = 400;
const BACKLOG_BYTES: usize = 30_000;
/// After watches have come or gone, before anything is measured.
const SETTLE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(30);
const RESAMPLES: usize = 1000;

type Latencies = Histogram<u64>;

pub(crate) async fn run() {
    let rounds = crate::count("LISTWATCH_ROUNDS", ROUNDS);
    let mut stage = Stage::set().await;
    let mut arms = [Arm::default(), Arm::default()];
    // One of each is thrown away: caches fill, buffers grow.
    for arm in [0, 1] {
        stage.round(arm == 1).await;
    }
    for round in 0..2 * rounds {
        let arm = usize::from(matches!(round % 4, 1 | 2));
        let measured = stage.round(arm == 1).await;
        arms[arm].add(measured);
    }
    report(&arms, rounds);
}

/// The results of one round.
struct Round {
    latencies: Latencies,
    cpu_micros: f64,
}

#[derive(Default)]
struct Arm {
    rounds: Vec<Latencies>,
    cpu_micros: f64,
}

impl Arm {
    fn add(&mut self, round: Round) {
        self.rounds.push(round.latencies);
        self.cpu_micros += round.cpu_micros;
    }

    fn pooled<'a>(rounds: impl Iterator<Item = &'a Latencies>) -> Latencies {
        let mut all = empty();
        rounds.for_each(|round| all.add(round).unwrap());
        all
    }

    fn resampled(&self, random: &mut StdRng) -> Latencies {
        Self::pooled((0..self.rounds.len()).map(|_| &self.rounds[random.random_range(0..self.rounds.len())]))
    }

    /// The middle one of the rounds' own quantiles.
    fn median_of(&self, quantile: f64) -> f64 {
        let mut all: Vec<u64> = self.rounds.iter().map(|round| round.value_at_quantile(quantile)).collect();
        all.sort_unstable();
        all[all.len() / 2] as f64
    }
}

fn empty() -> Latencies {
    Histogram::new_with_bounds(1, 60_000_000, 3).unwrap()
}

/// The server, the watchers that read, and the writer.
struct Stage {
    server: Server,
    audience: Arc<Audience>,
    writer: Connection,
    /// For reading the server's own figures.
    observer: Connection,
    stuck: Vec<Connection>,
    /// The resource version at which the watchers that do not read begin.
    before_backlog: String,
    epoch: Instant,
    expected: usize,
}

/// The events that the readers have seen.
struct Audience {
    seen: Vec<Mutex<Vec<u64>>>,
    count: AtomicUsize,
}

impl Stage {
    async fn set() -> Self {
        let server = Server::start();
        let mut writer = Connection::open(&server).await;
        let path = config_maps("default");
        let before = writer.json(&path).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        writer.call("POST", &path, &config_map("subject", &json!({}))).await;
        for n in 0..BACKLOG_EVENTS {
            let data = json!({"n": n.to_string(), "payload": "x".repeat(BACKLOG_BYTES)});
            writer.call("PUT", &format!("{path}/subject"), &config_map("subject", &data)).await;
        }
        let observer = Connection::open(&server).await;
        let audience = Arc::new(Audience {
            seen: (0..READERS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
        });
        let epoch = Instant::now();
        let mut stage = Self {
            server,
            audience,
            writer,
            observer,
            stuck: Vec::new(),
            before_backlog: before,
            epoch,
            expected: 0,
        };
        stage.seat_readers().await;
        stage
    }

    async fn seat_readers(&mut self) {
        for number in 0..READERS {
            let mut connection = Connection::open(&self.server).await;
            connection.watch(&watch_path("timeoutSeconds=3600")).await;
            tokio::spawn(read(connection, number, self.epoch, Arc::clone(&self.audience)));
        }
    }

    async fn round(&mut self, with_stuck: bool) -> Round {
        self.seat_stuck(if with_stuck { STUCK } else { 0 }).await;
        sleep(SETTLE).await;
        let stuck = self.stuck_watches().await;
        let before = self.server.cpu_micros();
        self.write().await;
        let cpu_micros = self.server.cpu_micros() - before;
        self.still_stuck(&stuck).await;
        let mut latencies = empty();
        for seen in &self.audience.seen {
            seen.lock().unwrap().drain(..).for_each(|micros| latencies.record(micros.max(1)).unwrap());
        }
        assert_eq!(latencies.len() as usize, READERS * WRITES);
        Round { latencies, cpu_micros }
    }

    /// Opens or closes the watchers that do not read.
    async fn seat_stuck(&mut self, wanted: usize) {
        if self.stuck.len() > wanted {
            self.stuck.clear();
        }
        while self.stuck.len() < wanted {
            let mut connection = Connection::with_window(&self.server, Some(4096)).await;
            let from = format!("resourceVersion={}&timeoutSeconds=3600", self.before_backlog);
            connection.watch(&watch_path(&from)).await;
            self.stuck.push(connection);
        }
        let quiet = async {
            let mut last = Vec::new();
            loop {
                let (count, stuck) = self.lagging().await;
                if count == READERS + wanted && stuck.len() == wanted && stuck == last {
                    return;
                }
                last = stuck;
                sleep(SETTLE).await;
            }
        };
        timeout(PATIENCE, quiet).await.expect("the ten are stuck and nobody else is");
    }

    /// The number of watches and, of those that lag, their position and the events sent to them.
    async fn lagging(&mut self) -> (usize, Vec<(u64, u64)>) {
        lagging(&self.observer.json("/debug/listwatch/watches").await)
    }

    async fn stuck_watches(&mut self) -> Vec<(u64, u64)> {
        self.lagging().await.1
    }

    /// Checks that after the writes the same watches are stuck and no other lags.
    async fn still_stuck(&mut self, before: &[(u64, u64)]) {
        assert_eq!(self.stuck_watches().await, before, "the ten stayed where they were");
    }

    /// Writes at an even pace and waits until all watchers have received everything.
    async fn write(&mut self) {
        let path = format!("{}/subject", config_maps("default"));
        let payload = "x".repeat(1000);
        let mut pace = interval(PACE);
        for _ in 0..WRITES {
            pace.tick().await;
            let at = self.epoch.elapsed().as_micros().to_string();
            let body = config_map("subject", &json!({"at": at, "payload": payload}));
            self.writer.call("PUT", &path, &body).await;
        }
        self.expected += READERS * WRITES;
        let all = async {
            while self.audience.count.load(Ordering::Acquire) < self.expected {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, all).await.expect("everybody sees everything");
    }
}

fn watch_path(query: &str) -> String {
    format!("{}?watch=true&{query}", config_maps("default"))
}

fn lagging(document: &Value) -> (usize, Vec<(u64, u64)>) {
    let watches = document["watches"].as_array().unwrap();
    let ours = watches.iter().filter(|watch| watch["resource"] == "configmaps");
    let number = |watch: &Value, name: &str| watch[name].as_u64().unwrap();
    let (mut count, mut behind) = (0, Vec::new());
    for watch in ours {
        count += 1;
        if number(watch, "lagRevisions") > 0 {
            behind.push((number(watch, "position"), number(watch, "bytes")));
        }
    }
    behind.sort_unstable();
    (count, behind)
}

/// Reads events for ever and notes how old each is.
async fn read(mut connection: Connection, number: usize, epoch: Instant, audience: Arc<Audience>) {
    let mut buffer = Vec::with_capacity(4096);
    while connection.stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        let now = epoch.elapsed().as_micros() as u64;
        let mut done = 0;
        while let Some((sent, length)) = next_mark(&buffer[done..]) {
            audience.seen[number].lock().unwrap().push(now.saturating_sub(sent));
            audience.count.fetch_add(1, Ordering::Release);
            done += length;
        }
        buffer.drain(..done);
    }
}

/// The time that an event carries, and how many bytes end with it.
fn next_mark(bytes: &[u8]) -> Option<(u64, usize)> {
    const MARK: &[u8] = b"\"at\":\"";
    let start = memchr::memmem::find(bytes, MARK)? + MARK.len();
    let length = memchr::memchr(b'"', &bytes[start..])?;
    let text = std::str::from_utf8(&bytes[start..start + length]).unwrap();
    Some((text.parse().unwrap(), start + length))
}

fn report(arms: &[Arm; 2], rounds: usize) {
    let events = (rounds * WRITES * READERS) as f64;
    println!(
        "{READERS} watchers that read, {rounds} rounds of {WRITES} writes without and {rounds} with {STUCK} that do not"
    );
    println!("{:<34} {:>9} {:>9} {:>7}   95% of resamples", "", "without", "with", "ratio");
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        let [without, with] = arms.each_ref().map(|arm| Arm::pooled(arm.rounds.iter()));
        let of = |latencies: &Latencies| latencies.value_at_quantile(quantile) as f64;
        let (low, high) = spread(arms, quantile);
        row(
            &format!("write to event, p{} ms", quantile * 100.0),
            of(&without) / 1e3,
            of(&with) / 1e3,
            &format!("{low:.2} to {high:.2}"),
        );
    }
    let [without, with] = arms.each_ref().map(|arm| arm.median_of(0.99) / 1e3);
    row("middle of the rounds' p99, ms", without, with, "");
    let [without, with] = arms.each_ref().map(|arm| arm.cpu_micros / events);
    row("server CPU µs per event", without, with, "");
}

fn row(name: &str, without: f64, with: f64, spread: &str) {
    println!("{name:<34} {without:>9.2} {with:>9.2} {:>7.3}   {spread}", with / without);
}

/// The 95% bootstrap confidence interval of the ratio: rounds are drawn with replacement from those measured.
fn spread(arms: &[Arm; 2], quantile: f64) -> (f64, f64) {
    let mut random = StdRng::seed_from_u64(1);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let [without, with] =
                arms.each_ref().map(|arm| arm.resampled(&mut random).value_at_quantile(quantile) as f64);
            with / without
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    (ratios[RESAMPLES / 40], ratios[RESAMPLES - 1 - RESAMPLES / 40])
}
