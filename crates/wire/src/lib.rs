//! What a list-watch server and its clients agree on: no IO, no async.

mod revision;

pub use revision::{ParseRevisionError, Revision};
