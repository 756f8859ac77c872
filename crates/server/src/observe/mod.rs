//! What can be seen from outside: counters under the names that existing dashboards know, and every open watch.

mod histogram;
mod labels;
mod metrics;
mod requests;
mod watches;

pub(crate) use labels::Labels;
pub use metrics::Metrics;
pub(crate) use metrics::prometheus;
pub(crate) use requests::{Seat, Series};
pub use watches::Watches;
pub(crate) use watches::{WatchInfo, WatchTicket};
