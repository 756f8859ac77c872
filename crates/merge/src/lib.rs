//! The ways in which a request changes a stored object: patches and server-side apply.
//!
//! **It is** pure functions from trees to trees: JSON patch, JSON merge patch, strategic merge patch ([`patch`]), server-side
//! apply and the record of field owners in `metadata.managedFields` ([`apply`]).
//!
//! **It is not** a registry: there is no knowledge of any particular kind. The caller passes a [`patch::MergeSchema`],
//! which determines how lists merge. Clients do not need this crate: they send patches and never compute them.
//!
//! Next: the write pipeline of the server (`crates/server/src/pipeline`), which calls these functions.
//!
//! Results are bounded by the size of the input, except that a short patch can copy much: copies, moves and nesting
//! have limits ([`patch::JsonPatchLimits`]). Lists are merged through hash maps, so that no patch is quadratic in its
//! size.

pub mod apply;
pub mod patch;
