//! Helpers of the fuzz targets: the split of one input into two, and the choice of a kind by it.
//!
//! Inputs are plain bytes, so that the files in `seeds/` can be read and written by people.

use listwatch_kinds::Kind;

/// The parts of an input before and after its first zero byte. Text has none.
#[must_use]
pub fn two(input: &[u8]) -> (&[u8], &[u8]) {
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    (&input[..at], input.get(at + 1..).unwrap_or_default())
}

/// The kind with this name; for other names any kind.
#[must_use]
pub fn kind(name: &[u8]) -> &'static Kind {
    let kinds = listwatch_kinds::all();
    let any = name.iter().fold(0, |sum, byte| (sum * 31 + usize::from(*byte)) % kinds.len());
    kinds.iter().find(|kind| kind.kind.as_bytes() == name).unwrap_or(&kinds[any])
}
