//! Write cases: conditional puts and deletes.
//! A refused write returns the present value, so that a caller can retry without another read, and leaves no trace in
//! the log. Keys are any text after a slash and values any bytes: an engine may not rely on what the server stores.

use std::sync::Arc;

use super::{delete, done, put, refused, remove, set, value};
use crate::{Engine, Error, Expect};

/// The simplest life of a key.
pub(super) async fn put_get_delete(engine: &Arc<dyn Engine>) {
    assert_eq!(value(engine, "/a", None).await, None);
    let created = set(engine, "/a", "1").await;
    let found = engine.get("/a", None).await.expect("a read").expect("the key");
    assert_eq!((found.revision, &found.value[..]), (created, &b"1"[..]));
    let deleted = remove(engine, "/a").await;
    assert!(deleted > created);
    assert_eq!(value(engine, "/a", None).await, None);
}

/// There is one counter for all keys.
pub(super) async fn every_write_has_a_greater_revision(engine: &Arc<dyn Engine>) {
    let mut last = engine.current().await.expect("a revision");
    for n in 0..20 {
        let revision = set(engine, &format!("/{}", n % 3), "x").await;
        assert!(revision > last);
        assert!(engine.current().await.expect("a revision") >= revision);
        last = revision;
    }
}

/// A creation that loses gets the present value.
pub(super) async fn absent_refuses_what_exists(engine: &Arc<dyn Engine>) {
    let created = done(engine, put("/a", "1", Expect::Absent)).await;
    let current = refused(engine, put("/a", "2", Expect::Absent)).await.expect("what is there");
    assert_eq!((current.0, &current.1[..]), (created, &b"1"[..]));
    remove(engine, "/a").await;
    done(engine, put("/a", "3", Expect::Absent)).await;
}

/// Optimistic concurrency: of two updates of one version the second is refused.
pub(super) async fn at_refuses_another_revision(engine: &Arc<dyn Engine>) {
    let first = set(engine, "/a", "1").await;
    let second = done(engine, put("/a", "2", Expect::At(first))).await;
    let current = refused(engine, put("/a", "3", Expect::At(first))).await.expect("what is there");
    assert_eq!((current.0, &current.1[..]), (second, &b"2"[..]));
    assert!(refused(engine, delete("/a", Expect::At(first))).await.is_some());
    done(engine, delete("/a", Expect::At(second))).await;
    assert_eq!(refused(engine, put("/a", "4", Expect::At(second))).await, None);
}

/// A deletion without effect has no revision, so watchers see no event.
pub(super) async fn deleting_nothing_is_refused(engine: &Arc<dyn Engine>) {
    for expect in [Expect::Any, Expect::Absent] {
        assert_eq!(refused(engine, delete("/a", expect)).await, None);
    }
}

/// Neither in the state nor in the log, and no revision is used up.
pub(super) async fn refused_writes_leave_no_trace(engine: &Arc<dyn Engine>) {
    let first = set(engine, "/a", "1").await;
    refused(engine, put("/a", "2", Expect::Absent)).await;
    refused(engine, delete("/a", Expect::At(first.next()))).await;
    refused(engine, delete("/b", Expect::Any)).await;
    let mut log = engine.changes(first).await.expect("a log");
    let marker = set(engine, "/marker", "m").await;
    let changes = super::read_upto(&mut log, marker).await;
    assert_eq!(changes.iter().map(super::shorthand).collect::<Vec<_>>(), ["/marker=m(none)"]);
}

/// From nothing to a megabyte, with every byte in it.
pub(super) async fn values_are_any_bytes(engine: &Arc<dyn Engine>) {
    let large: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[(n % 4) as usize]).collect();
    for bytes in [Vec::new(), vec![0], vec![0xff, 0, 0xfe], large] {
        done(engine, put("/a", bytes.clone(), Expect::Any)).await;
        assert_eq!(engine.get("/a", None).await.expect("a read").expect("the key").value, bytes);
    }
}

/// Quotes, percent signs and the last code point included: an engine must not build statements from them.
pub(super) async fn keys_are_any_text_after_a_slash(engine: &Arc<dyn Engine>) {
    for key in ["//", "/a b", "/ä/日本", "/a%'\";--", "/\u{10ffff}", &"/x".repeat(500)] {
        set(engine, key, "v").await;
        assert_eq!(value(engine, key, None).await.as_deref(), Some("v"));
    }
    for key in ["", "/", "a"] {
        let outcome = engine.write(put(key, "v", Expect::Any)).await;
        assert!(matches!(outcome, Err(Error::Invalid(_))), "{key:?}: {outcome:?}");
    }
}

/// A key that was deleted starts over and keeps its history.
pub(super) async fn a_key_can_live_again(engine: &Arc<dyn Engine>) {
    let first = set(engine, "/a", "1").await;
    let gone = remove(engine, "/a").await;
    let second = set(engine, "/a", "2").await;
    for (at, expected) in [(first, Some("1")), (gone, None), (second, Some("2"))] {
        assert_eq!(value(engine, "/a", Some(at)).await.as_deref(), expected, "at {at}");
    }
}
