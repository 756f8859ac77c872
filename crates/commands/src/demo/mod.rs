//! `listwatch demo`: a server, an informer and a controller in one process, shown live, with a verification at the end.
//!
//! The informer has a quick and a slow handler; a small controller runs on a work queue. Writers set a desired value in
//! ConfigMaps, and the controller reconciles each by writing it back. All writes and events are counted ([`counters`]),
//! measured at intervals ([`figures`]), shown as a moving picture ([`screen`]) or as lines ([`show`]), and finally compared
//! with the store's own log by the validators that the tests use ([`verdict`]). A violated guarantee leads to exit code 1.

mod actors;
mod counters;
mod figures;
mod screen;
mod show;
mod verdict;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use listwatch::kube::KubeSource;
use listwatch::workqueue::{self, Queue};
use listwatch::{HandlerOptions, ObjectKey, SharedInformer};
use listwatch_testkit::{RawClient, TestCollection, TestServer};
use serde_json::Value;

use crate::client::interrupted;
use crate::terminal::{fitted, is_coloured, print};
use actors::WrittenValues;
use counters::DemoCounters;

/// The label of everything the demo writes; its informer asks for nothing else.
const LABEL: &str = "listwatch-demo";
/// Bounds the wait for stragglers on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of events the slow handler may fall behind before its backlog is folded to the latest change of each key.
const SLOW_BACKLOG: usize = 64;

#[derive(Args, Clone, Copy, Debug)]
#[command(
    after_help = "Keys: q or Ctrl-C ends it early; what was written until then is still checked.\n\nExit code 1 means that a promise was broken.\n\nExamples:\n  listwatch demo\n  listwatch demo --seconds 60 --rate 2000\n  listwatch demo --seconds 3 | cat"
)]
pub(crate) struct DemoArguments {
    /// The time for which writers write
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Writes per second, of all writers together
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Writers at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    writers: u32,
    /// Objects that are written again and again
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    objects: u32,
    /// Milliseconds that the slow handler spends on each event
    #[arg(long, default_value_t = 5, value_name = "MS")]
    slow: u64,
}

/// Everything that takes part.
struct Demo {
    arguments: DemoArguments,
    server: TestServer,
    raw: RawClient,
    collection: TestCollection,
    informer: SharedInformer<Value>,
    queue: Queue<ObjectKey>,
    counters: Arc<DemoCounters>,
}

/// Runs all actors and checks the recorded history afterwards. The order of the end matters: writers, controller,
/// informer, then the watch, each when nothing more can come to it.
pub(crate) async fn run(arguments: DemoArguments) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let demo = Demo::set_up(arguments).await?;
    let first = demo.server.engine().current().await?;
    let picture = tokio::spawn(show::show(demo.viewed()));
    let counters = demo.counters.clone();
    let quitting = tokio::spawn(async move {
        interrupted().await;
        counters.end_writing();
    });
    let watching =
        tokio::spawn(actors::watch(demo.raw.clone(), demo.collection.clone(), first, demo.counters.clone()));
    let quick = demo.informer.add_event_handler_with(actors::quick(&demo), HandlerOptions::named("quick"))?;
    demo.informer.add_async_event_handler(
        actors::slow(&demo),
        HandlerOptions::named("slow").max_backlog(SLOW_BACKLOG),
    )?;
    demo.informer.start()?;
    quick.wait_synced().await;
    let controller = actors::controller(&demo);

    let values = actors::write_all(&demo).await?;
    let settled = tokio::time::timeout(PATIENCE, settle(&demo, &values)).await.is_ok();
    controller.shut_down().await;
    demo.informer.drain().await;
    let last = demo.server.engine().current().await?;
    let watch = actors::end_of_watch(watching, &demo.counters, last).await?;
    demo.counters.finish();
    quitting.abort();
    // The terminal is restored; a closed pipe ends the demo here.
    picture.await??;
    let verdict = verdict::reach(&demo, first, watch, &values, settled).await?;
    print(fitted(&verdict.text(begin.elapsed(), is_coloured(&std::io::stdout()))))?;
    Ok(if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Demo {
    /// Starts the server and makes everything that takes part, none of it running yet.
    async fn set_up(arguments: DemoArguments) -> anyhow::Result<Self> {
        let server = TestServer::start().await?;
        let source = KubeSource::of::<ConfigMap>(listwatch::kube::client(server.config())?)
            .namespace("default")
            .labels(LABEL.parse()?);
        Ok(Self {
            arguments,
            raw: server.raw()?,
            collection: TestCollection::core("configmaps", "default"),
            informer: SharedInformer::new(source),
            queue: Queue::new(workqueue::Options::new().name("values")),
            counters: Arc::new(DemoCounters::new()),
            server,
        })
    }

    /// Shared handles to what the screen reads; the demo itself stays with [`run`].
    fn viewed(&self) -> figures::Viewed {
        figures::Viewed {
            arguments: self.arguments,
            counters: self.counters.clone(),
            informer: self.informer.clone(),
            queue: self.queue.clone(),
            engine: self.server.engine().clone(),
            raw: self.raw.clone(),
        }
    }
}

/// Waits until the controller has reconciled every object and the cache has the result. Polls without a bound: the
/// caller gives up after [`PATIENCE`].
async fn settle(demo: &Demo, values: &WrittenValues) {
    while !verdict::unreconciled(demo, values).is_empty()
        || !demo.queue.is_empty()
        || demo.queue.in_flight() > 0
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
