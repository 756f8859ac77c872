//! Label and field selectors: parsing with kube-apiserver's errors, printing, matching.
//!
//! Matching takes a function from a key to its value instead of an object, so that the watch cache can match without
//! decoding. Printing writes the canonical form, by which equal selectors of different text share an informer. The form
//! inside objects (`matchLabels`) is not here but in `listwatch_kinds`.

mod field;
mod label;
mod label_parser;

pub use field::{FieldSelector, FieldTerm, ParseFieldSelectorError};
pub use label::{LabelSelector, Operator, ParseLabelSelectorError, Requirement};
