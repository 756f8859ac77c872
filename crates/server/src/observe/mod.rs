//! What can be seen from outside: counters under the names that existing dashboards know, and every open watch.

mod metrics;
mod watches;

pub use metrics::Metrics;
pub(crate) use metrics::prometheus;
pub use watches::Watches;
pub(crate) use watches::{WatchInfo, WatchTicket};
