//! Tower layers for any `kube::Client`, with what client-go's REST client does around each request.
//!
//! ```no_run
//! use std::sync::Arc;
//! use kube::client::ClientBuilder;
//! use listwatch::kube::layers::{RateLimit, RateLimitLayer, WarningLayer};
//!
//! # fn example(config: kube::Config) -> Result<(), kube::Error> {
//! let limit = Arc::new(RateLimit::new(50.0, 100));
//! let client = ClientBuilder::try_from(config)?
//!     .with_layer(&RateLimitLayer::new(limit))
//!     .with_layer(&WarningLayer::new(|text| eprintln!("server warns: {text}")))
//!     .build();
//! # Ok(())
//! # }
//! ```

mod rate_limit;
mod warning;

pub use rate_limit::{RateLimit, RateLimitLayer, RateLimited};
pub use warning::{WarningLayer, Warnings};
