//! Finding the header of an object in one pass over its bytes.

use std::ops::Range;

use smallvec::SmallVec;

use super::header::{FieldPath, Header, ScanError, Span};
use crate::json::raw::{self, Fields};

/// Paths still to be followed below the present object, each with its index among all paths asked for.
type Wanted<'p> = SmallVec<[(usize, FieldPath<'p>); 4]>;

pub(super) struct Scanner<'b> {
    bytes: &'b [u8],
    header: Header,
    side: String,
}

impl<'b> Scanner<'b> {
    pub(super) fn new(bytes: &'b [u8], fields: usize) -> Result<Self, ScanError> {
        // Side-table spans lie past the end, and that space is no larger than the bytes.
        u32::try_from(bytes.len().saturating_mul(2)).map_err(|_| ScanError::TooLarge)?;
        let header = Header { fields: vec![Span::default(); fields].into(), ..Header::default() };
        Ok(Self { bytes, header, side: String::new() })
    }

    pub(super) fn object(mut self, paths: &[FieldPath<'_>]) -> Result<Header, ScanError> {
        let mut fields = raw::fields(self.bytes, 0).ok_or(ScanError::NotAnObject)?;
        let wanted: Wanted<'_> = paths.iter().copied().enumerate().collect();
        let mut leading_type = true;
        while let Some((key, start)) = fields.next_key() {
            let name = self.bytes.get(key.clone()).unwrap_or_default();
            let is_type = matches!(name, b"kind" | b"apiVersion");
            if leading_type && !is_type {
                self.header.type_prefix = offset(key.start - 1);
            }
            leading_type &= is_type;
            let end = match name {
                b"metadata" => self.metadata(start, &below(&wanted, name))?,
                _ => self.value(start, &below(&wanted, name)).ok_or(ScanError::NotAnObject)?,
            };
            match name {
                b"kind" => self.header.kind = self.string(start, end),
                b"apiVersion" => self.header.api_version = self.string(start, end),
                _ => {}
            }
            fields.pass(end);
        }
        self.finish(&fields, leading_type)
    }

    fn finish(mut self, fields: &Fields<'_>, only_type: bool) -> Result<Header, ScanError> {
        if !fields.is_complete() {
            return Err(ScanError::NotAnObject);
        }
        if !self.header.metadata.is_set() {
            return Err(ScanError::NoMetadata);
        }
        if only_type {
            self.header.type_prefix = offset(fields.position());
        }
        self.header.side = self.side.into();
        Ok(self.header)
    }

    fn metadata(&mut self, start: usize, wanted: &Wanted<'_>) -> Result<usize, ScanError> {
        let mut fields = raw::fields(self.bytes, start).ok_or(ScanError::NoMetadata)?;
        while let Some((key, start)) = fields.next_key() {
            let name = self.bytes.get(key).unwrap_or_default();
            let below = below(wanted, name);
            let end = match name {
                b"labels" if below.is_empty() => self.labels(start),
                _ => self.value(start, &below),
            };
            let end = end.ok_or(ScanError::NotAnObject)?;
            if name == b"labels" && !below.is_empty() {
                self.labels(start);
            }
            self.metadata_field(name, start, end);
            fields.pass(end);
        }
        let end = fields.position() + 1;
        if !fields.is_complete() {
            return Err(ScanError::NotAnObject);
        }
        self.header.metadata = span(start..end);
        Ok(end)
    }

    fn metadata_field(&mut self, name: &[u8], start: usize, end: usize) {
        match name {
            b"name" => self.header.name = self.string(start, end),
            b"namespace" => self.header.namespace = self.string(start, end),
            b"uid" => self.header.uid = self.string(start, end),
            b"resourceVersion" => self.header.resource_version = self.string(start, end),
            b"creationTimestamp" => self.header.creation_timestamp = self.string(start, end),
            b"deletionTimestamp" => self.header.deletion_timestamp = self.string(start, end),
            b"ownerReferences" => self.header.owner_references = self.container(start, end),
            b"annotations" => self.header.annotations = self.container(start, end),
            b"generation" => {
                let digits = self.bytes.get(start..end).and_then(|b| std::str::from_utf8(b).ok());
                self.header.generation = digits.and_then(|d| d.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }

    fn labels(&mut self, start: usize) -> Option<usize> {
        let Some(mut fields) = raw::fields(self.bytes, start) else {
            return raw::skip_value(self.bytes, start);
        };
        let mut labels: SmallVec<[(Span, Span); 8]> = SmallVec::new();
        for field in &mut fields {
            let key = self.string(field.key.start - 1, field.key.end + 1);
            labels.push((key, self.string(field.value.start, field.value.end)));
        }
        self.header.labels = labels.into_vec().into();
        fields.is_complete().then(|| fields.position() + 1)
    }

    /// Passes a value, and notes the scalars that are wanted on the way.
    fn value(&mut self, start: usize, wanted: &Wanted<'_>) -> Option<usize> {
        let deeper = wanted.iter().any(|(_, path)| !path.is_empty());
        let end = match raw::fields(self.bytes, start) {
            Some(mut fields) if deeper => {
                while let Some((key, start)) = fields.next_key() {
                    let name = self.bytes.get(key).unwrap_or_default();
                    let end = self.value(start, &below(wanted, name))?;
                    fields.pass(end);
                }
                fields.is_complete().then(|| fields.position() + 1)?
            }
            _ => raw::skip_value(self.bytes, start)?,
        };
        for (index, _) in wanted.iter().filter(|(_, path)| path.is_empty()) {
            let scalar = self.scalar(start, end);
            if let Some(slot) = self.header.fields.get_mut(*index) {
                *slot = scalar;
            }
        }
        Some(end)
    }

    fn scalar(&mut self, start: usize, end: usize) -> Span {
        match self.bytes.get(start) {
            Some(b'"') => self.string(start, end),
            Some(b'{' | b'[' | b'n') | None => Span::default(),
            Some(_) => span(start..end),
        }
    }

    fn container(&self, start: usize, end: usize) -> Span {
        match self.bytes.get(start) {
            Some(b'{' | b'[') => span(start..end),
            _ => Span::default(),
        }
    }

    /// The span of the text of a string token; texts with escapes go to the side table.
    fn string(&mut self, start: usize, end: usize) -> Span {
        if self.bytes.get(start) != Some(&b'"') {
            return Span::default();
        }
        let inner = start + 1..end.saturating_sub(1);
        let text = self.bytes.get(inner.clone()).unwrap_or_default();
        if !text.contains(&b'\\') {
            return if std::str::from_utf8(text).is_ok() { span(inner) } else { Span::default() };
        }
        let Some(text) = raw::unescape(text) else { return Span::default() };
        let base = self.bytes.len() + self.side.len();
        self.side.push_str(&text);
        span(base..self.bytes.len() + self.side.len())
    }
}

/// What of the wanted paths continues below a key.
fn below<'p>(wanted: &Wanted<'p>, key: &[u8]) -> Wanted<'p> {
    if wanted.is_empty() {
        return Wanted::new();
    }
    let step = |(index, path): &(usize, FieldPath<'p>)| match path.split_first() {
        Some((first, rest)) if first.as_bytes() == key => Some((*index, rest)),
        _ => None,
    };
    wanted.iter().filter_map(step).collect()
}

fn span(range: Range<usize>) -> Span {
    Span { start: offset(range.start), end: offset(range.end) }
}

/// Fits, as the scanner refuses longer bytes.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
