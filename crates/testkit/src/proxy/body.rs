//! [`Faulty`]: a response body that passes another one on until it breaks off.
//!
//! Places are counted in bytes or lines, because where a watch breaks matters: between two events, or inside one.
//! Before a cut hyper gets one turn to send what it has buffered; without it, data that the plan let pass would be lost
//! with the connection and the test would check another fault than it names.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Sleep;

use super::{Cut, Place, Then};

type BodyFailure = Box<dyn std::error::Error + Send + Sync>;

/// A body on its way to the client.
///
/// Passes data through without a copy; only the place of the fault is searched for.
#[derive(Debug)]
pub struct Faulty {
    inner: UnsyncBoxBody<Bytes, BodyFailure>,
    breaking: Option<(Place, Then)>,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Data that came in together with the place of a stall and has to follow it.
    held: Bytes,
    ended: bool,
    /// Before a cut hyper is polled once more to send its buffer, which it drops together with the connection.
    sent: bool,
}

impl Faulty {
    /// A body that passes through without a fault.
    pub(super) fn whole<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyFailure>,
    {
        let inner = body.map_err(Into::into).boxed_unsync();
        Self { inner, breaking: None, stalled: None, held: Bytes::new(), ended: false, sent: false }
    }

    /// Breaks at a place, in a way.
    pub(super) fn breaking(mut self, place: Place, then: Then) -> Self {
        self.breaking = Some((place, then));
        self
    }

    /// Passes on what comes before the place, and arranges for what happens there.
    fn pass(&mut self, mut data: Bytes) -> Bytes {
        let Some((place, then)) = self.breaking else { return data };
        match advance(place, &data) {
            BodyProgress::Before(place) => self.breaking = Some((place, then)),
            BodyProgress::Reached(at) => {
                self.held = data.split_off(at);
                if let Then::Stall(time) = then {
                    self.breaking = None;
                    self.stalled = Some(Box::pin(tokio::time::sleep(time)));
                } else {
                    self.held = Bytes::new();
                    self.ended = true;
                }
            }
        }
        data
    }
}

/// The progress of a body towards its place.
#[derive(Debug, PartialEq, Eq)]
enum BodyProgress {
    Before(Place),
    Reached(usize),
}

/// The progress of a body after some data, for faults at a number of bytes or lines.
///
/// `InsideLine` waits until a piece of the next line has come, since a cut needs something to be inside of.
fn advance(place: Place, data: &[u8]) -> BodyProgress {
    match place {
        Place::Bytes(left) => match usize::try_from(left) {
            Ok(left) if left <= data.len() => BodyProgress::Reached(left),
            _ => BodyProgress::Before(Place::Bytes(left - data.len() as u64)),
        },
        Place::Lines(left) => match after_lines(left, data) {
            Ok(at) => BodyProgress::Reached(at),
            Err(left) => BodyProgress::Before(Place::Lines(left)),
        },
        Place::InsideLine(left) => match after_lines(left, data) {
            Ok(at) if at < data.len() => {
                let line = data.iter().skip(at).position(|byte| *byte == b'\n').unwrap_or(data.len() - at);
                BodyProgress::Reached(at + line.div_ceil(2))
            }
            Ok(_) => BodyProgress::Before(Place::InsideLine(0)),
            Err(left) => BodyProgress::Before(Place::InsideLine(left)),
        },
    }
}

/// The position at which the given number of lines ends, or the number of those still to come.
fn after_lines(lines: u64, data: &[u8]) -> Result<usize, u64> {
    if lines == 0 {
        return Ok(0);
    }
    let mut left = lines;
    for (at, _) in data.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        left -= 1;
        if left == 0 {
            return Ok(at + 1);
        }
    }
    Err(left)
}

impl Body for Faulty {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        let this = self.get_mut();
        if this.ended {
            let cut = matches!(this.breaking, Some((_, Then::Cut)));
            if cut && !std::mem::replace(&mut this.sent, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(cut.then(|| Err(Cut.into())));
        }
        if let Some(sleep) = &mut this.stalled {
            ready!(sleep.as_mut().poll(context));
            this.stalled = None;
        }
        if !this.held.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.held)))));
        }
        let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(frame.map(|frame| match frame.into_data() {
            Ok(data) => Frame::data(this.pass(data)),
            Err(frame) => frame,
        })))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::StreamBody;

    use super::*;

    fn body(pieces: &'static [&'static str]) -> Faulty {
        let frames = pieces
            .iter()
            .map(|piece| Ok::<_, BodyFailure>(Frame::data(Bytes::from_static(piece.as_bytes()))));
        Faulty::whole(StreamBody::new(futures::stream::iter(frames)))
    }

    /// Everything that came, and whether the end was a failure.
    async fn read(mut body: Faulty) -> (String, bool) {
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap()),
                Err(_) => return (text, true),
            }
        }
        (text, false)
    }

    const EVENTS: &[&str] = &["one\ntwo", "\nthree\nfo", "ur\n"];

    #[tokio::test]
    async fn a_body_without_a_fault_passes_whole() {
        assert_eq!(read(body(EVENTS)).await, ("one\ntwo\nthree\nfour\n".into(), false));
    }

    #[tokio::test]
    async fn a_body_breaks_off_at_its_place_whatever_the_pieces() {
        let cases = [
            (Place::Bytes(0), ""),
            (Place::Bytes(9), "one\ntwo\nt"),
            (Place::Lines(2), "one\ntwo\n"),
            (Place::InsideLine(0), "on"),
            (Place::InsideLine(2), "one\ntwo\nthr"),
        ];
        for (place, text) in cases {
            assert_eq!(read(body(EVENTS).breaking(place, Then::Cut)).await, (text.into(), true), "{place:?}");
            assert_eq!(
                read(body(EVENTS).breaking(place, Then::End)).await,
                (text.into(), false),
                "{place:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_place_that_is_never_reached_changes_nothing() {
        let whole = ("one\ntwo\nthree\nfour\n".into(), false);
        assert_eq!(read(body(EVENTS).breaking(Place::Lines(9), Then::Cut)).await, whole);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_goes_on_where_it_stood() {
        let start = tokio::time::Instant::now();
        let stalled = body(EVENTS).breaking(Place::InsideLine(1), Then::Stall(Duration::from_secs(7)));
        assert_eq!(read(stalled).await, ("one\ntwo\nthree\nfour\n".into(), false));
        assert_eq!(start.elapsed(), Duration::from_secs(7));
    }
}
