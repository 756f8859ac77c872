//! Metrics under the names that existing dashboards know, the list of open watches, background tasks and recent
//! errors.
//!
//! It takes plain labels and values and depends on no requests or objects, so that every other module may use it.
//! Counters are atomics next to the work and the text form is written on each scrape; nothing is sampled in between.
//! Names and labels of kube-apiserver are used where the meaning is the same, those of this server begin with
//! `listwatch_`. Served by `endpoints/metrics.rs` and `endpoints/debug.rs`.

mod histogram;
mod labels;
mod metrics;
mod native_histogram;
mod process;
mod processor_time;
mod recent_errors;
mod requests;
mod tasks;
mod watches;

pub(crate) use histogram::LatencyHistogram;
pub(crate) use labels::{COMPONENT, Labels, escape};
pub use metrics::ServerMetrics;
pub(crate) use metrics::{NativeHistograms, family, line, native_histograms, prometheus};
pub(crate) use native_histogram::NativeHistogram;
pub(crate) use process::{started_at, write as write_process};
pub(crate) use processor_time::{exceeds, timed};
pub(crate) use recent_errors::{RecentErrors, RequestError};
pub(crate) use requests::{LastingRequest, RequestSeries};
pub use tasks::Tasks;
pub use watches::Watches;
pub(crate) use watches::{WatchBacklog, WatchInfo, WatchTicket};
