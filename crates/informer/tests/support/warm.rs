//! Informers that save their caches, and the directory that they save them to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use listwatch::warm::{WarmError, WarmOptions};
use listwatch::{HandlerOptions, InformerBuilder, Problem, SharedInformer, Sources};
use serde_json::Value;

use super::informer::{Informer, Log, settle};

/// A directory that is deleted at the end of the test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("listwatch-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// The files whose name ends so, in order.
    pub(crate) fn files(&self, end: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(end));
        files.sort();
        files
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The problems of saved caches that were reported.
#[derive(Clone, Default)]
pub(crate) struct Problems(Arc<Mutex<Vec<WarmError>>>);

impl Problems {
    pub(crate) fn take(&self) -> Vec<WarmError> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

pub(crate) fn builder(
    source: impl Into<Sources>,
    directory: &Path,
    problems: &Problems,
) -> InformerBuilder<Value> {
    let problems = problems.clone();
    SharedInformer::builder(source).name("pods").warm(WarmOptions::new(directory)).on_problem(
        move |problem, _| {
            if let Problem::SavedCache(error) = problem {
                problems.0.lock().unwrap().push(error.clone());
            }
        },
    )
}

/// An informer with a handler that was started and has synced.
pub(crate) async fn run(
    source: impl Into<Sources>,
    directory: &Path,
    problems: &Problems,
    log: &Log,
) -> Informer {
    let informer = builder(source, directory, problems).build();
    let options = HandlerOptions::named("log").since_last_run();
    informer.add_event_handler_with(log.handler(), options).unwrap();
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    settle().await;
    informer
}

pub(crate) fn lists(informer: &Informer) -> u64 {
    let status = informer.status();
    status.lists + status.streaming_lists
}
