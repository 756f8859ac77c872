//! JSON four ways: as a tree ([`Value`]), strictly into one ([`parse()`]), canonically out of one ([`encode()`],
//! [`encode_stored`]), and as bytes that are walked without a tree ([`raw`]).
//!
//! Only writes pay for a tree. Reads, watches and caches stay with bytes.
//!
//! It is not a general JSON library: keys are sorted, and error texts are those of Go's decoder ([`go`]), which users of
//! Kubernetes search for. Next: `listwatch_wire`, which builds statuses and events on it, and `listwatch_merge`, which
//! changes trees.
//!
//! Bounds: nesting is limited by [`MAX_DEPTH`] on the way in and checked again on the way out, because patches and
//! defaulting can make a tree deeper than any body. Nothing here limits the size of a text; the server does that
//! before it reads one.

mod bytes;
mod encode;
pub mod go;
mod parse;
pub mod raw;
mod skip_scalars;
mod spans;
mod tree;

pub use crate::__json as json;
pub use encode::{Encoded, encode, encode_after, encode_stored, write_string, write_value};
pub use parse::{MAX_DEPTH, ParseError, Parsed, check_syntax, parse, parse_merged};
pub use serde_json::Number;
pub use spans::{EarlierEncoding, Spans};
pub use tree::{Entry, Iter, IterMut, List, Map, Text, Value, steps};

#[doc(hidden)]
pub mod __private {
    pub use serde_json::json;
}
