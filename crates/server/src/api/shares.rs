//! [`UserShares`]: one share of something per user, in bounded memory.
//!
//! Users whose names hash alike share one, under a secret key: a user cannot choose a name that uses up another user's
//! share. [`super::UserMemory`] and `chain/unread.rs` bound memory per user with it.

use std::hash::{BuildHasher, RandomState};

/// The number of shares: enough that two users rarely have the same one.
const SHARES: usize = 256;

/// The shares of all users: a fixed number, so that inventing user names takes no memory. Users whose names hash
/// alike share one.
#[derive(Debug)]
pub(crate) struct UserShares<T> {
    shares: Vec<T>,
    keys: RandomState,
}

impl<T> UserShares<T> {
    /// Shares that `share` makes.
    pub(crate) fn new(share: impl FnMut() -> T) -> Self {
        Self { shares: std::iter::repeat_with(share).take(SHARES).collect(), keys: RandomState::new() }
    }

    /// The share of a user.
    pub(crate) fn of(&self, user: &str) -> Option<&T> {
        let index = usize::try_from(self.keys.hash_one(user) % SHARES as u64).ok()?;
        self.shares.get(index)
    }
}
