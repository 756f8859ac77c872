//! The tree of a JSON document: what writes are made of.
//!
//! A tree that shares. Copying a [`Value`] copies no more than a pointer, and changing the copy copies the containers on
//! the way to the change, nothing beside it. An update is made from the stored object, compared with it and validated
//! against it; with shared trees each of these costs what was changed, not what is there. Comparison looks at
//! pointers first for the same reason.
//!
//! Strings of up to 24 bytes, which nearly all keys and most values are, lie in the tree itself.
//!
//! The names and meanings of methods are those of `serde_json::Value`, with which it converts both ways
//! (the conversions and serde's traits are in `serde.rs`). It is not a general document type: numbers are
//! `serde_json::Number`, and keys are sorted.
//!
//! The invariant that all users rely on: a container is changed only while nobody else holds it. `Arc::make_mut` sees
//! to that, so there is no way to change a tree under a reader, and no lock.

mod convert;
mod list;
mod map;
mod serde;
pub mod steps;
mod value;

pub use compact_str::CompactString as Text;
pub use list::List;
pub use map::{Entry, Iter, IterMut, Map};
pub use value::Value;

/// A tree written as JSON with expressions in it, like the macro of the same name in `serde_json`.
///
/// ```
/// use listwatch_json::{Value, json};
/// let name = "a";
/// let object: Value = json!({"metadata": {"name": name}});
/// assert_eq!(object["metadata"]["name"], "a");
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __json {
    ($($tokens:tt)+) => { $crate::Value::from($crate::__private::json!($($tokens)+)) };
}
