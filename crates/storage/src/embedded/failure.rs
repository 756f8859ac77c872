//! Errors of SQLite and of the operating system as [`Error`]s of the store.
//!
//! The classification matters more than the text: `ReadOnly` promises that the write has not happened, `Unavailable`
//! says that it may have, `Corrupt` needs an administrator. SQLite reports a full disk before the commit record is
//! written, so only that case may become `ReadOnly`; after a failed sync the content of the disk is unknown. A row that
//! does not decode counts as damage and is never skipped.

use rusqlite::ErrorCode;

use super::checksum::DamagedValue;
use crate::Error;

/// A database error while reading.
///
/// Also the fallback of `writing`: errors other than a full disk or an oversized value are classified alike on both paths.
pub(super) fn reading(error: &rusqlite::Error) -> Error {
    if let Some(damaged) = damage(error) {
        return Error::Corrupt(damaged);
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Corrupt(error.to_string()),
        _ => Error::Unavailable(error.to_string()),
    }
}

/// The damaged value that a database error is about, if it is about one.
pub(super) fn damaged_value(error: &rusqlite::Error) -> Option<&DamagedValue> {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => cause.downcast_ref(),
        _ => None,
    }
}

/// Describes a row that cannot be what was written.
///
/// A change that the table of keys names and the log does not have counts too: no crash leaves that.
fn damage(error: &rusqlite::Error) -> Option<String> {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => Some(cause.to_string()),
        rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::Utf8Error(..) => {
            Some(format!("a row is damaged on disk: {error}"))
        }
        rusqlite::Error::QueryReturnedNoRows => {
            Some("a change is missing on disk: restore a backup".to_owned())
        }
        _ => None,
    }
}

/// A database error while writing.
///
/// A full disk is noticed before the record that makes a transaction count is written, so the write has certainly not
/// happened. For other errors, such as a failed sync, that is unknown.
pub(super) fn writing(error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::ReadOnly(format!("the disk is full: {error}")),
        Some(ErrorCode::TooBig) => Error::Invalid(error.to_string()),
        _ => reading(error),
    }
}

/// A file system error on `path`.
pub(super) fn file(what: &str, path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("cannot {what} {}: {error}", path.display()))
}
