//! Metrics under the names that existing dashboards know, and the list of open watches.

mod histogram;
mod labels;
mod metrics;
mod process;
mod recent_errors;
mod requests;
mod tasks;
mod watches;

pub(crate) use labels::{Labels, escape};
pub use metrics::Metrics;
pub(crate) use metrics::{family, line, prometheus};
pub(crate) use process::write as write_process;
pub(crate) use recent_errors::{RecentErrors, RequestError};
pub(crate) use requests::RequestSeries;
pub use tasks::Tasks;
pub use watches::Watches;
pub(crate) use watches::{WatchBacklog, WatchInfo, WatchTicket};
