//! A full disk.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use listwatch_storage::{
    EmbeddedEngine, EmbeddedOptions, Engine, Error, Expect, Health, Range, Revision, Write, Written,
};

fn put(n: u32) -> Write {
    Write {
        key: format!("/k/{n}").into(),
        value: Some(Bytes::from(vec![b'x'; 20_000])),
        expect: Expect::Any,
        origin: None,
    }
}

/// Writes until it fails; returns how many were acknowledged.
async fn fill(engine: &Arc<dyn Engine>) -> u32 {
    for n in 0..10_000 {
        match engine.write(put(n)).await {
            Ok(Written::Done { .. }) => {}
            Err(Error::ReadOnly(_)) => return n,
            other => panic!("{other:?}"),
        }
    }
    panic!("the disk never got full");
}

async fn check_read_only(engine: &Arc<dyn Engine>, acknowledged: u32) {
    assert!(matches!(engine.health(), Health::ReadOnly(_)), "{:?}", engine.health());
    let again = engine.write(put(0)).await;
    assert!(matches!(again, Err(Error::ReadOnly(_))), "{again:?}");
    let page = engine.range(Range::prefix("/k/")).await.unwrap();
    assert_eq!(page.items.len(), acknowledged as usize);
    assert_eq!(page.revision, Revision(u64::from(acknowledged)));
}

async fn wait_until_ready(engine: &Arc<dyn Engine>) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while engine.health() != Health::Ready {
        assert!(Instant::now() < deadline, "still {:?}", engine.health());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// With SQLite's own bound on the size of the file, which every machine has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_may_not_grow_goes_read_only_and_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { max_pages: 300, ..Default::default() };
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(directory.path(), options).await.unwrap());
    let acknowledged = fill(&engine).await;
    check_read_only(&engine, acknowledged).await;
    engine.close().await.unwrap();
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await.unwrap());
    assert_eq!(engine.range(Range::prefix("/k/")).await.unwrap().count, u64::from(acknowledged));
    let outcome = engine.write(put(0)).await;
    assert!(
        matches!(outcome, Ok(Written::Done { revision }) if revision.0 == u64::from(acknowledged) + 1),
        "{outcome:?}"
    );
}

/// A file system of a few megabytes, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Needs the right to mount, which CI has and a developer may not.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "listwatch-test"])
            .arg(directory.path())
            .output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// With a disk that is really full, and then has space again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_survived_and_recovered_from() {
    let Some(disk) = SmallDisk::mount() else {
        println!(
            "SKIPPED: no right to mount a small disk; the bound on the file's size is tested all the same"
        );
        return;
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 3 << 20]).unwrap();
    let store = disk.path().join("store");
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedEngine::open(&store, EmbeddedOptions::default()).await.unwrap());
    let acknowledged = fill(&engine).await;
    check_read_only(&engine, acknowledged).await;
    std::fs::remove_file(&ballast).unwrap();
    wait_until_ready(&engine).await;
    let mut log = engine.changes(Revision(u64::from(acknowledged))).await.unwrap();
    let outcome = engine.write(put(0)).await;
    assert!(
        matches!(outcome, Ok(Written::Done { revision }) if revision.0 == u64::from(acknowledged) + 1),
        "{outcome:?}"
    );
    assert_eq!(log.next().await.unwrap().changes.len(), 1);
    engine.close().await.unwrap();
    let engine = EmbeddedEngine::open(&store, EmbeddedOptions::default()).await.unwrap();
    assert_eq!(engine.current().await.unwrap().0, u64::from(acknowledged) + 1);
    println!("{acknowledged} writes until the disk was full, all kept; recovered by itself");
}

/// A full disk refused deletions too, the only way out of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_takes_deletions_and_recovers_by_them() {
    let Some(disk) = SmallDisk::mount() else {
        println!("SKIPPED: no right to mount a small disk");
        return;
    };
    let store = disk.path().join("store");
    let options =
        EmbeddedOptions { reserve_bytes: 2 << 20, checkpoint_bytes: 512 << 10, ..Default::default() };
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(&store, options).await.unwrap());
    wait_for_reserve(&store).await;
    let acknowledged = fill(&engine).await;
    assert!(acknowledged > 20, "{acknowledged}");
    for n in 0..acknowledged {
        let delete = Write { key: format!("/k/{n}").into(), value: None, expect: Expect::Any, origin: None };
        let outcome = engine.write(delete).await;
        assert!(matches!(outcome, Ok(Written::Done { .. })), "{n}: {outcome:?}");
    }
    wait_until_ready(&engine).await;
    for n in 0..10 {
        let outcome = engine.write(put(n)).await;
        assert!(matches!(outcome, Ok(Written::Done { .. })), "ready, but {n}: {outcome:?}");
    }
    assert_eq!(engine.range(Range::prefix("/k/")).await.unwrap().count, 10);
    engine.close().await.unwrap();
    listwatch_storage::embedded::offline::check(&store).unwrap();
}

/// Leaders lost their leases and finalizers could let nothing go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_takes_a_bounded_amount_of_what_is_essential() {
    let Some(disk) = SmallDisk::mount() else {
        println!("SKIPPED: no right to mount a small disk");
        return;
    };
    let store = disk.path().join("store");
    let essential = |key: &str, _: &[u8]| key.starts_with("/essential/");
    let (reserve_bytes, checkpoint_bytes) = (2 << 20, 512 << 10);
    let options = EmbeddedOptions { reserve_bytes, checkpoint_bytes, essential, ..Default::default() };
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(&store, options).await.unwrap());
    wait_for_reserve(&store).await;
    let acknowledged = fill(&engine).await;
    let essential = |n: u32| Write { key: format!("/essential/{n}").into(), ..put(n) };
    let both = engine.transact(vec![essential(1), put(1)]).await;
    assert!(matches!(both, Err(Error::ReadOnly(_))), "{both:?}");
    let mut taken = 0;
    while let Ok(Written::Done { .. }) = engine.write(essential(taken)).await {
        taken += 1;
        assert!(taken < 100, "the reserve is for deletions");
    }
    assert_eq!(u64::from(taken), reserve_bytes / 4 / 20_000);
    for n in 0..acknowledged {
        let delete = Write { key: format!("/k/{n}").into(), value: None, expect: Expect::Any, origin: None };
        assert!(matches!(engine.write(delete).await, Ok(Written::Done { .. })), "{n}");
    }
    wait_until_ready(&engine).await;
    assert_eq!(engine.range(Range::prefix("/essential/")).await.unwrap().count, u64::from(taken));
    engine.close().await.unwrap();
}

/// The reserve is allocated after the start, so that it delays no request.
async fn wait_for_reserve(store: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !store.join("store.reserve").exists() {
        assert!(Instant::now() < deadline, "no reserve");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three minutes of churn on a few objects left 500 MB of history on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_on_disk_follows_the_size_of_the_live_data() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { history_floor: 1 << 20, ..Default::default() };
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(directory.path(), options).await.unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut written = 0_u32;
    while engine.compacted().await.unwrap() == Revision::ZERO {
        assert!(Instant::now() < deadline, "{written} changes of 20 KB, and all of them are kept");
        for _ in 0..50 {
            engine.write(put(written % 10)).await.unwrap();
            written += 1;
        }
    }
    assert!(engine.current().await.unwrap().0 > 0);
}
