//! Delta watch: changes of objects as patches, with checksums that verify that both ends have the same bytes.
//!
//! A server [compares](compare()) two encoded versions of an object and writes a [`DeltaFrame`]; a client reads it as a
//! [`DeltaEvent`] and [applies](DeltaEvent::apply) it to the bytes it holds. The patch is RFC 6902. Each operation also
//! names the byte range of the base that it replaces, so that a client that keeps bytes neither parses nor searches them. A
//! checksum of the result detects a wrong object.
//!
//! The format is specified in `docs/delta-watch.md`, with test vectors. Connections and caches are the caller's.

mod compare;
mod event;
mod frame;
mod members;
mod outline;
mod splice;

pub use compare::{Compared, Edit, EditOp, compare, compare_outlined};
pub use event::{DeltaError, DeltaEvent};
pub use frame::{DeltaFrame, Insertion, checksum, patch_document};
pub use outline::Outline;

/// The media type of a watch that sends deltas, in the `Accept` of requests and the `Content-Type` of responses.
pub const MEDIA_TYPE: &str = "application/json;stream=watch;delta=json-patch";

/// The value of the media type parameter `delta`.
pub const PARAMETER: &str = "json-patch";

/// The `Accept` header of a delta watch: deltas first, then plain JSON for servers without them.
pub const ACCEPT: &str = "application/json;stream=watch;delta=json-patch,application/json";
