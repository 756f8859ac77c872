//! [`Revision`]: a position in the one order of all writes; the number behind `resourceVersion`.
//!
//! Clients treat a resourceVersion as opaque, apart from comparing two of one resource. Here it is a number, because the server
//! makes it and the informer compares it.

use std::fmt;
use std::str::FromStr;

/// A position in the one global order of writes, and on the wire a `resourceVersion`.
///
/// Every committed write has the next revision. Revisions of one store compare as positions; zero is before the first
/// write and never belongs to an object.
///
/// ```
/// use listwatch_wire::Revision;
///
/// let read: Revision = "41".parse()?;
/// assert!(read > Revision::ZERO && read.next() == Revision(42));
/// assert!("v41".parse::<Revision>().is_err());
/// # Ok::<(), listwatch_wire::ParseRevisionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "resourceVersion")]
pub struct Revision(pub u64);

impl Revision {
    /// The position before the first write. In a list request it means any version, and no object has it.
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
#[error("Invalid value: {quoted}: {problem}", quoted = crate::go::quote(.0), problem = crate::go::parse_uint(.0).err().unwrap_or_default())]
pub struct ParseRevisionError(pub String);

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        crate::go::parse_uint(text).map(Self).map_err(|_| ParseRevisionError(text.to_owned()))
    }
}
