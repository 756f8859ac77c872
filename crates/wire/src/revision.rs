//! [`Revision`]: a position in the one order of all writes.

use std::fmt;
use std::str::FromStr;

/// A position in the one global order of writes, and on the wire a `resourceVersion`.
///
/// Every committed write has the next revision. Revisions of one store compare as positions; zero stands before
/// the first write and never belongs to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write.
    pub const ZERO: Self = Self(0);

    /// The revision of the write that follows this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A `resourceVersion` that is not a decimal number of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid value: {0:?}: not a decimal resource version")]
pub struct ParseRevisionError(pub String);

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // `u64::from_str` takes a leading plus sign, which no resource version has.
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| digits).map(Self).ok_or_else(|| ParseRevisionError(text.to_owned()))
    }
}
