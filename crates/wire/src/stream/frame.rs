//! [`StreamFrame`]: the messages of the server in a stream.
//!
//! One line of JSON each. Events are the lines of ordinary watches with the name of their subscription around them, so
//! that neither end encodes an object again. Unknown frames are ignored, so that later servers may add frames. Messages
//! of clients are `message`; `docs/many-kinds.md` has the protocol.

use bytes::{BufMut, Bytes};
use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

use crate::Revision;
use crate::event::decoder::{excerpt, rest_is_empty};
use crate::event::lines::Lines;
use crate::event::{DecodeError, DecoderOptions, SUFFIX};
use crate::json::raw;
use crate::status::Status;

/// One line of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamFrame {
    /// The first frame.
    Stream(StreamHead),
    /// A subscription has begun.
    Started {
        /// Its identifier.
        subscription: String,
        /// The revision at which it begins, and the form of its events.
        start: SubscriptionStart,
    },
    /// An event of a subscription.
    Event {
        /// Its identifier.
        subscription: String,
        /// The line that an ordinary watch would have sent, without its newline. Shares the memory of the chunk it came in.
        event: Bytes,
    },
    /// A subscription has ended normally: by its timeout, or at the client's request.
    Ended {
        /// Its identifier.
        subscription: String,
    },
    /// A subscription was refused, or cannot continue.
    Failed {
        /// Its identifier.
        subscription: String,
        /// The reason.
        status: Box<Status>,
    },
    /// Every subscription has been sent everything up to here.
    Bookmark(Revision),
    /// A message could not be used. No subscription is affected.
    Error(Box<Status>),
    /// A frame of a later version of the protocol, to be passed over.
    Unknown,
}

/// The contents of the first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHead {
    /// The identifier of the stream, for requests that change it.
    pub id: String,
    /// The most watches that the stream carries at a time. A subscription counts once per namespace that it names.
    pub watches: usize,
}

/// The beginning of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStart {
    /// The position: that of the initial state if there is one, else the requested one.
    pub resource_version: String,
    /// The form of its events, like the `Content-Type` of an ordinary watch.
    pub content_type: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkBody {
    resource_version: String,
}

/// The bytes before an event of a subscription, whose identifier needs no escapes.
#[must_use]
pub fn event_prefix(subscription: &str) -> Bytes {
    format!("{{\"subscription\":\"{subscription}\",\"event\":").into()
}

/// Appends frames for the lines of an ordinary watch. `prefix` is that of [`event_prefix`].
///
/// ```
/// use listwatch_wire::stream::{enclose, event_prefix};
///
/// let mut out = Vec::new();
/// enclose(&event_prefix("a"), b"{\"type\":\"ADDED\",\"object\":{}}\n", &mut out);
/// assert_eq!(out, b"{\"subscription\":\"a\",\"event\":{\"type\":\"ADDED\",\"object\":{}}}\n");
/// ```
pub fn enclose(prefix: &[u8], lines: &[u8], out: &mut impl BufMut) {
    let mut from = 0;
    for end in memchr_iter(b'\n', lines) {
        let line = lines.get(from..end).unwrap_or_default();
        out.put_slice(prefix);
        out.put_slice(line);
        out.put_slice(SUFFIX);
        from = end + 1;
    }
}

impl StreamFrame {
    /// Appends the frame as a line. An event is appended by [`enclose`] instead, without being looked at.
    pub fn write(&self, out: &mut impl BufMut) {
        let line = match self {
            Self::Stream(head) => member(None, "stream", head),
            Self::Started { subscription, start } => member(Some(subscription), "started", start),
            Self::Event { subscription, event } => {
                out.put_slice(&event_prefix(subscription));
                out.put_slice(event);
                return out.put_slice(SUFFIX);
            }
            Self::Ended { subscription } => member(Some(subscription), "ended", &serde_json::json!({})),
            Self::Failed { subscription, status } => member(Some(subscription), "error", status),
            Self::Bookmark(revision) => {
                member(None, "bookmark", &BookmarkBody { resource_version: revision.to_string() })
            }
            Self::Error(status) => member(None, "error", status),
            Self::Unknown => return,
        };
        out.put_slice(line.as_bytes());
        out.put_slice(b"\n");
    }

    /// Reads a line. Members that are not known are ignored, so that later servers may add some.
    fn parse(line: &Bytes) -> Result<Self, DecodeError> {
        let malformed = || DecodeError::Malformed(excerpt(line));
        let (mut subscription, mut member) = (None, None);
        let mut fields = raw::fields(line, 0).ok_or_else(malformed)?;
        for field in &mut fields {
            let value = line.slice(field.value.clone());
            if field.is(line, "subscription") {
                subscription = Some(read::<String>(&value).ok_or_else(malformed)?);
            } else {
                let known = ["stream", "started", "event", "ended", "error", "bookmark"];
                member =
                    member.or(known.into_iter().find(|name| field.is(line, name)).map(|name| (name, value)));
            }
        }
        if !fields.is_complete() || !rest_is_empty(line, fields.position()) {
            return Err(malformed());
        }
        let Some((name, value)) = member else { return Ok(Self::Unknown) };
        Self::of(subscription, name, value).ok_or_else(malformed)
    }

    /// Returns the frame that a member describes. A combination that has no meaning is [`StreamFrame::Unknown`].
    fn of(subscription: Option<String>, name: &str, value: Bytes) -> Option<Self> {
        Some(match (subscription, name) {
            (None, "stream") => Self::Stream(read(&value)?),
            (None, "bookmark") => {
                Self::Bookmark(read::<BookmarkBody>(&value)?.resource_version.parse().ok()?)
            }
            (None, "error") => Self::Error(read(&value)?),
            (Some(subscription), "event") => Self::Event { subscription, event: value },
            (Some(subscription), "started") => Self::Started { subscription, start: read(&value)? },
            (Some(subscription), "ended") => Self::Ended { subscription },
            (Some(subscription), "error") => Self::Failed { subscription, status: read(&value)? },
            _ => Self::Unknown,
        })
    }
}

fn read<T: for<'de> Deserialize<'de>>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

/// `{"subscription":…,"name":value}`.
fn member(subscription: Option<&str>, name: &str, value: &impl Serialize) -> String {
    let value = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    match subscription {
        Some(id) => format!("{{\"subscription\":{},\"{name}\":{value}}}", serde_json::json!(id)),
        None => format!("{{\"{name}\":{value}}}"),
    }
}

/// Cuts a byte stream into frames, for any sequence of chunks. An event within one chunk is not copied.
#[derive(Debug)]
pub struct FrameDecoder(Lines);

impl Default for FrameDecoder {
    fn default() -> Self {
        // An event and the little that is around it.
        Self(Lines::new(DecoderOptions::default().max_event + (1 << 10)))
    }
}

impl FrameDecoder {
    /// Adds a chunk. Take all frames out before adding the next, or the chunks are copied together.
    pub fn push(&mut self, chunk: impl Into<Bytes>) {
        self.0.push(chunk.into());
    }

    /// The next frame, or `None` until more bytes are pushed.
    ///
    /// # Errors
    /// When a line is not a frame, or too long. The stream is of no use then.
    pub fn next_frame(&mut self) -> Result<Option<StreamFrame>, DecodeError> {
        self.0.next_line()?.map(|line| StreamFrame::parse(&line)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> String {
        "pods".to_owned()
    }

    #[test]
    fn every_frame_reads_back_as_it_was_written() {
        let start =
            SubscriptionStart { resource_version: "7".into(), content_type: "application/json".into() };
        let frames = [
            StreamFrame::Stream(StreamHead { id: "1f".into(), watches: 3 }),
            StreamFrame::Started { subscription: id(), start },
            StreamFrame::Event {
                subscription: id(),
                event: Bytes::from_static(br#"{"type":"ADDED","object":{}}"#),
            },
            StreamFrame::Ended { subscription: id() },
            StreamFrame::Failed { subscription: id(), status: Box::new(Status::no_such_path()) },
            StreamFrame::Bookmark(Revision(9)),
            StreamFrame::Error(Box::new(Status::bad_request("no"))),
        ];
        let mut text = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut text));
        for size in [1, 7, text.len()] {
            let mut decoder = FrameDecoder::default();
            let mut read = Vec::new();
            for chunk in text.chunks(size) {
                decoder.push(chunk.to_vec());
                while let Some(frame) = decoder.next_frame().unwrap() {
                    read.push(frame);
                }
            }
            assert_eq!(read, frames);
        }
    }

    #[test]
    fn lines_are_enclosed_one_by_one() {
        let mut out = Vec::new();
        enclose(&event_prefix("a"), b"{1}\n{2}\n", &mut out);
        assert_eq!(out, b"{\"subscription\":\"a\",\"event\":{1}}\n{\"subscription\":\"a\",\"event\":{2}}\n");
    }

    #[test]
    fn unknown_frames_are_passed_over_and_garbage_is_not() {
        let one = |line: &'static str| {
            let mut decoder = FrameDecoder::default();
            decoder.push(line.as_bytes());
            decoder.next_frame()
        };
        assert_eq!(one("{\"later\":1}\n"), Ok(Some(StreamFrame::Unknown)));
        for line in ["<html>\n", "{\"stream\":{}}\n", "{\"bookmark\":{\"resourceVersion\":\"x\"}}\n", "{}}\n"]
        {
            assert!(matches!(one(line), Err(DecodeError::Malformed(_))), "{line}");
        }
    }
}
