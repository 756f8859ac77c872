//! The options in the query of a request: [`ListOptions`], [`WriteOptions`], [`DeleteOptions`].
//!
//! Each is parsed from a [`Query`] (a 400 if it cannot be read), validated (a 422 naming every field), and renders
//! to a query again for clients. Unknown keys are ignored, as everywhere in this protocol.

mod delete;
mod list;
mod query;
mod write;

pub use delete::{DeleteOptions, Preconditions, Propagation};
pub use list::{ListOptions, VersionMatch};
pub use query::Query;
pub(crate) use query::QueryWriter;
pub use write::{FieldValidation, PatchType, WriteKind, WriteOptions};
