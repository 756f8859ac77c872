//! Probing a disk that failed, until it takes writes again.
//!
//! After a failed sync the engine refuses writes, because what reached the disk is unknown. It goes on once
//! a write of half a megabyte succeeds.

use rusqlite::{Connection, Result};

/// As much as a good batch needs, so that a disk with a few bytes left is not taken for one that works.
const WRITE: &str = "BEGIN IMMEDIATE; CREATE TABLE probe (content BLOB); INSERT INTO probe VALUES (zeroblob(524288)); COMMIT;";

/// Writes something and takes it back.
///
/// A commit that failed half-way left its frames after the end of the write-ahead log. This overwrites them, so that no
/// later crash can bring them to life.
///
/// # Errors
///
/// Any failure means that the disk is still out of order; the writer tries again at its next tick.
pub(super) fn probe(connection: &Connection) -> Result<()> {
    clean(connection)?;
    let written = connection.execute_batch(WRITE);
    if written.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    written.and_then(|()| clean(connection))
}

/// Removes what a crash during a probe leaves.
pub(super) fn clean(connection: &Connection) -> Result<()> {
    connection.execute_batch("DROP TABLE IF EXISTS probe")
}
