//! How an object changes: JSON patch, JSON merge patch, strategic merge patch.
//!
//! The first two need nothing but the object; the schema-driven ones ask a [`Schema`].

mod schema;

pub use schema::{ListKind, MapKind, PatchStrategy, Schema};
