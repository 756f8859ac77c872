//! [`UserMemory`]: a bound on the bytes that requests hold, for all users together and per user.
//!
//! Two kinds of memory are bounded with it; request bodies have [`super::BodyMemory`]:
//!
//! * Pages of object histories, until they are sent. They are much larger than the requests for them.
//! * Long selectors of open watches. Those beyond the bound are rejected, since a watch may last for an hour.
//!
//! Users have shares ([`UserShares`]), so that one user cannot block the others.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::UserShares;

/// Memory of one kind, in bytes, of all users and per share of users.
///
/// The share is taken before the whole: a user who waits for its own share holds nothing that others need.
#[derive(Debug)]
pub(crate) struct UserMemory {
    all: Arc<Semaphore>,
    shares: UserShares<Arc<Semaphore>>,
}

/// Some of that memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    _all: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

/// Bytes that hold their reservation for as long as a part of them is there.
struct ReservedBytes {
    bytes: Bytes,
    _reservation: Option<MemoryReservation>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Keeps a reservation for as long as a part of these bytes is there.
pub(crate) fn reserved(bytes: Bytes, reservation: Option<MemoryReservation>) -> Bytes {
    Bytes::from_owner(ReservedBytes { bytes, _reservation: reservation })
}

impl UserMemory {
    /// Memory for `all` bytes, of which one user has at most `share`.
    pub(crate) fn new(all: usize, share: usize) -> Self {
        let semaphore = |bytes: usize| Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
        Self { all: semaphore(all), shares: UserShares::new(|| semaphore(share)) }
    }

    /// Waits for memory of a user; `None` if it needs none.
    pub(crate) async fn enter(&self, user: &str, bytes: usize) -> Option<MemoryReservation> {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
        // The user's share first: a request that waits for it must not hold memory that others could use.
        let share = Arc::clone(self.shares.of(user)?).acquire_many_owned(bytes).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(bytes).await.ok()?;
        Some(MemoryReservation { _all: all, _share: share })
    }

    /// Takes memory of a user if there is so much at this moment.
    pub(crate) fn try_enter(&self, user: &str, bytes: usize) -> Option<MemoryReservation> {
        let bytes = u32::try_from(bytes).ok()?;
        let share = Arc::clone(self.shares.of(user)?).try_acquire_many_owned(bytes).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(bytes).ok()?;
        Some(MemoryReservation { _all: all, _share: share })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_user_cannot_take_the_room_of_the_others() {
        let bodies = UserMemory::new(30, 10);
        let first = bodies.enter("a", 8).await;
        assert!(bodies.enter("a", 3).now_or_never().is_none(), "the share of a is used up");
        assert!(bodies.try_enter("a", 3).is_none() && bodies.try_enter("a", 2).is_some());
        let others: Vec<String> = (0..100).map(|n| format!("user {n}")).collect();
        let entered = others.iter().filter_map(|user| bodies.enter(user, 3).now_or_never().flatten());
        assert_eq!(entered.take(7).count(), 7, "others have room");
        drop(first);
        assert!(bodies.enter("a", 10).now_or_never().flatten().is_some(), "given back");
        assert!(bodies.enter("a", 0).await.is_none(), "no body, no room");
    }
}
