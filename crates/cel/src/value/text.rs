//! [`Str`]: strings that are borrowed from an object or shared.
//!
//! Most strings of an evaluation are read from the object or the expression and compared, so copying them would be the
//! largest cost of many rules. Computed strings are reference-counted, because values are cloned on every access of a
//! variable.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A string, borrowed or shared. Copying it never copies its text.
///
/// Two words and a tag; dereferences to `str`, so most code does not care which it is.
#[derive(Clone)]
pub enum Str<'a> {
    /// A string of an object or an expression.
    Borrowed(&'a str),
    /// A string that was computed.
    Shared(Arc<str>),
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for Str<'_> {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}
