//! The process that is killed: it writes, follows the log, and records acknowledgements and changes in a file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, Expect, Revision, Write, Written};

/// Names the directory for the worker; everything else in this program is the parent.
pub(crate) const DIRECTORY: &str = "LISTWATCH_TEST_WORKER";

/// Names the variable for the number of writes of each of its tasks, if it is not killed before.
pub(crate) const WRITES: &str = "LISTWATCH_TEST_WRITES";

/// The file with notes, in the directory of the store.
pub(crate) const NOTES: &str = "notes";

const TASKS: u64 = 8;
const KEYS: u64 = 40;

/// Bounds so small that everything that happens in the background happens all the time.
pub(crate) fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        unindexed_changes: 100,
        checkpoint_bytes: 200_000,
        tail_changes: 50,
        ..Default::default()
    }
}

/// The one value for a seed: so that a reader can check that it is complete.
pub(crate) fn value(seed: u64) -> Bytes {
    let length = usize::try_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51).unwrap();
    let filler = seed.to_string().into_bytes();
    let mut value = format!("{seed}:").into_bytes();
    value.extend(filler.iter().cycle().take(length));
    value.into()
}

/// The seed of a value, if it is whole.
pub(crate) fn seed(value: &Bytes) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let seed = text.split(':').next()?.parse().ok()?;
    (self::value(seed) == *value).then_some(seed)
}

pub(crate) fn run(directory: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(directory));
}

async fn work(directory: &Path) {
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(directory, options()).await.unwrap());
    let notes = Arc::new(File::options().append(true).create(true).open(directory.join(NOTES)).unwrap());
    let writes = std::env::var(WRITES).map_or(u64::MAX, |writes| writes.parse().unwrap());
    let begin = engine.current().await.unwrap();
    tokio::spawn(follow(Arc::clone(&engine), begin, Arc::clone(&notes)));
    tokio::spawn(compact(Arc::clone(&engine)));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(write(Arc::clone(&engine), begin, task, writes, Arc::clone(&notes)));
    }
    tasks.join_all().await;
}

async fn write(engine: Arc<dyn Engine>, begin: Revision, task: u64, writes: u64, notes: Arc<File>) {
    for n in 0..writes {
        // Seeds of different rounds differ because the revision they begin at does.
        let seed = (begin.0 << 32) | (task << 28) | (n + 1);
        let key: Arc<str> = format!("/k/{}", seed.wrapping_mul(0xbf58_476d_1ce4_e5b9) % KEYS).into();
        let put = n % 5 != 4;
        let write = Write {
            key: Arc::clone(&key),
            value: put.then(|| value(seed)),
            expect: Expect::Any,
            origin: None,
        };
        if let Written::Done { revision } = engine.write(write).await.unwrap() {
            note(&notes, &format!("ack {revision} {key} {}\n", if put { seed } else { 0 }));
        }
    }
}

async fn follow(engine: Arc<dyn Engine>, begin: Revision, notes: Arc<File>) {
    let mut log = engine.changes(begin).await.unwrap();
    while let Ok(batch) = log.next().await {
        let line = |change: &listwatch_storage::Change| {
            let seed = change.value.as_ref().map_or(0, |value| seed(value).unwrap());
            format!("saw {} {} {seed}\n", change.revision, change.key)
        };
        note(&notes, &batch.changes.iter().map(line).collect::<String>());
    }
}

async fn compact(engine: Arc<dyn Engine>) {
    loop {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let current = engine.current().await.unwrap();
        engine.compact(Revision(current.0.saturating_sub(300))).await.unwrap();
    }
}

/// One system call: a kill leaves all of it or nothing.
fn note(mut notes: &File, line: &str) {
    notes.write_all(line.as_bytes()).unwrap();
}
