//! A checksum per change, so that bit flips on the disk are detected and never served.
//!
//! SQLite notices damage to its own structures, not to the content of a row. The checksum covers the revision, the key, the
//! value and the origin, so a value under the wrong key or revision is found too. Rows of format 1 have none and are not
//! checked.

use listwatch_wire::Revision;
use rusqlite::types::Type;

/// A row whose content is not what was written.
///
/// Travels as the cause of a [`rusqlite::Error`], because rows are read in SQLite's callbacks; `failure` takes it out
/// again.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the value of {key:?} at revision {revision} is damaged on disk: restore a backup (`listwatch db check` lists all damage)"
)]
pub(super) struct DamagedValue {
    pub(super) key: String,
    pub(super) revision: Revision,
}

/// Returns the checksum of a change. Without an origin it is that of format 2.
///
/// CRC-32 detects accidents, not attacks: an attacker who can write the file can write the checksum. The lengths of key and
/// origin are part of it, so that bytes cannot move between them and the value unnoticed.
pub(super) fn checksum(revision: Revision, key: &str, value: Option<&[u8]>, origin: Option<&str>) -> i64 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&revision.0.to_le_bytes());
    sum.update(&(key.len() as u64).to_le_bytes());
    sum.update(key.as_bytes());
    match value {
        Some(value) => {
            sum.update(&[1]);
            sum.update(value);
        }
        None => sum.update(&[0]),
    }
    if let Some(origin) = origin {
        sum.update(origin.as_bytes());
        sum.update(&(origin.len() as u64).to_le_bytes());
    }
    i64::from(sum.finalize())
}

/// Fails if the stored checksum is that of another content.
///
/// Called on every value that is read from disk, not on those that come from the tail.
///
/// # Errors
///
/// A conversion failure whose cause names the damaged key.
pub(super) fn verify(
    revision: Revision,
    key: &str,
    value: Option<&[u8]>,
    origin: Option<&str>,
    stored: Option<i64>,
) -> rusqlite::Result<()> {
    if stored.is_none_or(|stored| stored == checksum(revision, key, value, origin)) {
        return Ok(());
    }
    let damaged = DamagedValue { key: key.to_owned(), revision };
    Err(rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, Box::new(damaged)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_change_counts() {
        let sum = checksum(Revision(7), "/a", Some(b"bc"), Some("de"));
        for (revision, key, value, origin) in [
            (8, "/a", Some(b"bc".as_slice()), Some("de")),
            (7, "/b", Some(b"bc".as_slice()), Some("de")),
            (7, "/a", Some(b"bd".as_slice()), Some("de")),
            (7, "/ab", Some(b"c".as_slice()), Some("de")),
            (7, "/a", None, Some("de")),
            (7, "/a", Some(b"bc".as_slice()), Some("df")),
            (7, "/a", Some(b"bcd".as_slice()), Some("e")),
            (7, "/a", Some(b"bc".as_slice()), None),
        ] {
            assert!(verify(Revision(revision), key, value, origin, Some(sum)).is_err());
        }
        assert!(verify(Revision(7), "/a", Some(b"bc"), Some("de"), Some(sum)).is_ok());
        assert!(verify(Revision(7), "/a", Some(b"anything"), None, None).is_ok(), "rows of format 1");
    }
}
