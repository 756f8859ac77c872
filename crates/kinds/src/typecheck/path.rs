//! The way to a value, kept on the stack of the walk and written only when something is wrong.

use std::fmt;

/// A list of steps, each pointing at the one before it.
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Entry(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// A field of a struct.
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// A key of a map.
    pub(super) fn entry(&'a self, key: &'a str) -> Path<'a> {
        Path::Entry(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// The fields alone, as Go's decoder names a place: no list positions, no keys of maps.
    pub(super) fn fields_only(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Index(parent, _) | Path::Entry(parent, _) => parent.fields_only(),
            Path::Field(parent, name) => {
                let parent = parent.fields_only();
                if parent.is_empty() { (*name).to_owned() } else { format!("{parent}.{name}") }
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) | Path::Entry(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
