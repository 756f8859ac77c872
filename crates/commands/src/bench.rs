//! `listwatch bench`: a bounded load of ConfigMap writes and a watch on them, against any API server.
//!
//! It measures from outside, with one client, so its figures include the network and this program. The project's own
//! benchmarks are `cargo xtask bench`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use hdrhistogram::Histogram;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use tokio::task::JoinSet;

use crate::client::{Cluster, interrupted};
use crate::terminal::{end_progress, print, progress};

/// Microseconds up to a minute, to three digits.
const LONGEST: u64 = 60_000_000;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch bench\n  listwatch bench --seconds 30 --clients 64 --bytes 4096\n\nCtrl-C ends it early, with the figures so far. It works in a namespace of its own and deletes it at the end."
)]
pub(crate) struct BenchArguments {
    /// Seconds to run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Clients that write at the same time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Bytes of data in each object
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bytes: u32,
    #[command(flatten)]
    cluster: Cluster,
}

/// Latencies of one operation, and how many of them failed.
struct Latencies {
    name: &'static str,
    /// Microseconds, from 1 to [`LONGEST`]. Failed requests are in it too: a timeout is a latency.
    histogram: Histogram<u64>,
    failed: u64,
}

impl Latencies {
    fn new(name: &'static str) -> anyhow::Result<Self> {
        Ok(Self { name, histogram: Histogram::new_with_bounds(1, LONGEST, 3)?, failed: 0 })
    }

    /// A longer time than the bound counts as the bound.
    fn record(&mut self, began: Instant, succeeded: bool) {
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(LONGEST).clamp(1, LONGEST);
        self.histogram.saturating_record(took);
        self.failed += u64::from(!succeeded);
    }

    /// Joins what several tasks measured.
    fn add(&mut self, other: &Self) {
        // Both have the same bounds, so that nothing is out of range.
        self.histogram.add(&other.histogram).ok();
        self.failed += other.failed;
    }

    /// One row of the table; the columns are those of the heading in [`run`].
    fn line(&self, seconds: f64) -> String {
        let at = |quantile| Duration::from_micros(self.histogram.value_at_quantile(quantile));
        format!(
            "{:8} {:>9} {:>9.0} {:>10.1?} {:>10.1?} {:>10.1?} {:>7}",
            self.name,
            self.histogram.len(),
            self.histogram.len() as f64 / seconds,
            at(0.5),
            at(0.99),
            at(1.0),
            self.failed
        )
    }
}

/// Runs the load in a namespace of its own, which is deleted afterwards, also after an interrupt.
///
/// The namespace has the process ID in its name, so that two runs do not meet. A run that is killed leaves it behind.
pub(crate) async fn run(arguments: BenchArguments) -> anyhow::Result<ExitCode> {
    let (client, _) = arguments.cluster.connect().await?;
    let name = format!("listwatch-bench-{}", std::process::id());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let stop = Arc::new(AtomicBool::new(false));
    let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.context("cannot create a namespace")?;
    let result = until_interrupted(load(&client, &name, &arguments, &stop), &stop).await;
    end_progress();
    namespaces.delete(&name, &DeleteParams::default()).await.context("cannot delete the namespace")?;
    let (all, seconds) = result?;
    let head = format!(
        "{:8} {:>9} {:>9} {:>10} {:>10} {:>10} {:>7}",
        "", "requests", "per s", "p50", "p99", "max", "failed"
    );
    let lines = all.iter().map(|latencies| latencies.line(seconds));
    print(std::iter::once(head).chain(lines).map(|line| line + "\n").collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the load to its end. An interrupt ends it early, with the figures so far; a second one abandons requests
/// that are not answered.
async fn until_interrupted<T>(
    load: impl Future<Output = anyhow::Result<T>>,
    stop: &AtomicBool,
) -> anyhow::Result<T> {
    tokio::pin!(load);
    tokio::select! {
        result = &mut load => return result,
        () = interrupted() => stop.store(true, Ordering::Relaxed),
    }
    tokio::select! {
        result = load => result,
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    }
}

/// Runs all clients to the deadline; returns the sums and the seconds that it took.
///
/// # Errors
///
/// The first client that cannot measure. Failed requests are counted and are not errors.
async fn load(
    client: &kube::Client,
    namespace: &str,
    arguments: &BenchArguments,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<([Latencies; 3], f64)> {
    let began = Instant::now();
    let end = LoadEnd { deadline: began + Duration::from_secs(arguments.seconds), stop: stop.clone() };
    let done = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for number in 0..arguments.clients {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        clients.spawn(one_client(maps, number, arguments.bytes as usize, end.clone(), done.clone()));
    }
    let reporting = tokio::spawn(report_progress(done, began, arguments.seconds));
    let mut all = [Latencies::new("create")?, Latencies::new("get")?, Latencies::new("delete")?];
    while let Some(result) = clients.join_next().await {
        for (sum, one) in all.iter_mut().zip(&result??) {
            sum.add(one);
        }
    }
    reporting.abort();
    Ok((all, began.elapsed().as_secs_f64()))
}

/// The end of a load: a time, or an interrupt before it.
#[derive(Clone)]
struct LoadEnd {
    deadline: Instant,
    stop: Arc<AtomicBool>,
}

impl LoadEnd {
    /// True when the time is over or the user has had enough.
    fn is_reached(&self) -> bool {
        Instant::now() >= self.deadline || self.stop.load(Ordering::Relaxed)
    }
}

/// One client: creates, reads and deletes an object at a time, so that the latency of each request is its own.
async fn one_client(
    maps: Api<ConfigMap>,
    number: u32,
    bytes: usize,
    end: LoadEnd,
    done: Arc<AtomicU64>,
) -> anyhow::Result<[Latencies; 3]> {
    let [mut create, mut get, mut delete] =
        [Latencies::new("create")?, Latencies::new("get")?, Latencies::new("delete")?];
    let mut round = 0_u64;
    while !end.is_reached() {
        let name = format!("load-{number}-{round}");
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let data = [("data".to_owned(), "x".repeat(bytes))].into();
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        let began = Instant::now();
        create.record(began, maps.create(&PostParams::default(), &map).await.is_ok());
        let began = Instant::now();
        get.record(began, maps.get(&name).await.is_ok());
        let began = Instant::now();
        delete.record(began, maps.delete(&name, &DeleteParams::default()).await.is_ok());
        done.fetch_add(3, Ordering::Relaxed);
        round += 1;
    }
    Ok([create, get, delete])
}

/// Shows on a terminal that something happens.
async fn report_progress(done: Arc<AtomicU64>, began: Instant, seconds: u64) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let so_far = began.elapsed().as_secs();
        progress(format_args!("{so_far} of {seconds} s, {} requests", done.load(Ordering::Relaxed)));
    }
}
