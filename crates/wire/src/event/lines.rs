//! [`Lines`]: splits a body into lines, as bytes arrive.
//!
//! A line that lies within one chunk is a slice of it and is not copied. The length of a line is bounded, because a
//! server that never ends one would otherwise fill the memory of the client. `decoder` interprets the lines.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

use super::DecodeError;

/// Cuts a byte stream into lines that are not empty. Each byte is searched for a newline once, and a line within one chunk is
/// not copied.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The longest line in bytes.
    max: usize,
    /// Bytes that came last and are not yet searched.
    chunk: Bytes,
    /// The beginning of a line whose end is not there yet; holds no newline.
    partial: BytesMut,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, chunk: Bytes::new(), partial: BytesMut::new() }
    }

    /// Adds a chunk. Bytes are copied only if a line began in the chunk before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(self.chunk.len() + chunk.len());
            joined.extend_from_slice(&self.chunk);
            joined.extend_from_slice(&chunk);
            self.chunk = joined.freeze();
        }
    }

    /// The next line with its newline, or `None` until more bytes are pushed.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, DecodeError> {
        loop {
            let Some(end) = memchr(b'\n', &self.chunk) else {
                self.check_size(self.chunk.len())?;
                self.partial.extend_from_slice(&self.chunk);
                self.chunk.clear();
                return Ok(None);
            };
            self.check_size(end)?;
            let mut line = self.chunk.split_to(end + 1);
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&line);
                line = self.partial.split().freeze();
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    fn check_size(&self, more: usize) -> Result<(), DecodeError> {
        if self.partial.len() + more > self.max { Err(DecodeError::TooLarge(self.max)) } else { Ok(()) }
    }

    /// Says that the stream has ended: an error if that was within a line.
    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        let rest = [self.partial.as_ref(), self.chunk.as_ref()];
        if rest.iter().all(|bytes| bytes.trim_ascii().is_empty()) {
            Ok(())
        } else {
            Err(DecodeError::Truncated)
        }
    }
}
