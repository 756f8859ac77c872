//! The engine on real etcd clusters: the suite, several servers on one cluster, and the loss of members.

#![cfg(test)]

mod cluster;
mod secure;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{Cluster, available};
use listwatch_storage::{
    Change, Changes, Engine, Error, EtcdEngine, EtcdOptions, Expect, Health, Range, Revision, Write, Written,
    suite,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn put(key: &str, value: impl ToString) -> Write {
    Write { key: key.into(), value: Some(value.to_string().into()), expect: Expect::Any, origin: None }
}

async fn set(engine: &dyn Engine, key: &str, value: impl ToString) -> Revision {
    match engine.write(put(key, value)).await.unwrap() {
        Written::Done { revision } => revision,
        refused => panic!("{refused:?}"),
    }
}

async fn read_upto(log: &mut Box<dyn Changes>, upto: Revision) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let batch = tokio::time::timeout(PATIENCE, log.next()).await.expect("a batch in time").unwrap();
        changes.extend(batch.changes.iter().cloned());
        if batch.upto >= upto {
            return changes;
        }
    }
}

async fn run_suite(cluster: &Cluster, adjust: impl Fn(EtcdOptions) -> EtcdOptions) {
    for (n, case) in suite::cases().into_iter().enumerate() {
        let options = adjust(cluster.options(&format!("/suite/{n}")));
        case.run(Arc::new(EtcdEngine::connect(options).await.unwrap())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suite_on_one_member() {
    if available() {
        run_suite(&Cluster::start(1).await, |options| options).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suite_on_three_members() {
    if available() {
        run_suite(&Cluster::start(3).await, |options| options).await;
    }
}

/// Nothing stays in memory: every log is read from etcd's own history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suite_without_memory() {
    if available() {
        run_suite(&Cluster::start(1).await, |options| EtcdOptions { tail_changes: 0, ..options }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_one_cluster_see_the_same_log() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(3).await;
    let (one, two) = (cluster.engine("/shared").await, cluster.engine("/shared/").await);
    let begin = one.current().await.unwrap();
    let (mut log_one, mut log_two) = (one.changes(begin).await.unwrap(), two.changes(begin).await.unwrap());
    let mut last = begin;
    for n in 0..50 {
        let writer: &EtcdEngine = if n % 2 == 0 { &one } else { &two };
        last = set(writer, &format!("/k/{}", n % 5), n).await;
    }
    let seen = read_upto(&mut log_one, last).await;
    assert_eq!(seen.len(), 50);
    assert_eq!(read_upto(&mut log_two, last).await, seen);
}

/// A consistent read waits until the log reaches the newest revision, although nothing is written under its prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_moves_on_with_the_writes_of_others() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let engine = cluster.engine("/ours").await;
    let mut log = engine.changes(engine.current().await.unwrap()).await.unwrap();
    let mut other = cluster.client().await;
    for n in 0..20 {
        other.put("/others/key", n.to_string(), None).await.unwrap();
        let current = engine.current().await.unwrap();
        let started = Instant::now();
        assert!(read_upto(&mut log, current).await.is_empty());
        assert!(started.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(engine.range(Range::prefix("/")).await.unwrap().count, 0, "the marker is nobody's key");
}

/// Neighbours whose prefix begins like ours stay unseen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_that_begin_alike_are_apart() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (ours, theirs) = (cluster.engine("/a").await, cluster.engine("/ab").await);
    let mut log = ours.changes(ours.current().await.unwrap()).await.unwrap();
    set(&theirs, "/k", "theirs").await;
    let last = set(&ours, "/k", "ours").await;
    assert_eq!(read_upto(&mut log, last).await.len(), 1);
    assert_eq!(ours.range(Range::prefix("/")).await.unwrap().items.len(), 1);
    assert_eq!(&theirs.get("/k", None).await.unwrap().unwrap().value[..], b"theirs");
}

/// etcd put a thousand revisions with the values before them into one response. Above 1 GB it was refused, again and again, and the
/// log stood still; below it, one reader of old changes took as much memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_histories_come_in_parts() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let options = EtcdOptions { tail_changes: 0, ..cluster.options("/long") };
    let engine = EtcdEngine::connect(options).await.unwrap();
    let begin = engine.current().await.unwrap();
    let mut last = begin;
    for _ in 0..40 {
        last = set(&engine, "/k", "x".repeat(400_000)).await;
    }
    let mut log = engine.changes(begin).await.unwrap();
    let (mut seen, mut upto) = (0, begin);
    while upto < last {
        let batch = tokio::time::timeout(PATIENCE, log.next()).await.unwrap().unwrap();
        let values = batch.changes.iter().map(|change| change.value.as_ref().map_or(0, |value| value.len()));
        assert!(values.sum::<usize>() < 4 << 20, "{} changes at once", batch.changes.len());
        (seen, upto) = (seen + batch.changes.len(), batch.upto);
    }
    assert_eq!(seen, 40);
}

/// A page of a thousand objects of a megabyte was longer than a response may be, and the server could not start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_values_are_read_in_shorter_pages() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let engine = cluster.engine("/large").await;
    for n in 0..70 {
        set(&engine, &format!("/k/{n:02}"), "x".repeat(1_000_000)).await;
    }
    let page = engine.range(Range::prefix("/")).await.unwrap();
    let keys: Vec<_> = page.items.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(keys, (0..70).map(|n| format!("/k/{n:02}")).collect::<Vec<_>>());
}

/// A key that is no text ended every watch, and nothing was published any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_no_text_are_left_out() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let engine = cluster.engine("/odd").await;
    let mut log = engine.changes(engine.current().await.unwrap()).await.unwrap();
    cluster.client().await.put(b"/odd/\xff\xfe", "x", None).await.unwrap();
    let last = set(&engine, "/k", "value").await;
    assert_eq!(read_upto(&mut log, last).await.len(), 1);
    assert_eq!(engine.range(Range::prefix("/")).await.unwrap().items.len(), 1);
}

/// After a restore below a running server it showed what was no longer there, and never what was written from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_went_back_ends_the_engine() {
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let engine = cluster.engine("/back").await;
    let mut log = engine.changes(engine.current().await.unwrap()).await.unwrap();
    let last = set(&engine, "/k", "value").await;
    read_upto(&mut log, last).await;
    cluster.kill(0);
    cluster.erase(0);
    cluster.revive(0);
    let ended = tokio::time::timeout(PATIENCE, log.next()).await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)));
    assert!(matches!(engine.health(), Health::Unavailable(why) if why.contains("went back")));
}

/// Writers go on while the leader is killed, again and again. Afterwards the log has every acknowledged write exactly
/// once and in order, and what it adds up to is what the store holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_the_leader_loses_no_event() {
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(3).await;
    let engine = Arc::new(cluster.engine("/chaos").await);
    let begin = engine.current().await.unwrap();
    let mut log = engine.changes(begin).await.unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(write_until(Arc::clone(&engine), writer, Arc::clone(&stop))))
        .collect();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let leader = cluster.leader().await;
        cluster.kill(leader);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        cluster.revive(leader);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let last = settled(&*engine).await;
    let changes = read_upto(&mut log, last).await;
    println!(
        "acknowledged {} writes, the log has {} changes, 3 leaders killed",
        acknowledged.len(),
        changes.len()
    );
    check_log(&*engine, &changes, &acknowledged).await;
}

async fn write_until(
    engine: Arc<EtcdEngine>,
    writer: u32,
    stop: Arc<std::sync::atomic::AtomicBool>,
) -> Vec<(Revision, String)> {
    let mut acknowledged = Vec::new();
    let mut n = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        n += 1;
        let value = format!("{writer}-{n}");
        match engine.write(put(&format!("/{}", n % 7), &value)).await {
            Ok(Written::Done { revision }) => acknowledged.push((revision, value)),
            Ok(refused) => panic!("{refused:?}"),
            // Retryable: it may have happened or not; the log shows it.
            Err(Error::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    acknowledged
}

async fn settled(engine: &dyn Engine) -> Revision {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match engine.write(put("/end", "end")).await {
            Ok(Written::Done { revision }) => return revision,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
    }
}

async fn check_log(engine: &dyn Engine, changes: &[Change], acknowledged: &[(Revision, String)]) {
    assert!(changes.windows(2).all(|pair| pair[0].revision < pair[1].revision), "repeated or out of order");
    let logged: std::collections::HashMap<_, _> =
        changes.iter().map(|change| (change.revision, change.value.clone().unwrap_or_default())).collect();
    for (revision, value) in acknowledged {
        assert_eq!(logged.get(revision).map(|value| &value[..]), Some(value.as_bytes()), "missed {revision}");
    }
    let mut state = std::collections::BTreeMap::new();
    for change in changes {
        assert_eq!(
            change.previous.as_ref().map(|previous| previous.0),
            state.insert(change.key.clone(), change.revision)
        );
    }
    let page = engine.range(Range::prefix("/")).await.unwrap();
    let held: std::collections::BTreeMap<_, _> =
        page.items.into_iter().map(|item| (item.key, item.revision)).collect();
    assert_eq!(state, held);
}

/// With etcd away, writes fail within their deadline with an error that says to try again, and the store says that it is
/// unavailable. When etcd is back, the log goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_resumes_when_etcd_comes_back() {
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let options = EtcdOptions { deadline: Duration::from_secs(2), ..cluster.options("/away") };
    let engine = EtcdEngine::connect(options).await.unwrap();
    let mut log = engine.changes(engine.current().await.unwrap()).await.unwrap();
    let first = set(&engine, "/a", 1).await;
    assert_eq!(read_upto(&mut log, first).await.len(), 1);
    cluster.kill(0);
    let started = Instant::now();
    let outcome = engine.write(put("/a", 2)).await;
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    // The watch notices it by itself, perhaps a moment after the write.
    let noticed = async {
        while !matches!(engine.health(), Health::Unavailable(_)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), noticed)
        .await
        .expect("the store says that it is unavailable");
    cluster.revive(0);
    let last = settled(&engine).await;
    let changes = read_upto(&mut log, last).await;
    assert_eq!(changes.last().map(|change| change.revision), Some(last));
    assert_eq!(engine.health(), Health::Ready);
}

/// A compaction by another program is an error only for readers of the lost history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_by_others_is_noticed() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let engine = EtcdEngine::connect(EtcdOptions { tail_changes: 3, ..cluster.options("/c") }).await.unwrap();
    let begin = set(&engine, "/a", 0).await;
    let mut behind = engine.changes(begin).await.unwrap();
    let mut last = begin;
    for n in 1..20 {
        last = set(&engine, "/a", n).await;
    }
    cluster.client().await.compact(i64::try_from(last.0 - 1).unwrap(), None).await.unwrap();
    assert_eq!(engine.compacted().await.unwrap(), Revision(last.0 - 1));
    let outcome = behind.next().await;
    assert!(matches!(outcome, Err(Error::Compacted { .. })), "{outcome:?}");
    let mut log = engine.changes(Revision(last.0 - 1)).await.unwrap();
    assert_eq!(read_upto(&mut log, last).await.len(), 1);
}
