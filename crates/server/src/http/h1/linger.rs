//! Closing while the client is still sending.
//!
//! A connection that is closed with bytes unread is reset by the kernel, and a reset discards what the client has not
//! read yet, which is the response with the reason. So only the sending side is closed, and what the client still sends is
//! read and discarded until it closes the connection, within a bound of time and bytes.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// A body a little above the limit, over a slow line, ends within this time; a client that reads while it
/// sends needs one round trip.
const TIME: Duration = Duration::from_secs(10);
/// The most bytes that are read and discarded: several times the longest body allowed. A client that sends more has
/// had time to read the response.
const BYTES: u64 = 16 << 20;
/// The bytes that are discarded at a time.
const BUFFER: usize = 16 << 10;

/// Reads until the client closes, or one of the bounds is met. Our side has been shut down before.
pub(super) async fn linger<S: AsyncRead + Unpin>(io: &mut S) {
    let _ = timeout(TIME, discard(io)).await;
}

/// Reads and discards what the client still sends, within a bound, so that it gets to read the response before the
/// connection is reset.
async fn discard<S: AsyncRead + Unpin>(io: &mut S) {
    let mut buffer = vec![0; BUFFER];
    let mut left = BYTES;
    while left > 0 {
        match io.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => left = left.saturating_sub(read as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn both_bounds_hold() {
        let (mut ours, mut silent) = tokio::io::duplex(64);
        let began = Instant::now();
        linger(&mut ours).await;
        assert_eq!(began.elapsed(), TIME, "nobody waits longer for a client that says nothing");
        silent.write_all(b"x").await.unwrap();
        let mut endless = tokio::io::repeat(b'x');
        let began = Instant::now();
        linger(&mut endless).await;
        assert!(began.elapsed() < TIME, "nor for one that never stops");
    }
}
