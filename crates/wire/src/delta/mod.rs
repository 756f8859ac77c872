//! Delta watch: changes of objects as patches, with what makes it certain that both ends mean the same bytes.
//!
//! A server [compares](compare()) two encoded versions of an object and writes a [`DeltaFrame`]; a client reads it as a
//! [`DeltaEvent`] and [applies](DeltaEvent::apply) it to the bytes it holds. The patch is RFC 6902. Each operation also says
//! which bytes of the base it is about, so that a client that keeps bytes neither parses nor searches them. A checksum of
//! the result makes a wrong object impossible to miss.
//!
//! The format is specified in `docs/delta-watch.md`, with test vectors. Nothing here knows a connection or a cache.

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

/// The media type of a watch that sends deltas, as clients ask for it and servers answer.
pub const MEDIA_TYPE: &str = "application/json;stream=watch;delta=json-patch";

/// The value of the media type parameter `delta`.
pub const PARAMETER: &str = "json-patch";

/// The header of a delta watch: the form with deltas, and after it the plain one for servers that do not know it.
pub const ACCEPT: &str = "application/json;stream=watch;delta=json-patch,application/json";
