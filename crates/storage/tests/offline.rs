//! Offline operations on a store, and the stores that opening refuses.

#![cfg(test)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use listwatch_storage::embedded::offline::{self, Keys};
use listwatch_storage::{
    EmbeddedEngine, EmbeddedOptions, Engine, Error, Expect, Health, KeyVersion, Range, Revision,
    VersionRange, Write, Written,
};

async fn open(directory: &Path) -> Arc<dyn Engine> {
    Arc::new(EmbeddedEngine::open(directory, EmbeddedOptions::default()).await.unwrap())
}

async fn set(engine: &Arc<dyn Engine>, key: &str, value: &str) -> Revision {
    let write =
        Write { key: key.into(), value: Some(value.to_owned().into()), expect: Expect::Any, origin: None };
    match engine.write(write).await.unwrap() {
        Written::Done { revision } => revision,
        refused => panic!("{refused:?}"),
    }
}

async fn fill(engine: &Arc<dyn Engine>) {
    for n in 0..200 {
        set(engine, &format!("/k/{}", n % 20), &"x".repeat(n * 10)).await;
    }
    engine.write(Write { key: "/k/0".into(), value: None, expect: Expect::Any, origin: None }).await.unwrap();
}

#[tokio::test]
async fn files_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let engine = open(&directory).await;
    fill(&engine).await;
    assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(&directory).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    let second = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await;
    assert!(
        matches!(&second, Err(Error::Unavailable(reason)) if reason.contains("another process")),
        "{second:?}"
    );
    engine.close().await.unwrap();
    open(directory.path()).await;
}

#[tokio::test]
async fn everything_fails_after_closing() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    let mut log = engine.changes(Revision::ZERO).await.unwrap();
    engine.close().await.unwrap();
    engine.close().await.unwrap();
    assert!(matches!(log.next().await, Err(Error::Closed)));
    assert!(matches!(engine.current().await, Err(Error::Closed)));
    assert!(matches!(engine.range(Range::prefix("/")).await, Err(Error::Closed)));
    let write = Write { key: "/a".into(), value: None, expect: Expect::Any, origin: None };
    assert!(matches!(engine.write(write).await, Err(Error::Closed)));
}

#[tokio::test]
async fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.db");
    std::fs::write(&file, vec![b'x'; 10_000]).unwrap();
    let outcome = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    assert_eq!(std::fs::read(&file).unwrap(), vec![b'x'; 10_000], "left alone");
    std::fs::remove_file(&file).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("CREATE TABLE theirs (a)").unwrap();
    let outcome = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await;
    assert!(
        matches!(&outcome, Err(Error::Corrupt(reason)) if reason.contains("another program")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn another_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).await.close().await.unwrap();
    let database = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let outcome = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await;
    assert!(matches!(&outcome, Err(Error::Corrupt(reason)) if reason.contains("format 99")), "{outcome:?}");
}

/// A store whose log lost a change must not start as if nothing had happened.
#[tokio::test]
async fn damage_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    engine.close().await.unwrap();
    assert_eq!(offline::check(directory.path()).unwrap().keys, 19);
    let database = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    database.execute_batch("DELETE FROM log WHERE revision = 195").unwrap();
    drop(database);
    let outcome = offline::check(directory.path());
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_log_that_was_cut_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    engine.close().await.unwrap();
    let database = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    database.execute_batch("DELETE FROM log WHERE revision > 195").unwrap();
    drop(database);
    let outcome = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_a_running_store_can_be_restored() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(&directory.path().join("one")).await;
    fill(&engine).await;
    let (source, copy) = (directory.path().join("one"), directory.path().join("backup"));
    let writer = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            for n in 0..100 {
                set(&engine, "/later", &n.to_string()).await;
            }
        })
    };
    let report = {
        let copy = copy.clone();
        tokio::task::spawn_blocking(move || offline::backup(&source, &copy, Keys::Included))
            .await
            .unwrap()
            .unwrap()
    };
    writer.await.unwrap();
    assert!(report.revision >= Revision(201), "{report:?}");
    let again = offline::backup(&directory.path().join("one"), &copy, Keys::LeftOut);
    assert!(matches!(again, Err(Error::Unavailable(_))), "never over an existing file: {again:?}");
    let target = directory.path().join("two");
    assert!(offline::restore(&copy, &target, None).unwrap().revision > report.revision);
    assert!(offline::restore(&copy, &target, None).is_err(), "never over an existing store");
    let restored = open(&target).await;
    let at = Range { at: Some(report.revision), ..Range::prefix("/k/") };
    let expected = engine.range(at).await.unwrap();
    assert_eq!(restored.range(Range::prefix("/k/")).await.unwrap().items, expected.items);
}

#[tokio::test]
async fn a_damaged_backup_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(&directory.path().join("one")).await;
    fill(&engine).await;
    let copy = directory.path().join("backup");
    offline::backup(&directory.path().join("one"), &copy, Keys::LeftOut).unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes.splice(middle..middle + 8192, vec![0; 8192]);
    std::fs::write(&copy, bytes).unwrap();
    let outcome = offline::restore(&copy, &directory.path().join("two"), None);
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    assert!(!directory.path().join("two/store.db").exists());
}

#[tokio::test]
async fn compacting_drops_history_and_gives_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    for n in 0..500 {
        set(&engine, &format!("/k/{}", n % 5), &"x".repeat(5000)).await;
    }
    let before = engine.range(Range::prefix("/")).await.unwrap();
    engine.close().await.unwrap();
    let (full, report) =
        (offline::check(directory.path()).unwrap(), offline::compact(directory.path()).unwrap());
    assert_eq!((full.changes, report.changes, report.keys), (500, 5, 5));
    assert!(report.bytes < full.bytes / 10, "{} of {}", report.bytes, full.bytes);
    let engine = open(directory.path()).await;
    assert_eq!(engine.range(Range::prefix("/")).await.unwrap(), before);
    assert_eq!(engine.compacted().await.unwrap(), Revision(500));
    assert_eq!(set(&engine, "/k/0", "new").await, Revision(501));
}

/// History that is too large goes by itself, in the background, and what remains is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_bounded_by_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { history_bytes: 5 << 20, ..Default::default() };
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(directory.path(), options).await.unwrap());
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let mut n = 0;
    while engine.compacted().await.unwrap() == Revision::ZERO {
        assert!(std::time::Instant::now() < deadline, "history was never bounded");
        n += 1;
        set(&engine, &format!("/k/{}", n % 10), &"x".repeat(50_000)).await;
    }
    let compacted = engine.compacted().await.unwrap();
    let old = engine.get("/k/1", Some(Revision(compacted.0 - 1))).await;
    assert!(matches!(old, Err(Error::Compacted { .. })), "{old:?}");
    assert_eq!(engine.range(Range::prefix("/k/")).await.unwrap().count, 10);
    engine.close().await.unwrap();
    offline::check(directory.path()).unwrap();
}

/// Compacting a running store does not only hide history: the rows go, in the background, and deleted keys with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_cleared_in_the_background() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    for _ in 0..10 {
        fill(&engine).await;
    }
    let upto = set(&engine, "/end", "end").await;
    engine.compact(upto).await.unwrap();
    let database = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    // Nineteen keys of the fill, and the last one.
    while database.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0)).unwrap() > 20 {
        assert!(std::time::Instant::now() < deadline, "the log is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(database);
    assert_eq!(engine.range(Range::prefix("/")).await.unwrap().count, 20);
    engine.close().await.unwrap();
    assert_eq!(offline::check(directory.path()).unwrap().changes, 20);
}

/// A store opens by what changed last, not by what it holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    engine.close().await.unwrap();
    let engine = open(directory.path()).await;
    let mut log = engine.changes(Revision(100)).await.unwrap();
    let batch = log.next().await.unwrap();
    assert_eq!((batch.changes.first().unwrap().revision, batch.upto), (Revision(101), Revision(201)));
}

/// Damages the newest value of each of these keys in a closed store.
fn flip_bits(directory: &Path, keys: &[&str]) {
    let database = rusqlite::Connection::open(directory.join("store.db")).unwrap();
    let flip = "UPDATE log SET value = CAST(replace(CAST(value AS TEXT), 'xxxx', 'xxyx') AS BLOB)
                WHERE revision = (SELECT revision FROM keys WHERE key = ?)";
    for key in keys {
        assert_eq!(database.execute(flip, [key]).unwrap(), 1);
    }
}

/// Bits flip in a value on the disk. SQLite does not notice; without checksums the value was served with 200.
#[tokio::test]
async fn a_flipped_bit_is_found_and_its_value_never_served() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    engine.close().await.unwrap();
    flip_bits(directory.path(), &["/k/7"]);
    let names_it = |error: &Error| matches!(error, Error::Corrupt(reason) if reason.contains("/k/7"));
    let engine = open(directory.path()).await;
    assert!(names_it(&engine.get("/k/7", None).await.unwrap_err()));
    assert!(matches!(engine.health(), Health::Damaged(reason) if reason.contains("/k/7")));
    let page = engine.range(Range::prefix("/k/")).await.unwrap();
    let damaged = page.items.iter().find(|item| &*item.key == "/k/7").unwrap();
    assert!(damaged.value.is_empty(), "a page has its other values, and none for this key");
    assert!(engine.get("/k/8", None).await.unwrap().is_some(), "the others can be read");
    assert!(set(&engine, "/k/8", "and written").await > Revision::ZERO);
    assert!(matches!(engine.health(), Health::Damaged(_)));
    engine.close().await.unwrap();
    assert!(names_it(&offline::check(directory.path()).unwrap_err()));
}

/// A damaged value that was written again or deleted left the server unready until it was restarted.
#[tokio::test]
async fn a_write_repairs_the_damage_to_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    engine.close().await.unwrap();
    flip_bits(directory.path(), &["/k/7", "/k/9"]);
    let engine = open(directory.path()).await;
    let before = engine.current().await.unwrap();
    engine.range(Range::prefix("/k/")).await.unwrap();
    assert!(matches!(engine.health(), Health::Damaged(reason) if reason.contains("/k/7")));
    set(&engine, "/k/7", "anew").await;
    assert!(
        matches!(engine.health(), Health::Damaged(reason) if reason.contains("/k/9")),
        "the other is left"
    );
    let delete = Write { key: "/k/9".into(), value: None, expect: Expect::Any, origin: None };
    assert!(matches!(engine.write(delete).await.unwrap(), Written::Done { .. }));
    assert_eq!(engine.health(), Health::Ready);
    // The old value is still damaged, and still not served; but it is history.
    assert!(matches!(engine.get("/k/7", Some(before)).await, Err(Error::Corrupt(_))));
    assert_eq!(engine.health(), Health::Ready);
}

#[tokio::test]
async fn a_store_of_an_older_format_is_brought_up_to_date() {
    for older in [
        "ALTER TABLE log DROP COLUMN origin; ALTER TABLE log DROP COLUMN checksum; PRAGMA user_version = 1",
        "ALTER TABLE log DROP COLUMN origin; PRAGMA user_version = 2",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let engine = open(&path("one")).await;
        fill(&engine).await;
        engine.close().await.unwrap();
        let database = rusqlite::Connection::open(path("one/store.db")).unwrap();
        database.execute_batch(older).unwrap();
        database.execute("VACUUM INTO ?", [path("backup").to_str().unwrap()]).unwrap();
        drop(database);
        let engine = open(&path("one")).await;
        assert_eq!(engine.range(Range::prefix("/k/")).await.unwrap().count, 19);
        set(&engine, "/k/new", "value").await;
        engine.close().await.unwrap();
        assert_eq!(offline::check(&path("one")).unwrap().keys, 20);
        assert_eq!(offline::restore(&path("backup"), &path("two"), None).unwrap().keys, 20);
    }
}

/// The history of an object did not name the user of a change or deletion.
#[tokio::test]
async fn the_origin_of_a_change_is_kept_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path()).await;
    for (value, origin) in [(Some("1".into()), None), (Some("2".into()), Some("alice")), (None, Some("bob"))]
    {
        let origin = origin.map(Into::into);
        engine.write(Write { key: "/a".into(), value, expect: Expect::Any, origin }).await.unwrap();
    }
    let range = VersionRange { before: None, limit: 10, bytes: 1 << 20 };
    let origins = |versions: Vec<KeyVersion>| {
        versions
            .into_iter()
            .map(|version| version.origin.map(|origin| origin.to_string()))
            .collect::<Vec<_>>()
    };
    let expected = [Some("bob".to_owned()), Some("alice".to_owned()), None];
    assert_eq!(origins(engine.versions("/a", range).await.unwrap()), expected);
    engine.close().await.unwrap();
    offline::check(directory.path()).unwrap();
    let database = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    assert_eq!(database.execute("UPDATE log SET origin = 'eve' WHERE origin = 'bob'", []).unwrap(), 1);
    drop(database);
    assert!(matches!(offline::check(directory.path()), Err(Error::Corrupt(_))));
}

/// A restore brought revisions back that clients had seen with other content: resumed watches missed changes silently.
#[tokio::test]
async fn a_restored_store_ends_every_watch_from_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let engine = open(&path("one")).await;
    fill(&engine).await;
    offline::backup(&path("one"), &path("copy"), Keys::LeftOut).unwrap();
    let seen = set(&engine, "/k/1", "lost by the restore").await;
    engine.close().await.unwrap();
    offline::restore(&path("copy"), &path("two"), None).unwrap();
    let engine = open(&path("two")).await;
    assert!(engine.current().await.unwrap() > seen);
    assert!(matches!(engine.changes(seen).await.map(drop), Err(Error::Compacted { .. })));
    assert_eq!(engine.range(Range::prefix("/k/")).await.unwrap().count, 19);
    let next = set(&engine, "/k/1", "new").await;
    assert!(next > seen);
    engine.close().await.unwrap();
    offline::check(&path("two")).unwrap();
    // A backup of a restored store can be restored in turn.
    offline::backup(&path("two"), &path("copy2"), Keys::LeftOut).unwrap();
    assert!(offline::restore(&path("copy2"), &path("three"), None).unwrap().revision > next);
}

/// A backup without the CA and keys made every kubeconfig useless after a restore.
#[tokio::test]
async fn keys_come_along_with_a_backup() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let engine = open(&path("one")).await;
    fill(&engine).await;
    std::fs::create_dir(path("one/pki")).unwrap();
    std::fs::write(path("one/pki/ca.key"), "secret").unwrap();
    std::fs::write(path("one/admin.token"), "token").unwrap();
    offline::backup(&path("one"), &path("copy"), Keys::Included).unwrap();
    assert_eq!(std::fs::metadata(path("copy")).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::create_dir_all(path("two")).unwrap();
    std::fs::write(path("two/admin.token"), "another").unwrap();
    assert!(offline::restore(&path("copy"), &path("two"), None).is_err(), "never over another key");
    std::fs::remove_file(path("two/admin.token")).unwrap();
    offline::restore(&path("copy"), &path("two"), None).unwrap();
    for (file, content) in [("two/pki/ca.key", "secret"), ("two/admin.token", "token")] {
        assert_eq!(std::fs::read_to_string(path(file)).unwrap(), content);
        assert_eq!(std::fs::metadata(path(file)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(open(&path("two")).await.range(Range::prefix("/k/")).await.unwrap().count, 19);
}

/// A mistake that was made before the backup could not be undone: the backup had its history and nothing could use it.
#[tokio::test]
async fn a_backup_can_be_restored_as_of_any_revision_of_its_history() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let engine = open(&path("one")).await;
    fill(&engine).await;
    set(&engine, "/k/gone", "deleted later").await;
    let good = set(&engine, "/k/1", "before the mistake").await;
    let expected = engine.range(Range::prefix("/k/")).await.unwrap().items;
    engine
        .write(Write { key: "/k/gone".into(), value: None, expect: Expect::Any, origin: None })
        .await
        .unwrap();
    set(&engine, "/k/0", "there was none then").await;
    let newest = set(&engine, "/k/1", "the mistake").await;
    engine.close().await.unwrap();
    offline::backup(&path("one"), &path("copy"), Keys::LeftOut).unwrap();
    offline::restore(&path("copy"), &path("two"), Some(good)).unwrap();
    let restored = open(&path("two")).await;
    assert_eq!(restored.range(Range::prefix("/k/")).await.unwrap().items, expected);
    assert!(
        set(&restored, "/k/2", "new").await > newest,
        "no revision of the lost changes is given out again"
    );
    restored.close().await.unwrap();
    offline::check(&path("two")).unwrap();
    let future = offline::restore(&path("copy"), &path("three"), Some(newest.next()));
    assert!(
        matches!(&future, Err(Error::Invalid(why)) if why.contains("history from revision")),
        "{future:?}"
    );
    assert!(!path("three").exists(), "nothing is left of a restore that was refused");
}
