//! Server-side apply, and the record of field owners in `managedFields`.
//!
//! Every write is recorded in `metadata.managedFields`: per manager, the set of fields it set. A plain write takes
//! ownership of the fields it changes. An applied configuration is the complete intent of a manager: a field that it no
//! longer contains is removed, unless another manager owns it, and a field whose value differs from another owner's is
//! a conflict unless forced.
//!
//! [`FieldManager`] does both. Its parts, in reading order:
//! 1. [`FieldSet`]: a set of paths, kept in the shape it has on the wire.
//! 2. `element`: the steps of a path, such as `f:spec` or `k:{"name":"web"}`.
//! 3. `compare`: the difference of two objects. `extract`: the fields of a configuration.
//! 4. `merge` a configuration into an object, `prune` what it no longer sets.
//! 5. `record`: the entries of `managedFields`. `versions`: the versions they can name. `conflict`: the errors.
//!
//! Not here: defaults, validation, and which fields a strategy resets; the caller passes those in
//! ([`FieldManager::ignored`]).
//!
//! ```
//! use listwatch_merge::apply::{FieldManager, FieldSet, KindVersions};
//! use listwatch_merge::patch::Schemaless;
//! use listwatch_json::json;
//!
//! let (zero, ignored) = (json!({}), FieldSet::new());
//! let one = FieldManager {
//!     schema: Schemaless,
//!     zero: &zero,
//!     ignored: &ignored,
//!     versions: KindVersions::any(),
//!     manager: "one",
//!     api_version: "v1",
//!     subresource: "",
//!     now: "2026-01-01T00:00:00Z",
//! };
//! let config = |value| json!({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}, "size": value});
//! let thing = one.apply(None, &config(1), false)?.object;
//! assert_eq!(thing["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:size": {}}));
//!
//! let two = FieldManager { manager: "two", ..one };
//! let refused = two.apply(Some(&thing), &config(2), false).unwrap_err();
//! assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .size");
//! assert_eq!(two.apply(Some(&thing), &config(2), true)?.object["size"], 2);
//! # Ok::<(), listwatch_merge::apply::ApplyError>(())
//! ```

mod compare;
mod conflict;
mod element;
mod extract;
mod field_set;
mod last_applied;
mod manager;
mod merge;
mod node;
mod prune;
mod record;
#[cfg(test)]
mod tests;
mod validity;
mod versions;

pub use conflict::{ApplyError, Conflict};
pub use field_set::FieldSet;
pub use manager::{Applied, FieldManager, merge_unowned};
pub use record::{DEFAULT_MANAGER_MAX, manager_from_user_agent};
pub use validity::managed_fields_error;
pub use versions::{KindVersions, VersionSchema, undeclared_field};
