//! [`StackPath`]: the path to a value, kept on the stack of the walk and written out only if something is wrong.
//!
//! Building a string per field would be most of the cost of checking an object that is correct. Two forms are needed:
//! the full path for unknown fields, and Go's form for type errors, without list positions and map keys.

use std::fmt;

/// A list of steps, each pointing at the one before it.
pub(super) enum StackPath<'a> {
    Root,
    Field(&'a StackPath<'a>, &'a str),
    Entry(&'a StackPath<'a>, &'a str),
    Index(&'a StackPath<'a>, usize),
}

impl<'a> StackPath<'a> {
    /// A field of a struct.
    pub(super) fn field(&'a self, name: &'a str) -> StackPath<'a> {
        StackPath::Field(self, name)
    }

    /// A key of a map.
    pub(super) fn entry(&'a self, key: &'a str) -> StackPath<'a> {
        StackPath::Entry(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> StackPath<'a> {
        StackPath::Index(self, index)
    }

    /// The fields alone, as Go's decoder names a place: no list positions, no keys of maps.
    pub(super) fn fields_only(&self) -> String {
        match self {
            StackPath::Root => String::new(),
            StackPath::Index(parent, _) | StackPath::Entry(parent, _) => parent.fields_only(),
            StackPath::Field(parent, name) => {
                let parent = parent.fields_only();
                if parent.is_empty() { (*name).to_owned() } else { format!("{parent}.{name}") }
            }
        }
    }
}

impl fmt::Display for StackPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackPath::Root => Ok(()),
            StackPath::Field(StackPath::Root, name) => f.write_str(name),
            StackPath::Field(parent, name) | StackPath::Entry(parent, name) => write!(f, "{parent}.{name}"),
            StackPath::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
