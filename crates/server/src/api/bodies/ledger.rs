//! [`Ledger`]: the users with memory for request bodies, and those that wait for it, as a state machine.
//!
//! Memory goes to the waiting user that would then have the least, so that the number of requests of a user, and of users of
//! the same person, does not delay the first request of another. Requests of one user keep their order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::options::RequestLimits;

/// The bytes of an unread body that a connection may have received: the window of an HTTP/2 stream.
const UNREAD_BYTES: usize = 256 << 10;
/// The waiting bodies of a user, in bytes, that are accepted even if all users together have too many.
const SOME_UNREAD: usize = 1 << 20;
/// The interval between two searches for slow bodies, each of which looks at every user.
const SEARCH_EVERY: Duration = Duration::from_millis(100);

/// More bodies wait than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// All users with bodies.
#[derive(Debug)]
pub(super) struct Ledger {
    all: usize,
    share: usize,
    slow: Duration,
    very_slow: Duration,
    free: usize,
    /// The bytes that may have been received of bodies that are not being read.
    unread: usize,
    /// The number of requests that wait.
    waiting: usize,
    users: HashMap<Arc<str>, Account>,
    next_id: u64,
    next_search: Instant,
}

/// The bodies of a user, by the order in which they were announced.
#[derive(Debug, Default)]
struct Account {
    held: usize,
    unread: usize,
    waiting: BTreeMap<u64, Waiting>,
    held_bodies: BTreeMap<u64, HeldBody>,
    /// Those that are being read, with the time at which that began.
    arriving: BTreeMap<u64, Instant>,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    granted: oneshot::Sender<()>,
    given_up: CancellationToken,
}

#[derive(Debug)]
struct HeldBody {
    bytes: usize,
    given_up: CancellationToken,
}

impl Account {
    fn is_empty(&self) -> bool {
        self.unread == 0 && self.held_bodies.is_empty() && self.waiting.is_empty()
    }

    /// The first waiting request, if the user may have its memory, and what the user would have then.
    fn next(&self, share: usize) -> Option<(usize, u64)> {
        let (id, first) = self.waiting.first_key_value()?;
        let then = self.held + first.bytes;
        (then <= share).then_some((then, *id))
    }

    fn hold(&mut self, id: u64, body: HeldBody, now: Instant) {
        self.held += body.bytes;
        self.held_bodies.insert(id, body);
        self.arriving.insert(id, now);
    }

    /// The body that has been arriving for longest, with its age.
    fn slowest(&self, now: Instant) -> Option<(Duration, u64)> {
        let (id, since) = self.arriving.first_key_value()?;
        Some((now.saturating_duration_since(*since), *id))
    }
}

impl Ledger {
    pub(super) fn new(limits: &RequestLimits, now: Instant) -> Self {
        Self {
            all: limits.bodies_bytes,
            share: limits.user_bodies_bytes.min(limits.bodies_bytes),
            slow: limits.slow_body,
            very_slow: limits.very_slow_body,
            free: limits.bodies_bytes,
            unread: 0,
            waiting: 0,
            users: HashMap::new(),
            next_id: 0,
            next_search: now,
        }
    }

    /// Takes memory for a body, or a place in the queue: then it is granted later. A body larger than the share of a user is
    /// counted as large as that.
    pub(super) fn ask(
        &mut self,
        user: &Arc<str>,
        bytes: usize,
        given_up: &CancellationToken,
        now: Instant,
    ) -> Result<(u64, Option<oneshot::Receiver<()>>), Full> {
        let (bytes, given_up) = (bytes.min(self.share), given_up.clone());
        self.next_id += 1;
        let id = self.next_id;
        let account = self.users.entry(Arc::clone(user)).or_default();
        if account.waiting.is_empty() && account.held + bytes <= self.share && bytes <= self.free {
            self.free -= bytes;
            account.hold(id, HeldBody { bytes, given_up }, now);
            return Ok((id, None));
        }
        self.add_unread(user, bytes)?;
        let (granted, receiver) = oneshot::channel();
        let account = self.users.entry(Arc::clone(user)).or_default();
        account.waiting.insert(id, Waiting { bytes, granted, given_up });
        self.waiting += 1;
        Ok((id, Some(receiver)))
    }

    /// Counts an unread body; returns the bytes it was counted with.
    pub(super) fn add_unread(&mut self, user: &Arc<str>, bytes: usize) -> Result<usize, Full> {
        let bytes = bytes.min(UNREAD_BYTES);
        let account = self.users.entry(Arc::clone(user)).or_default();
        let then = account.unread + bytes;
        if then > self.share || (self.unread + bytes > self.all && then > SOME_UNREAD) {
            self.forget_if_empty(user);
            return Err(Full);
        }
        account.unread = then;
        self.unread += bytes;
        Ok(bytes)
    }

    /// Removes what [`Ledger::add_unread`] returned.
    pub(super) fn remove_unread(&mut self, user: &Arc<str>, bytes: usize) {
        let Some(account) = self.users.get_mut(user) else { return };
        account.unread -= bytes;
        self.unread -= bytes;
        self.forget_if_empty(user);
    }

    /// Marks a body as read. Its memory stays reserved.
    pub(super) fn arrived(&mut self, user: &Arc<str>, id: u64) {
        if let Some(account) = self.users.get_mut(user) {
            account.arriving.remove(&id);
        }
    }

    /// Returns the memory of a body, or its place in the queue.
    pub(super) fn give_back(&mut self, user: &Arc<str>, id: u64, now: Instant) {
        let Some(account) = self.users.get_mut(user) else { return };
        if let Some(waiting) = account.waiting.remove(&id) {
            self.waiting -= 1;
            self.remove_unread(user, waiting.bytes.min(UNREAD_BYTES));
        } else if let Some(body) = account.held_bodies.remove(&id) {
            account.arriving.remove(&id);
            account.held -= body.bytes;
            self.free += body.bytes;
            self.forget_if_empty(user);
        }
        self.grant(now);
    }

    /// Gives free memory to those that wait for it.
    fn grant(&mut self, now: Instant) {
        while self.waiting > 0 {
            let Some((user, id, _)) = self.next() else { return };
            let Some(account) = self.users.get_mut(&user) else { return };
            let Some(entry) = account.waiting.first_entry() else { return };
            if entry.get().bytes > self.free {
                return;
            }
            let Waiting { bytes, granted, given_up } = entry.remove();
            account.hold(id, HeldBody { bytes, given_up }, now);
            self.free -= bytes;
            self.waiting -= 1;
            self.remove_unread(&user, bytes.min(UNREAD_BYTES));
            // Whoever no longer waits gives it back at once.
            let _ = granted.send(());
        }
    }

    /// The next request to get memory: its user, its id, and what the user would have then.
    fn next(&self) -> Option<(Arc<str>, u64, usize)> {
        let candidates = self.users.iter().filter_map(|(user, account)| {
            let (then, id) = account.next(self.share)?;
            Some((then, id, user))
        });
        candidates.min().map(|(then, id, user)| (Arc::clone(user), id, then))
    }

    /// Gives up slow bodies until there will be memory for the next request, which another user waits for.
    ///
    /// A body is given up if it is slow and its user has more than the waiting one would, or if it is very slow.
    pub(super) fn give_up_slow_ones(&mut self, now: Instant) {
        if now < self.next_search {
            return;
        }
        self.next_search = now + SEARCH_EVERY;
        let Some((next, id, then)) = self.next() else { return };
        let Some(needed) = self.users.get(&next).and_then(|account| account.waiting.get(&id)) else { return };
        let (needed, mut coming) = (needed.bytes, self.free);
        while coming < needed {
            let Some((user, id)) = self.slow_body(then, now) else { return };
            let Some(account) = self.users.get_mut(&user) else { return };
            account.arriving.remove(&id);
            let Some(body) = account.held_bodies.get(&id) else { return };
            body.given_up.cancel();
            coming += body.bytes;
        }
    }

    /// The slow body of the user that has most memory.
    fn slow_body(&self, then: usize, now: Instant) -> Option<(Arc<str>, u64)> {
        let candidates = self.users.iter().filter_map(|(user, account)| {
            let (age, id) = account.slowest(now)?;
            let is_slow = age >= self.very_slow || (age >= self.slow && account.held > then);
            is_slow.then_some((account.held, user, id))
        });
        candidates.max().map(|(_, user, id)| (Arc::clone(user), id))
    }

    fn forget_if_empty(&mut self, user: &Arc<str>) {
        if self.users.get(user).is_some_and(Account::is_empty) {
            self.users.remove(user);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.free == self.all && self.unread == 0 && self.waiting == 0
    }
}
