//! [`Bodies`]: the bound on memory for request bodies, from their first byte until their request is answered.
//!
//! A body is read before its request waits for a seat, so seats do not bound the memory of bodies: one HTTP/2 connection could
//! send a thousand. A request that exceeds the bound waits before the first byte is read. Memory is reserved for a whole body
//! at once ([`BodyReservation`]), so that partly received bodies never wait for each other.
//!
//! Users have shares ([`UserShares`]), so that one cannot keep out the others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::shares::UserShares;

/// The memory for request bodies, in bytes, of all users and per share of users.
///
/// The share is taken before the whole: a user who waits for its own share holds nothing that others need.
#[derive(Debug)]
pub(crate) struct Bodies {
    all: Arc<Semaphore>,
    shares: UserShares<Arc<Semaphore>>,
}

/// The memory reserved for one body, released when dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    _all: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

impl Bodies {
    /// BodyReservation for `all` bytes, of which one user has at most `share`.
    pub(crate) fn new(all: usize, share: usize) -> Self {
        let semaphore = |bytes: usize| Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
        Self { all: semaphore(all), shares: UserShares::new(|| semaphore(share)) }
    }

    /// Waits for room for a body of a user; `None` if it needs none.
    pub(crate) async fn enter(&self, user: &str, bytes: usize) -> Option<BodyReservation> {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
        // The share first: a request that waits for it must not hold memory that others could use.
        let share = Arc::clone(self.shares.of(user)?).acquire_many_owned(bytes).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(bytes).await.ok()?;
        Some(BodyReservation { _all: all, _share: share })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_user_cannot_take_the_room_of_the_others() {
        let bodies = Bodies::new(30, 10);
        let first = bodies.enter("a", 8).await;
        assert!(bodies.enter("a", 3).now_or_never().is_none(), "the share of a is used up");
        let others: Vec<String> = (0..100).map(|n| format!("user {n}")).collect();
        let entered = others.iter().filter_map(|user| bodies.enter(user, 3).now_or_never().flatten());
        assert_eq!(entered.take(7).count(), 7, "others have room");
        drop(first);
        assert!(bodies.enter("a", 10).now_or_never().flatten().is_some(), "given back");
        assert!(bodies.enter("a", 0).await.is_none(), "no body, no room");
    }
}
