//! Read cases: gets, ranges and versions of a key, at the newest and at older revisions.
//! Pages of one list must show one state although writes go on between them; that is what `limit` and `continue` of the
//! API are built on. `count` is of the whole range, for `remainingItemCount`.

use std::sync::Arc;

use super::{listing, remove, set, value};
use crate::{Engine, Error, Range, VersionRange};

/// Keys come in the order of their bytes; the end is not part of a range.
pub(super) async fn range_is_ordered_and_half_open(engine: &Arc<dyn Engine>) {
    for key in ["/c", "/a", "/b", "/d"] {
        set(engine, key, "v").await;
    }
    let range = |start: &str, end: &str| Range { start: start.into(), end: end.into(), limit: 0, at: None };
    for (start, end, expected) in
        [("/a", "/c", "/a /b"), ("/b", "", "/b /c /d"), ("", "/b", "/a"), ("/c", "/c", ""), ("/d", "/a", "")]
    {
        let page = engine.range(range(start, end)).await.expect("a range");
        let keys: Vec<&str> = page.items.iter().map(|item| &*item.key).collect();
        assert_eq!(keys.join(" "), expected, "from {start:?} to {end:?}");
    }
}

/// A page has the number of all keys in the range, for `remainingItemCount`.
pub(super) async fn limit_bounds_items_but_not_count(engine: &Arc<dyn Engine>) {
    for n in 0..10 {
        set(engine, &format!("/k/{n}"), "v").await;
    }
    let before = remove(engine, "/k/3").await;
    remove(engine, "/k/7").await;
    for (limit, at, items, count) in
        [(3, None, 3, 8), (8, None, 8, 8), (0, None, 8, 8), (2, Some(before), 2, 9)]
    {
        let page = engine.range(Range { limit, at, ..Range::prefix("/k/") }).await.expect("a range");
        assert_eq!((page.items.len(), page.count), (items, count), "limit {limit} at {at:?}");
    }
}

/// Pages at one revision do not see writes in between.
pub(super) async fn pages_follow_each_other(engine: &Arc<dyn Engine>) {
    for n in 0..25 {
        set(engine, &format!("/k/{n:02}"), "old").await;
    }
    let mut range = Range { limit: 10, ..Range::prefix("/k/") };
    let mut seen = Vec::new();
    loop {
        let page = engine.range(range.clone()).await.expect("a range");
        assert_eq!(page.count, 25 - seen.len() as u64);
        seen.extend(page.items.iter().map(|item| (item.key.to_string(), super::text(&item.value))));
        if page.items.len() as u64 == page.count {
            break;
        }
        range.at = Some(page.revision);
        range.start = format!("{}\0", seen.last().expect("an item").0).into();
        // None of this may show on later pages.
        set(engine, "/k/24", "new").await;
        set(engine, &format!("/k/{}x", seen.len()), "new").await;
        if seen.len() == 10 {
            remove(engine, "/k/20").await;
        }
    }
    let expected: Vec<_> = (0..25).map(|n| (format!("/k/{n:02}"), "old".to_owned())).collect();
    assert_eq!(seen, expected);
}

/// Every revision within history can be read again.
pub(super) async fn older_revisions_stay_as_they_were(engine: &Arc<dyn Engine>) {
    let mut history = Vec::new();
    for n in 0..10 {
        let revision = set(engine, &format!("/k/{}", n % 3), &n.to_string()).await;
        history.push((revision, listing(engine, "/k/", None).await));
    }
    for (revision, expected) in history {
        assert_eq!(listing(engine, "/k/", Some(revision)).await, expected, "at {revision}");
    }
}

/// A deletion hides a key from its own revision on.
pub(super) async fn older_ranges_show_what_is_deleted_now(engine: &Arc<dyn Engine>) {
    set(engine, "/k/a", "1").await;
    let both = set(engine, "/k/b", "2").await;
    let one = remove(engine, "/k/a").await;
    let none = remove(engine, "/k/b").await;
    assert_eq!(listing(engine, "/k/", Some(both)).await, ["/k/a=1", "/k/b=2"]);
    assert_eq!(listing(engine, "/k/", Some(one)).await, ["/k/b=2"]);
    assert!(listing(engine, "/k/", Some(none)).await.is_empty());
    assert_eq!(value(engine, "/k/a", Some(both)).await.as_deref(), Some("1"));
    assert_eq!(value(engine, "/k/a", Some(one)).await, None);
}

/// A revision that was not reached is not an empty state.
pub(super) async fn future_is_an_error(engine: &Arc<dyn Engine>) {
    set(engine, "/a", "1").await;
    let current = engine.current().await.expect("a revision");
    let at = Some(crate::suite::Revision(current.0 + 1000));
    let read = engine.get("/a", at).await;
    assert!(matches!(read, Err(Error::Future { .. })), "{read:?}");
    let read = engine.range(Range { at, ..Range::prefix("/") }).await;
    assert!(matches!(read, Err(Error::Future { .. })), "{read:?}");
}

/// A prefix ends with its slash: `/a` does not mean `/ab`.
pub(super) async fn neighbours_of_a_prefix_stay_out(engine: &Arc<dyn Engine>) {
    for key in ["/a", "/a/", "/a/1", "/ab/1", "/a0", "/A/1"] {
        set(engine, key, "v").await;
    }
    assert_eq!(listing(engine, "/a/", None).await, ["/a/=v", "/a/1=v"]);
}

/// The versions of a key, the deleted ones as a dash.
async fn versions(engine: &Arc<dyn Engine>, key: &str, range: VersionRange) -> Vec<(u64, String)> {
    let found = engine.versions(key, range).await.expect("versions");
    let shown =
        |value: Option<bytes::Bytes>| value.map_or_else(|| "-".to_owned(), |value| super::text(&value));
    found.into_iter().map(|version| (version.revision.0, shown(version.value))).collect()
}

const ALL: VersionRange = VersionRange { before: None, limit: 100, bytes: usize::MAX };

/// The history of one key, read backwards.
pub(super) async fn versions_come_newest_first_and_in_pages(engine: &Arc<dyn Engine>) {
    let mut expected = Vec::new();
    for n in 0..7 {
        let revision = set(engine, "/k/a", &n.to_string()).await;
        expected.insert(0, (revision.0, n.to_string()));
        set(engine, "/k/b", "other").await;
    }
    assert_eq!(versions(engine, "/k/a", ALL).await, expected);
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = versions(engine, "/k/a", VersionRange { before, limit: 3, ..ALL }).await;
        let Some((last, _)) = page.last() else { break };
        before = Some(crate::suite::Revision(*last));
        seen.extend(page);
    }
    assert_eq!(seen, expected);
    let small = VersionRange { bytes: 2, ..ALL };
    assert_eq!(versions(engine, "/k/a", small).await.len(), 2);
    let between = crate::suite::Revision(expected[2].0 + 1);
    let page = versions(engine, "/k/a", VersionRange { before: Some(between), ..ALL }).await;
    assert_eq!(page, expected[2..], "a begin that is a revision of another key");
    assert!(versions(engine, "/k/none", ALL).await.is_empty());
}

/// Compaction takes old versions away and never the current one.
pub(super) async fn versions_end_where_history_begins(engine: &Arc<dyn Engine>) {
    set(engine, "/k/a", "0").await;
    let current = set(engine, "/k/a", "1").await;
    let begin = set(engine, "/k/b", "other").await;
    let newest = set(engine, "/k/a", "2").await;
    engine.compact(begin).await.expect("a compaction");
    let expected = [(newest.0, "2".to_owned()), (current.0, "1".to_owned())];
    assert_eq!(versions(engine, "/k/a", ALL).await, expected);
}
