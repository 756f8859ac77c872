//! [`ListDecoder`]: cuts the body of a list into its items while it arrives.
//!
//! The body may be a page or a hundred megabytes; what is held is one item that is not complete yet. Each byte is
//! looked at once to find where items end; only the head, which is short, is read again with each piece until it is
//! complete. Items are not parsed here.

use listwatch_wire::json::raw;
use memchr::memchr2;

/// The fields of a list beside its items: kind, resourceVersion and continue token. They may come before or after the
/// items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListHead {
    /// `kind` of the list, for example `PodList`.
    pub kind: String,
    /// The state that it shows.
    pub resource_version: String,
    /// The `continue` token of the next page; empty on the last.
    pub continue_token: String,
}

/// The reason for which a body is not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The body is not a JSON object with items, or breaks off.
    #[error("not a list: {0}")]
    NotAList(String),
    /// Something in it is longer than any object can be.
    #[error("an item of more than {0} bytes")]
    TooLarge(usize),
}

/// Longer than any object a server stores; bounds what a body that is not a list can make us hold.
const MAX_ITEM: usize = 16 << 20;

/// More than the fields before the items have: kind, resourceVersion and a continue token. The head is read again with
/// each piece of it, so that its length bounds what a body in tiny pieces costs.
const MAX_HEAD: usize = 64 << 10;

#[derive(Debug)]
enum DecoderPlace {
    /// Before the items.
    Head,
    /// Between or within items.
    Items,
    /// Behind them.
    Tail,
}

/// Finds the end of an object or array whose bytes come in pieces.
#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Brackets {
    /// The number of bytes that belong to it, if it ends among them.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.in_string {
                at += self.string(bytes.get(at..)?)?;
                continue;
            }
            at += 1;
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Passes the rest of a string; none if it does not end here.
    fn string(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        if std::mem::take(&mut self.escaped) {
            at = 1;
        }
        loop {
            let found = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
            if bytes.get(found) == Some(&b'"') {
                self.in_string = false;
                return Some(found + 1);
            }
            if found + 1 >= bytes.len() {
                self.escaped = true;
                return None;
            }
            at = found + 2;
        }
    }
}

/// Cuts the body of a list into items.
///
/// ```
/// use listwatch::kube::ListDecoder;
///
/// let mut decoder = ListDecoder::default();
/// let mut items = Vec::new();
/// decoder.push(br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":"#, |i| items.push(i.to_vec()))?;
/// decoder.push(br#"1},{"b":2}]}"#, |i| items.push(i.to_vec()))?;
/// assert_eq!(decoder.finish()?.resource_version, "7");
/// assert_eq!(items, [br#"{"a":1}"#, br#"{"b":2}"#]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ListDecoder {
    place: DecoderPlace,
    /// The head so far, an item so far, or the tail so far.
    partial: Vec<u8>,
    /// Set while within an item.
    item: Option<Brackets>,
    head: ListHead,
}

impl Default for ListDecoder {
    fn default() -> Self {
        Self { place: DecoderPlace::Head, partial: Vec::new(), item: None, head: ListHead::default() }
    }
}

impl ListDecoder {
    /// Consumes the next piece of the body and calls `item` with each item that it completes.
    ///
    /// # Errors
    /// [`ListError`], after which nothing more can be decoded.
    pub fn push(&mut self, chunk: &[u8], mut item: impl FnMut(&[u8])) -> Result<(), ListError> {
        match self.place {
            DecoderPlace::Items => self.items(chunk, &mut item),
            DecoderPlace::Tail => self.hold(chunk),
            DecoderPlace::Head => {
                self.hold(chunk)?;
                let Some(items) = self.read_head()? else { return self.check_head() };
                let rest = std::mem::take(&mut self.partial);
                self.place = DecoderPlace::Items;
                self.items(rest.get(items..).unwrap_or_default(), &mut item)
            }
        }
    }

    /// Keeps the beginning of an item whose end has not been received, up to the bound of an item.
    fn hold(&mut self, bytes: &[u8]) -> Result<(), ListError> {
        if self.partial.len() + bytes.len() > MAX_ITEM {
            return Err(ListError::TooLarge(MAX_ITEM));
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// Refuses a head that has become longer than any is.
    fn check_head(&self) -> Result<(), ListError> {
        if self.partial.len() > MAX_HEAD {
            return Err(ListError::NotAList(format!("no items within its first {MAX_HEAD} bytes")));
        }
        Ok(())
    }

    /// The position at which the items begin, if the head is complete.
    fn read_head(&mut self) -> Result<Option<usize>, ListError> {
        let bytes = self.partial.as_slice();
        let first = raw::skip_space(bytes, 0);
        if bytes.get(first).is_some_and(|byte| *byte != b'{') {
            return Err(not_a_list(bytes));
        }
        let Some(mut fields) = raw::fields(bytes, 0) else { return Ok(None) };
        let mut head = ListHead::default();
        while let Some((key, start)) = fields.next_key() {
            let name = bytes.get(key).unwrap_or_default();
            if name == b"items" && bytes.get(start) == Some(&b'[') {
                self.head = head;
                return Ok(Some(start + 1));
            }
            // A value that reaches the end of the buffer may be incomplete.
            let Some(end) = raw::skip_value(bytes, start).filter(|end| *end < bytes.len()) else {
                return Ok(None);
            };
            note(&mut head, name, bytes.get(start..end).unwrap_or_default());
            fields.pass(end);
        }
        // No items at all: only the end shows if this is an object.
        if fields.is_complete() {
            self.head = head;
        }
        Ok(None)
    }

    /// Passes on each complete item. Only the item that a chunk ends in is copied, so memory is bounded by the largest
    /// item and not by the page.
    fn items(&mut self, bytes: &[u8], item: &mut impl FnMut(&[u8])) -> Result<(), ListError> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(brackets) = &mut self.item else {
                match rest.first() {
                    Some(b'{') => self.item = Some(Brackets::default()),
                    Some(b']') => {
                        self.place = DecoderPlace::Tail;
                        return self.hold(rest.get(1..).unwrap_or_default());
                    }
                    Some(b',' | b' ' | b'\n' | b'\r' | b'\t') => at += 1,
                    // The text may be a part of a Secret, so it is not quoted.
                    _ => return Err(ListError::NotAList("something between the items".to_owned())),
                }
                continue;
            };
            let Some(end) = brackets.end(rest) else { return self.hold(rest) };
            self.item = None;
            at += end;
            let last = rest.get(..end).unwrap_or_default();
            if self.partial.is_empty() {
                item(last);
            } else {
                self.partial.extend_from_slice(last);
                item(&self.partial);
                self.partial.clear();
            }
        }
        Ok(())
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`ListError::NotAList`] if it broke off, or never was a list.
    pub fn finish(mut self) -> Result<ListHead, ListError> {
        let bytes = match self.place {
            DecoderPlace::Items => {
                return Err(ListError::NotAList("it breaks off within the items".to_owned()));
            }
            DecoderPlace::Head => std::mem::take(&mut self.partial),
            DecoderPlace::Tail => {
                let rest = self.partial.trim_ascii_start();
                [b"{", rest.strip_prefix(b",").unwrap_or(rest)].concat()
            }
        };
        let mut fields = raw::fields(&bytes, 0).ok_or_else(|| not_a_list(&bytes))?;
        let mut head = std::mem::take(&mut self.head);
        for field in &mut fields {
            let name = bytes.get(field.key).unwrap_or_default();
            note(&mut head, name, bytes.get(field.value).unwrap_or_default());
        }
        if fields.is_complete() { Ok(head) } else { Err(not_a_list(&bytes)) }
    }
}

/// Reads a field beside the items.
fn note(head: &mut ListHead, name: &[u8], value: &[u8]) {
    match name {
        b"kind" => head.kind = text(Some(value)),
        b"metadata" => {
            head.resource_version = text(raw::lookup(value, &["resourceVersion"]));
            head.continue_token = text(raw::lookup(value, &["continue"]));
        }
        _ => {}
    }
}

fn text(value: Option<&[u8]>) -> String {
    let inside = value.and_then(|value| value.strip_prefix(b"\"")?.strip_suffix(b"\""));
    inside.and_then(raw::unescape).unwrap_or_default().into_owned()
}

fn not_a_list(bytes: &[u8]) -> ListError {
    ListError::NotAList(String::from_utf8_lossy(bytes.get(..80).unwrap_or(bytes)).into_owned())
}
