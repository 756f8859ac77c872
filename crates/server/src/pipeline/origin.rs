//! The origin of a change, as it is stored with each version: the user that made it, and when.
//!
//! `managedFields` name the program that changed fields, not the user, and nothing at all for a deletion. The embedded engine
//! keeps this text beside the version; the history of an object shows it (`verbs/history.rs`).

use std::sync::Arc;

use jiff::Timestamp;

use crate::registry::target::OWN_USER;

/// Bytes of a user name that are kept with a version. Names of service accounts have up to 342; a longer, invented name must
/// not be stored with every change.
const MAX_USER: usize = 400;

/// The text that is stored: the seconds since 1970, a space, and the name of the user.
pub(crate) fn origin(user: &str, time: Timestamp) -> Arc<str> {
    let user = user.get(..user.floor_char_boundary(MAX_USER)).unwrap_or(user);
    [time.as_second().to_string().as_str(), " ", user].concat().into()
}

/// The origin of a change that the server makes now on its own behalf.
pub(crate) fn own() -> Arc<str> {
    origin(OWN_USER, Timestamp::now())
}

/// Returns the user and the time of a stored origin.
pub(crate) fn read(origin: &str) -> Option<(&str, Timestamp)> {
    let (seconds, user) = origin.split_once(' ')?;
    Some((user, Timestamp::from_second(seconds.parse().ok()?).ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn origins_read_back_and_long_names_are_cut() {
        let time = Timestamp::from_second(1_700_000_000).unwrap();
        for user in ["alice", "", "with spaces", "system:serviceaccount:a:b"] {
            assert_eq!(read(&origin(user, time)), Some((user, time)));
        }
        let long = origin(&"ä".repeat(MAX_USER), time);
        assert_eq!(read(&long).unwrap().0, "ä".repeat(MAX_USER / 2));
        assert_eq!((read("nonsense"), read("x y")), (None, None));
    }
}
