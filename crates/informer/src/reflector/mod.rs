//! The reflector: feeds a delta queue with all changes of a collection, through all failures of the
//! connection.
//!
//! The rules are a state machine without IO, clock or randomness of its own ([`Machine`]); [`Reflector`] drives it with a
//! source, a timer and a queue.
//!
//! ```text
//!            refused, stalled                       list ok
//!  start ─► streaming ─────────► listing ─────────────────────► opening ◄────────┐
//!              │  ▲                 ▲                              │             │ closed, hung,
//!      initial │  │ early close     │ expired (410)                ▼             │ 429, broken
//!   events end │  └──── waiting ◄───┴────────────────────────── watching ────────┤
//!              └──────────────────────────────────────────────────►              ▼
//!                                                                             waiting
//! ```
//!
//! Its promises:
//! - It never goes back in time. A relist requests nothing older than what was seen; an older response is refused, and
//!   an event older than its predecessor is skipped. Only a consistent read can show that history itself restarted.
//! - It relists only when it must: the resource version expired, or the server cannot read an object. Everything
//!   else resumes the watch where it broke.
//! - Nothing is retried in a hot loop. Every way to fail is paced by one backoff, which starts again from its
//!   smallest delay only after a watch has stayed open for a while, and waits at least for the server's `Retry-After`.
//! - Every problem is reported, with what was done about it.

mod backoff;
mod collected;
mod driver;
mod failure;
mod machine;
mod options;
mod phase;
mod problem;
mod requests;
mod step;
mod stream;
mod transform;

pub use backoff::{Backoff, BackoffOptions};
pub(crate) use driver::Apply;
pub use driver::Reflector;
pub use machine::Machine;
pub use options::ReflectorOptions;
pub use problem::{Problem, ProblemResponse};
pub use step::{Action, Input, Listing, Output};
pub use transform::Transform;
