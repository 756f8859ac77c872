//! A saved cache of 100,000 objects: the time from the start of a process until they can be read.

use std::env;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use listwatch::lister_watcher::{
    ListRequest, SourceError, SourcePage, WatchEvent, WatchRequest, WatchStream,
};
use listwatch::object::Object;
use listwatch::warm::WarmOptions;
use listwatch::{ListerWatcher, Revision, SharedInformer};
use serde_json::{Value, json};

use crate::measure::{cpu_micros, elsewhere, resident_mb};
use crate::row;

const OBJECTS: usize = 100_000;
const RUNS: usize = 5;

/// A server that has been at this revision for ever.
struct Quiet(bool);

#[async_trait]
impl ListerWatcher for Quiet {
    async fn list(&self, _: &ListRequest) -> Result<SourcePage, SourceError> {
        let objects = if self.0 { (0..OBJECTS).map(object).collect() } else { Vec::new() };
        Ok(SourcePage { objects, revision: Revision(OBJECTS as u64), ..SourcePage::default() })
    }

    async fn watch(&self, _: &WatchRequest) -> Result<WatchStream, SourceError> {
        Ok(WatchStream::new(futures::stream::pending::<Result<Vec<WatchEvent>, _>>()))
    }

    async fn identity(&self) -> Result<Option<String>, SourceError> {
        Ok(Some("bench".to_owned()))
    }

    fn streams_initial_events(&self) -> bool {
        false
    }
}

fn object(number: usize) -> Object {
    let metadata = json!({
        "name": format!("object-{number:06}"), "namespace": format!("namespace-{}", number % 50),
        "uid": format!("00000000-0000-0000-0000-{number:012}"), "resourceVersion": (number + 1).to_string(),
        "labels": {"app": format!("app-{}", number % 100)},
    });
    Object::from_value(&json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"text": "x".repeat(1240)}}))
        .unwrap()
}

fn informer(source: Quiet, directory: &Path) -> SharedInformer<Value> {
    SharedInformer::builder(source).name("bench").warm(WarmOptions::new(directory)).build()
}

pub(crate) fn all() {
    let directory = env::temp_dir().join(format!("listwatch-bench-warm-{}", std::process::id()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let saved = runtime.block_on(async {
        let informer = informer(Quiet(true), &directory);
        informer.start().unwrap();
        assert!(informer.wait_synced().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = cpu_micros();
        informer.stop().await;
        cpu_micros() - before
    });
    let size: u64 =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    row(
        &format!("save {OBJECTS} objects, {} MB: CPU ms", size >> 20),
        &format!("{:.0}", saved / 1e3),
        "",
        "",
        "",
    );
    let runs: Vec<[f64; 3]> = (0..RUNS).map(|_| restart(&directory)).collect();
    let best = |figure: usize| runs.iter().map(|run| run[figure]).fold(f64::INFINITY, f64::min);
    let mut walls: Vec<f64> = runs.iter().map(|run| run[0]).collect();
    walls.sort_by(f64::total_cmp);
    let name = format!("start of the process to {OBJECTS} objects usable: wall ms, best and median");
    row(&name, &format!("{:.0} {:.0}", walls[0], walls[RUNS / 2]), "200", "-", "-");
    row("the same: CPU ms", &format!("{:.0}", best(1)), "", "", "");
    row("the same: resident MB", &format!("{:.0}", best(2)), "", "", "");
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Wall milliseconds, CPU milliseconds and megabytes of one start.
fn restart(directory: &Path) -> [f64; 3] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let figures = elsewhere(&["warm-client", directory.to_str().unwrap(), &now.to_string()]);
    figures.try_into().unwrap()
}

/// The child: reads the cache, prints what that took, and ends without a save.
pub(crate) fn client(directory: &str, spawned: u128) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let informer = informer(Quiet(false), Path::new(directory));
        informer.start().unwrap();
        assert!(informer.wait_usable().await);
        assert_eq!(informer.snapshot().len(), OBJECTS);
        assert!(informer.store().get_by("namespace-7", "object-000007").is_some());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        println!("{} {} {}", (now - spawned) as f64 / 1e6, cpu_micros() / 1e3, resident_mb());
        std::process::exit(0);
    });
}
