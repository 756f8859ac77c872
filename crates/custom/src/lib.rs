//! CustomResourceDefinitions and the handling of their objects: pruning, defaulting, validation, CEL rules, printer
//! columns.
//!
//! Pure functions on JSON values: no storage, no requests, no cache. The server calls it to validate a definition, and
//! then for each object of its kind.
//!
//! In the order in which they are applied to an object:
//! 1. [`prune()`] drops unknown fields and returns their names for warnings;
//! 2. [`fill()`] drops nulls that are not values and sets defaults;
//! 3. [`validate()`] checks types, bounds, forms and duplicates, on update only what changed;
//! 4. [`Rules`] evaluates the expression rules;
//! 5. [`Columns`] prints a row of a Table.
//!
//! [`Definition`] reads and checks the definition itself, [`structural`] its schemas.
//!
//! Everything runs on a write, or once when a definition changes. Reads of stored objects need only [`prune()`] and
//! [`fill()`]. Walks over an object recurse along its schema, whose depth is bounded by [`structural::MAX_DEPTH`];
//! lists of errors and of unknown fields are bounded, so a hostile object costs no more than its size.
//!
//! The packages of kube-apiserver's apiextensions-apiserver are steps here: `pruning`, `defaulting`, `listtype` and
//! `cel` of its `schema` folder. Server-side apply reads [`Schema`] through a trait of `listwatch-merge`, which the
//! server implements. Conversion between versions, names in discovery and the lifecycle of a definition are implemented
//! in the server, too.

mod align;
mod columns;
mod definition;
mod fill;
mod format;
mod prune;
mod rules;
mod schema;
pub mod structural;
mod validate;

pub use align::aligned;
pub use columns::Columns;
pub use definition::{
    ConversionWebhook, Definition, DefinitionScope, DefinitionVersion, NameConflict, Names, begin,
    name_conflicts, remember_version, set_approval_condition, set_condition, validate_create,
    validate_update, warnings,
};
pub use fill::{fill, fill_applied};
pub use prune::prune;
pub use rules::Rules;
pub use schema::{Additional, Allowed, Pattern, Schema};
pub use validate::validate;

#[cfg(test)]
mod tests {
    use crate::Schema;

    pub(crate) fn schema(json: listwatch_wire::json::Value) -> Schema {
        json.to_type().unwrap()
    }
}
