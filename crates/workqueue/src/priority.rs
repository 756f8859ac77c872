//! [`Priority`]: the urgency of a key.
//!
//! There are three levels and not integers as in controller-runtime's priority queue: one ready list per level makes
//! taking a key constant time, and three suffice to let live changes pass a resync. A level is a property of the queued
//! key and not of its consumer; it is raised, never lowered, while the key waits.

/// The urgency of an added key. A key that is added twice keeps the more urgent of the two.
///
/// Levels are strict: a key is handed out only when no key of a more urgent level is ready, so that an initial
/// sync or a resync (added as [`Priority::Background`]) never delays a live change. If live changes can saturate the
/// workers for ever, give the lower levels a share with [`Options::background_every`](crate::Options::background_every).
///
/// ```
/// use listwatch_workqueue::{Options, Priority, Queue};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue: Queue<&str> = Queue::new(Options::new());
/// queue.add_with("resynced", (), Priority::Background)?;
/// queue.add("changed")?;
/// assert_eq!(queue.try_get().map(|item| *item.key()), Some("changed"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
#[doc(alias = "priorityqueue")]
pub enum Priority {
    /// Before everything else: a person waits for it.
    Urgent = 0,
    /// A live change. The default of [`Queue::add`](crate::Queue::add).
    #[default]
    Normal = 1,
    /// Work that must happen but is not urgent: initial lists, resyncs.
    Background = 2,
}

impl Priority {
    /// From the most to the least urgent.
    pub(crate) const ALL: [Self; 3] = [Self::Urgent, Self::Normal, Self::Background];
}
