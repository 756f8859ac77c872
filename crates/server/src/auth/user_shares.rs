//! [`UserShares`]: one share of something per user, in bounded memory.
//!
//! Users whose names hash alike share one, under a secret key: a user cannot choose a name that uses up another user's
//! share. `api/user_memory.rs` and `chain/unread.rs` bound memory per user with it, [`super::access_webhook`] calls.

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
        Self::of_count(SHARES, share)
    }

    /// So many shares, for what is too large to have one for almost every user.
    pub(crate) fn of_count(count: usize, share: impl FnMut() -> T) -> Self {
        Self { shares: std::iter::repeat_with(share).take(count).collect(), keys: RandomState::new() }
    }

    /// The share of a user.
    pub(crate) fn of(&self, user: &str) -> Option<&T> {
        let count = u64::try_from(self.shares.len()).ok()?;
        let index = usize::try_from(self.keys.hash_one(user).checked_rem(count)?).ok()?;
        self.shares.get(index)
    }
}
