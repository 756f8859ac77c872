//! Vectored writes of HTTP/1.1: one system call, and as few TLS records as possible, for a batch of shared buffers.
//!
//! A watch event is a reference-counted frame that many watchers share. Copying it into a write buffer per connection
//! would cost what the shared frame saves, so chunk head, frames and chunk end are written as slices. A whole batch
//! is one chunk.
//!
//! Deadlines are the caller's ([`super::connection`]).

use std::io::{self, IoSlice};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Writes all pieces in order, however many partial writes that takes.
///
/// # Errors
/// `WriteZero` if the connection takes nothing more, and the errors of the connection. The number of bytes written is
/// then unknown.
pub(crate) async fn write_pieces<S: AsyncWrite + Unpin>(io: &mut S, pieces: &[&[u8]]) -> io::Result<()> {
    let mut slices: SmallVec<[IoSlice<'_>; 8]> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    write_slices(io, &mut slices).await
}

/// Writes all slices with as few system calls as the peer allows.
async fn write_slices<S: AsyncWrite + Unpin>(io: &mut S, mut rest: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match io.write_vectored(rest).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => IoSlice::advance_slices(&mut rest, n),
        }
    }
    Ok(())
}

/// Writes frames as one chunk. One chunk for a whole batch keeps the overhead of HTTP to a few bytes per batch.
pub(crate) async fn write_chunk<S: AsyncWrite + Unpin>(io: &mut S, frames: &[Bytes]) -> io::Result<()> {
    let length: usize = frames.iter().map(Bytes::len).sum();
    if length == 0 {
        return Ok(());
    }
    let mut head = [0u8; 18];
    let head = chunk_head(&mut head, length);
    let mut slices: SmallVec<[IoSlice<'_>; 8]> = SmallVec::with_capacity(frames.len() + 2);
    slices.push(IoSlice::new(head));
    slices.extend(frames.iter().map(|frame| IoSlice::new(frame)));
    slices.push(IoSlice::new(b"\r\n"));
    write_slices(io, &mut slices).await
}

/// The chunk of length zero that ends a chunked body, without trailers.
pub(crate) const END: &[u8] = b"0\r\n\r\n";

/// The length of a chunk in hexadecimal, written into a buffer on the stack.
fn chunk_head(space: &mut [u8; 18], length: usize) -> &[u8] {
    use std::io::Write;
    let mut rest = &mut space[..];
    // Sixteen hex digits and the line end are the longest a usize can be.
    let left = match write!(rest, "{length:x}\r\n") {
        Ok(()) => rest.len(),
        Err(_) => 0,
    };
    space.split_at(18 - left).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_batch_is_one_chunk() {
        let mut out = Vec::new();
        write_chunk(&mut out, &[Bytes::from_static(b"hello "), Bytes::from_static(b"there you")])
            .await
            .unwrap();
        write_chunk(&mut out, &[]).await.unwrap();
        assert_eq!(out, b"f\r\nhello there you\r\n");
    }
}
