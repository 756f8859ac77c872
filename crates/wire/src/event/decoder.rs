//! [`Decoder`]: splits the body of a watch into events, as bytes arrive.
//!
//! An event may be cut anywhere, and several may come at once. The object of an event stays bytes; the caller decodes it, or
//! does not. A line is bounded, so that a server cannot fill the memory of a client.

use bytes::Bytes;

use super::EventType;
use super::lines::Lines;
use crate::json::raw;

/// Bounds of a [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderOptions {
    /// The longest event in bytes. The default of 16 MiB is several times what any server stores as one object; it
    /// bounds what a peer that never sends a newline can make us hold.
    pub max_event: usize,
    /// Accept events that have a `delta` instead of an object. A server sends them only on request.
    pub deltas: bool,
}

impl Default for DecoderOptions {
    fn default() -> Self {
        Self { max_event: 16 << 20, deltas: false }
    }
}

/// An event with its object left as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "watch.Event")]
pub struct WireEvent {
    /// The type of the event.
    pub event_type: EventType,
    /// The object. Shares the memory of the chunk it came in; copy it if it is to be kept for long.
    pub object: Bytes,
    /// True if `object` is a [delta](crate::delta) instead of a whole object.
    pub is_delta: bool,
}

/// The reason that a stream is not a watch stream. Nothing more can be decoded; connect again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No newline within [`DecoderOptions::max_event`] bytes.
    #[error("watch event of more than {0} bytes")]
    TooLarge(usize),
    /// A line that is not a JSON object with a type and an object.
    #[error("malformed watch event: {0}")]
    Malformed(String),
    /// A type that is none of the protocol's.
    #[error("unknown watch event type {0}")]
    UnknownType(String),
    /// The stream ended within an event.
    #[error("watch stream ended within an event")]
    Truncated,
}

/// Cuts a byte stream into events, for any sequence of chunks.
///
/// Each byte is searched for a newline once. An event within one chunk is not copied.
///
/// ```
/// use listwatch_wire::event::{Decoder, EventType};
///
/// let mut decoder = Decoder::default();
/// decoder.push(&b"{\"type\":\"ADDED\",\"obj"[..]);
/// assert_eq!(decoder.next_event()?, None);
/// decoder.push(&b"ect\":{}}\n"[..]);
/// let event = decoder.next_event()?.unwrap();
/// assert_eq!((event.event_type, &event.object[..]), (EventType::Added, &b"{}"[..]));
/// decoder.finish()?;
/// # Ok::<(), listwatch_wire::event::DecodeError>(())
/// ```
#[derive(Debug)]
#[doc(alias = "streamwatcher")]
pub struct Decoder {
    deltas: bool,
    lines: Lines,
    failed: Option<DecodeError>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(DecoderOptions::default())
    }
}

impl Decoder {
    /// A decoder with other bounds.
    #[must_use]
    pub fn new(options: DecoderOptions) -> Self {
        Self { deltas: options.deltas, lines: Lines::new(options.max_event), failed: None }
    }

    /// Adds a chunk. Take all events out before adding the next, or the chunks are copied together.
    pub fn push(&mut self, chunk: impl Into<Bytes>) {
        self.lines.push(chunk.into());
    }

    /// The next event, or `None` until more bytes are pushed.
    ///
    /// # Errors
    /// See [`DecodeError`]; once failed, always failed.
    pub fn next_event(&mut self) -> Result<Option<WireEvent>, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let deltas = self.deltas;
        let result = self.lines.next_line().and_then(|line| line.map(|line| parse(line, deltas)).transpose());
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Says that the stream has ended.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it ended within an event.
    pub fn finish(&self) -> Result<(), DecodeError> {
        self.lines.finish()
    }
}

/// Reads a line without parsing the object in it.
fn parse(line: Bytes, deltas: bool) -> Result<WireEvent, DecodeError> {
    let malformed = || DecodeError::Malformed(excerpt(&line));
    let (mut event_type, mut object, mut is_delta) = (None, None, false);
    let mut fields = raw::fields(&line, 0).ok_or_else(malformed)?;
    for field in &mut fields {
        if field.is(&line, "type") {
            event_type = line.get(field.value).map(<[u8]>::trim_ascii);
        } else if field.is(&line, "object") {
            (object, is_delta) = (Some(field.value), false);
        } else if deltas && object.is_none() && field.is(&line, "delta") {
            (object, is_delta) = (Some(field.value), true);
        }
    }
    if !fields.is_complete() || !rest_is_empty(&line, fields.position()) {
        return Err(malformed());
    }
    let (Some(text), Some(object)) = (event_type, object) else { return Err(malformed()) };
    let name = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\"")).ok_or_else(malformed)?;
    let event_type = EventType::parse(name)
        .ok_or_else(|| DecodeError::UnknownType(String::from_utf8_lossy(name).into_owned()))?;
    Ok(WireEvent { event_type, object: line.slice(object), is_delta })
}

pub(crate) fn rest_is_empty(line: &[u8], brace: usize) -> bool {
    line.get(brace + 1..).unwrap_or_default().trim_ascii().is_empty()
}

/// Enough of a line to recognise it, not enough to fill a log.
pub(crate) fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..120).unwrap_or(line)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<WireEvent>, DecodeError> {
        let mut decoder = Decoder::default();
        decoder.push(text.as_bytes().to_vec());
        let mut events = Vec::new();
        while let Some(event) = decoder.next_event()? {
            events.push(event);
        }
        decoder.finish().map(|()| events)
    }

    #[test]
    fn keys_may_come_in_any_order_and_blank_lines_are_passed() {
        let events = all("\n{\"object\": {\"a\":1} , \"type\" : \"DELETED\", \"x\":0}\r\n\n").unwrap();
        assert_eq!(
            events,
            [WireEvent {
                event_type: EventType::Deleted,
                object: Bytes::from_static(b"{\"a\":1}"),
                is_delta: false
            }]
        );
    }

    #[test]
    fn lines_that_are_no_event_are_refused() {
        for text in [
            "[]\n",
            "{}\n",
            "{\"type\":\"ADDED\"}\n",
            "{\"type\":1,\"object\":{}}\n",
            "x\n",
            "{\"type\":\"ADDED\",\"object\":{}\n",
            "{\"type\":\"ADDED\",\"object\":{}} trailing\n",
        ] {
            assert!(matches!(all(text), Err(DecodeError::Malformed(_))), "{text}");
        }
        assert_eq!(all("{\"type\":\"ODD\",\"object\":{}}\n"), Err(DecodeError::UnknownType("ODD".into())));
        assert_eq!(all("{\"type\":\"ADDED\",\"obj"), Err(DecodeError::Truncated));
    }

    #[test]
    fn an_endless_line_is_cut_off_and_stays_so() {
        let mut decoder = Decoder::new(DecoderOptions { max_event: 10, ..DecoderOptions::default() });
        decoder.push(&b"{\"type\":"[..]);
        assert_eq!(decoder.next_event(), Ok(None));
        decoder.push(&b"\"ADDED\",\"object\":{}}\n"[..]);
        assert_eq!(decoder.next_event(), Err(DecodeError::TooLarge(10)));
        decoder.push(&b"{\"type\":\"ADDED\",\"object\":{}}\n"[..]);
        assert_eq!(decoder.next_event(), Err(DecodeError::TooLarge(10)));
    }
}
