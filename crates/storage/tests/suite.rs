//! The suite, on every engine.

#![cfg(test)]

use std::sync::Arc;

use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, MemoryEngine, suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    for case in suite::cases() {
        case.run(Arc::new(MemoryEngine::default())).await;
    }
}

async fn embedded(options: EmbeddedOptions) {
    for case in suite::cases() {
        let directory = tempfile::tempdir().unwrap();
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::open(directory.path(), options).await.unwrap());
        case.run(Arc::clone(&engine)).await;
        engine.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_as_it_comes() {
    embedded(EmbeddedOptions::default()).await;
}

/// Nothing stays in memory and the table of keys is always under way: every read and every log goes through the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_without_memory() {
    let options =
        EmbeddedOptions { tail_bytes: 0, unindexed_changes: 1, checkpoint_bytes: 1, ..Default::default() };
    embedded(options).await;
}
