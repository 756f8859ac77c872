//! Transaction cases: writes to several keys take place together or not at all, and appear in the log in one batch.
//! The API server uses them to commit a Service with the claims on its addresses and ports; a watcher of the log must
//! not see one without the other.

use std::sync::Arc;

use super::{delete, put, set, value};
use crate::{Engine, Expect, Transacted};

/// One condition that does not hold refuses every write of the transaction.
pub(super) async fn all_conditions_or_nothing(engine: &Arc<dyn Engine>) {
    let a = set(engine, "/a", "1").await;
    let refused = vec![put("/a", "2", Expect::At(a)), put("/b", "2", Expect::At(a))];
    let Transacted::Refused { current } = engine.transact(refused).await.expect("an answer") else {
        panic!("a condition that does not hold was ignored")
    };
    assert_eq!(
        current.iter().map(|found| found.as_ref().map(|kv| kv.revision)).collect::<Vec<_>>(),
        [Some(a), None]
    );
    assert_eq!(value(engine, "/a", None).await.as_deref(), Some("1"));
    assert_eq!(value(engine, "/b", None).await, None);
    let fitting = vec![put("/b", "2", Expect::Absent), delete("/a", Expect::At(a))];
    assert!(matches!(engine.transact(fitting).await.expect("an answer"), Transacted::Done { .. }));
    assert_eq!(value(engine, "/a", None).await, None);
    assert_eq!(value(engine, "/b", None).await.as_deref(), Some("2"));
}

/// A reader never sees a part of it.
pub(super) async fn the_log_has_a_transaction_in_one_batch(engine: &Arc<dyn Engine>) {
    let before = engine.current().await.expect("a revision");
    let mut log = engine.changes(before).await.expect("a log");
    let writes = vec![put("/x", "1", Expect::Absent), put("/y", "1", Expect::Absent)];
    let Transacted::Done { revisions } = engine.transact(writes).await.expect("an answer") else {
        panic!("nothing stood against it")
    };
    let batch = log.next().await.expect("a batch");
    let batch = if batch.changes.is_empty() { log.next().await.expect("a batch") } else { batch };
    assert_eq!(batch.changes.iter().map(|change| &*change.key).collect::<Vec<_>>(), ["/x", "/y"]);
    assert_eq!(batch.changes.iter().map(|change| change.revision).collect::<Vec<_>>(), revisions);
}

/// Two writes of a key in one transaction would have no order.
pub(super) async fn a_key_cannot_be_written_twice(engine: &Arc<dyn Engine>) {
    let writes = vec![put("/x", "1", Expect::Any), put("/x", "2", Expect::Any)];
    assert!(engine.transact(writes).await.is_err());
}
