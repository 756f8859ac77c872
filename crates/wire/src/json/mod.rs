//! JSON three ways: strictly into a tree ([`parse()`]), canonically out of one ([`encode()`], [`encode_stored`]), and as
//! bytes that are walked without a tree ([`raw`]).
//!
//! Only writes pay for a tree. Reads, watches and caches stay with bytes.

mod encode;
mod parse;
pub mod raw;

pub use encode::{encode, encode_stored, write_string, write_value};
pub use parse::{MAX_DEPTH, ParseError, Parsed, check_syntax, parse};
