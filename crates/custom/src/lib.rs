//! Custom resource definitions: what a definition means for the objects stored under it.
//!
//! Pure functions on JSON values: no storage, no requests, no cache. The server asks this crate whether a definition
//! may be accepted, and then how to treat each object of its kind.
//!
//! In the order an object meets them:
//! 1. [`prune()`] drops what the schema does not know and names it for warnings;
//! 2. [`fill()`] drops nulls that are not values and sets defaults;
//! 3. [`validate()`] checks types, bounds, forms and duplicates, on update only what changed;
//! 4. [`Rules`] evaluates the expression rules;
//! 5. [`Columns`] prints a row of a Table.
//!
//! [`Definition`] reads and checks the definition itself, [`structural`] its schemas.

mod columns;
mod definition;
mod fill;
mod format;
mod keys;
mod prune;
mod rules;
mod schema;
pub mod structural;
mod validate;

pub use columns::Columns;
pub use definition::{
    ConversionWebhook, Definition, NameConflict, Names, Scope, Version, begin, name_conflicts,
    remember_version, set_condition, validate_create, validate_update, warnings,
};
pub use fill::fill;
pub use prune::prune;
pub use rules::Rules;
pub use schema::{Additional, Pattern, Schema};
pub use validate::validate;

#[cfg(test)]
mod tests {
    use crate::Schema;

    pub(crate) fn schema(json: listwatch_wire::json::Value) -> Schema {
        json.to_type().unwrap()
    }
}
