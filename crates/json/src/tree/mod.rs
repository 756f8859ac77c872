//! The tree of a JSON document, on which writes work.
//!
//! Copies share their containers. Cloning a [`Value`] copies a pointer, and changing the clone copies only the
//! containers on the path to the change. An update is made from the stored object, compared with it and validated
//! against it; with shared trees the cost of each step depends on the change and not on the size of the object.
//! Comparison looks at pointers first for the same reason.
//!
//! Strings of up to 24 bytes, which nearly all keys and most values are, are stored inline.
//!
//! The names and meanings of methods are those of `serde_json::Value`, with which it converts both ways
//! (the conversions and serde's traits are in `serde.rs`). It is not a general document type: numbers are
//! `serde_json::Number`, and keys are sorted.
//!
//! The invariant that all users rely on: a shared container is never changed in place. `Arc::make_mut` ensures it, so a
//! tree cannot change under a reader, and no lock is needed.

mod convert;
mod list;
mod map;
mod serde;
mod share;
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
