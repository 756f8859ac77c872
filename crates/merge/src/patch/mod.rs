//! Patches: JSON patch, JSON merge patch, strategic merge patch.
//!
//! The first two need nothing but the object; the strategic one takes the keys by which lists are merged from a [`MergeSchema`].
//! Server-side apply, which also records field owners, is [`crate::apply`].
//!
//! Patches take the object they change as a tree and leave it untouched if they fail.
//!
//! The caller decodes, defaults and validates the result; unknown fields are not detected here.

mod error;
mod json_patch;
mod merge;
mod schema;
mod strategic;

pub use error::PatchError;
pub use json_patch::{JsonPatch, JsonPatchLimits};
pub use merge::{merge_patch, parse_object_patch};
pub use schema::{ListKeys, ListKind, MapKind, MergeSchema, PatchStrategy, Schemaless, Shape};
pub use strategic::strategic_merge_patch;
