//! [`TaskQueue`]: tasks by due time, each at most once, with exponential backoff for those that fail. Pure: time is
//! passed in.
//!
//! Deduplication is what bounds it: a burst of changes of one object is one task, so its size is at most the number
//! of distinct tasks. It has one consumer and no wake-ups, which is why it is not the `listwatch_workqueue` crate:
//! that one is shared between threads and knows fairness and priorities. The driver ([`super::driver`]) sleeps until
//! [`TaskQueue::next_due`].

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Tasks by the time they are due, each at most once.
///
/// Its size is bounded by the number of distinct tasks, which is bounded by the number of objects.
#[derive(Debug)]
pub(super) struct TaskQueue<T> {
    /// Due times, with a number that keeps equal times in the order of insertion.
    due: BTreeSet<(Instant, u64)>,
    tasks: HashMap<u64, T>,
    /// The entry of each task, to move it to an earlier time.
    places: HashMap<T, (Instant, u64)>,
    /// Consecutive failures of tasks that have any.
    failures: HashMap<T, u32>,
    /// The number of the next entry. Never used twice.
    next: u64,
}

/// The longest wait between tries of something that fails.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

impl<T: Clone + Eq + Hash> TaskQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            due: BTreeSet::new(),
            tasks: HashMap::new(),
            places: HashMap::new(),
            failures: HashMap::new(),
            next: 0,
        }
    }

    /// Adds a task; if it is there already, the earlier time counts.
    pub(super) fn add(&mut self, task: T, at: Instant) {
        if let Some((planned, id)) = self.places.get(&task).copied() {
            if planned <= at {
                return;
            }
            self.due.remove(&(planned, id));
            self.tasks.remove(&id);
        }
        let id = self.next;
        self.next += 1;
        self.due.insert((at, id));
        self.tasks.insert(id, task.clone());
        self.places.insert(task, (at, id));
    }

    /// The time at which the next task is due; `None` if there is none.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes a task that is due.
    pub(super) fn take(&mut self, now: Instant) -> Option<T> {
        let (at, id) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, id));
        let task = self.tasks.remove(&id)?;
        self.places.remove(&task);
        Some(task)
    }

    /// Returns true if a task is queued.
    pub(super) fn contains(&self, task: &T) -> bool {
        self.places.contains_key(task)
    }

    /// Removes a task, if it is there.
    pub(super) fn remove(&mut self, task: &T) {
        if let Some((at, id)) = self.places.remove(task) {
            self.due.remove(&(at, id));
            self.tasks.remove(&id);
        }
        self.failures.remove(task);
    }

    /// Adds a task that failed again, after 200 ms and then twice as long each time, up to a minute.
    ///
    /// The number of failures is kept until the task succeeds, also while other reasons queue it again: a task that
    /// always fails runs at most once a minute by itself, but at once if its object changes.
    pub(super) fn retry(&mut self, task: T, now: Instant) {
        let failures = self.failures.entry(task.clone()).or_insert(0);
        *failures += 1;
        let wait = Duration::from_millis(100).saturating_mul(1 << (*failures).min(10));
        self.add(task, now + wait.min(MAX_BACKOFF));
    }

    /// Resets the backoff of a task that succeeded.
    pub(super) fn succeeded(&mut self, task: &T) {
        self.failures.remove(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_comes_when_it_is_due_and_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut queue = TaskQueue::new();
        queue.add("b", at(2));
        queue.add("a", at(1));
        queue.add("b", at(3));
        assert_eq!(queue.next_due(), Some(at(1)));
        assert_eq!(queue.take(start), None);
        assert_eq!(queue.take(at(5)), Some("a"));
        assert_eq!(queue.take(at(5)), Some("b"));
        assert_eq!(queue.take(at(5)), None);
    }

    #[test]
    fn a_task_that_is_removed_does_not_come() {
        let start = Instant::now();
        let mut queue = TaskQueue::new();
        queue.add("a", start);
        queue.add("b", start);
        queue.remove(&"a");
        queue.remove(&"c");
        assert_eq!((queue.take(start), queue.take(start)), (Some("b"), None));
        assert!(queue.tasks.is_empty() && queue.places.is_empty());
    }

    #[test]
    fn an_earlier_time_wins() {
        let start = Instant::now();
        let mut queue = TaskQueue::new();
        queue.add("a", start + Duration::from_secs(9));
        queue.add("a", start);
        assert_eq!(queue.take(start), Some("a"));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn failures_wait_longer_each_time() {
        let start = Instant::now();
        let mut queue = TaskQueue::new();
        let mut last = start;
        for _ in 0..5 {
            queue.retry("a", start);
            let due = queue.next_due().unwrap();
            assert!(due > last);
            last = due;
            assert_eq!(queue.take(due), Some("a"));
        }
        queue.succeeded(&"a");
        queue.retry("a", start);
        assert_eq!(queue.next_due(), Some(start + Duration::from_millis(200)));
    }
}
