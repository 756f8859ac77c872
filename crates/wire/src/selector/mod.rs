//! Label and field selectors: parsing with kube-apiserver's errors, printing, matching.
//!
//! Both know nothing of objects: matching takes a function from a key to the value found there.

mod field;
mod label;
mod label_parser;

pub use field::{FieldSelector, FieldTerm, ParseFieldSelectorError};
pub use label::{LabelSelector, Operator, ParseLabelSelectorError, Requirement};
