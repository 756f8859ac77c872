//! [`Frames`]: the frames of an open stream, decoded as they arrive.
//!
//! Pairs the chunks of a body with the decoder of `listwatch_wire::stream`, which bounds the length of a frame.
//! Subscriptions are handled in `connection`.

use listwatch_wire::stream::{FrameDecoder, StreamFrame};

use crate::kube::body::Chunks;
use crate::lister_watcher::SourceError;

/// The frames of an open stream.
pub(super) struct Frames {
    chunks: Chunks,
    decoder: FrameDecoder,
}

impl Frames {
    /// Frames of a body, with what the decoder has already taken of it.
    pub(super) fn new(chunks: Chunks, decoder: FrameDecoder) -> Self {
        Self { chunks, decoder }
    }

    /// Waits for the next frame; none at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Result<StreamFrame, SourceError>> {
        loop {
            match self.ready() {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
            match self.chunks.next().await? {
                Ok(chunk) => self.decoder.push(chunk),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// A frame that has come already.
    pub(super) fn ready(&mut self) -> Result<Option<StreamFrame>, SourceError> {
        // The line is not quoted: a part of an event may be a part of a secret.
        let malformed = |_| SourceError::Malformed("a line that is no frame of a stream".to_owned());
        self.decoder.next_frame().map_err(malformed)
    }
}
