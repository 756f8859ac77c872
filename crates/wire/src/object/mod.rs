//! Objects as bytes, with the few fields that caches, selectors and indexes need.
//!
//! [`RawObject`] holds the bytes and a header found in one pass over them. [`splice_resource_version`] turns the stored
//! form, which has no resource version, into the served one.

mod header;
mod scan;
mod splice;

pub use header::{FieldPath, RawObject, ScanError};
pub use splice::splice_resource_version;
