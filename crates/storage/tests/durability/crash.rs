//! A real process under load, killed at random moments.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::RngExt;

use crate::verify::{Counts, notes, verify};
use crate::worker::{DIRECTORY, NOTES};

/// The number of kills: `LISTWATCH_CRASHES`, or 20.
fn rounds() -> usize {
    std::env::var("LISTWATCH_CRASHES").map_or(20, |rounds| rounds.parse().expect("a number"))
}

/// Starts a worker and kills it after a while, which may be before it has opened the store.
fn kill_one(directory: &Path, after: Duration) {
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker_process", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    assert!(worker.try_wait().unwrap().is_none(), "the worker ended by itself");
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(NOTES);
    let mut total = Counts::default();
    for round in 0..rounds() {
        let after = Duration::from_millis(rand::rng().random_range(0..400));
        kill_one(directory.path(), after);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let counts = verify(directory.path(), &notes(&text)).await;
        total.acknowledged += counts.acknowledged;
        total.seen += counts.seen;
        total.changes = counts.changes;
        println!("kill {round} after {after:?}: {counts:?}");
        let _ = std::fs::remove_file(&file);
    }
    println!(
        "killed {} times; {} acknowledged and {} watched changes checked: 0 lost, 0 torn",
        rounds(),
        total.acknowledged,
        total.seen
    );
    assert!(total.acknowledged > 0, "nothing was written at all");
}
