//! The text of a list, piece by piece: compact JSON, indented JSON, YAML. Pure.
//!
//! One item and one piece of output are held at a time, however long the list is. YAML sorts keys, so fields of the
//! list that come after `items` are kept until the end. Compact JSON is a copy of stored bytes; the other forms are
//! encoded beside the async workers by the caller ([`super`]).

use bytes::BytesMut;
use listwatch_wire::json::{Map, Value};

use crate::request::negotiate::{Encoding, ResponseForm};
use crate::respond::encode::{Pretty, yaml};

/// The text form of a list.
pub(super) enum Text {
    /// Compact JSON: a copy of the bytes.
    Compact,
    /// Spread over lines.
    Pretty(Box<Pretty>),
    /// YAML, whose keys are sorted: some fields of the list come after its items.
    Yaml { items: &'static str, after: Map },
}

impl Text {
    /// The text form of a list: YAML, indented JSON, or compact JSON.
    pub(super) fn new(form: ResponseForm) -> Self {
        match form.encoding {
            Encoding::Yaml => Self::Yaml { items: "items", after: Map::new() },
            _ if form.pretty => Self::Pretty(Box::default()),
            _ => Self::Compact,
        }
    }

    /// The beginning, given in JSON up to the value of the items.
    pub(super) fn begin(&mut self, head: &[u8], out: &mut BytesMut) {
        match self {
            Self::Compact => out.extend_from_slice(head),
            Self::Pretty(pretty) => pretty.write(head, out),
            Self::Yaml { items, after } => {
                let list = Value::read(&[head, b"null}"].concat()).unwrap_or_default();
                let fields = list.as_object().into_iter().flatten();
                *items = if list.get("rows").is_some() { "rows" } else { "items" };
                let (first, last): (Vec<_>, Vec<_>) =
                    fields.filter(|(key, _)| key != items).partition(|(key, _)| key.as_str() < *items);
                let map = |fields: Vec<(&_, &Value)>| -> Map {
                    fields
                        .into_iter()
                        .map(|(key, value): (&listwatch_wire::json::Text, _)| (key.clone(), value.clone()))
                        .collect()
                };
                *after = map(last);
                out.extend_from_slice(&yaml(&Value::Object(map(first))));
            }
        }
    }

    /// Writes one item, given in JSON. `first` decides about the separator.
    ///
    /// The caller passes one whole item; a piece of output is cut between items.
    pub(super) fn item(&mut self, item: &[u8], first: bool, out: &mut BytesMut) {
        match self {
            Self::Compact | Self::Pretty(_) => self.plain(if first { b"[" } else { b"," }, out),
            Self::Yaml { items, .. } if first => {
                out.extend_from_slice(items.as_bytes());
                out.extend_from_slice(b":\n");
            }
            _ => {}
        }
        match self {
            Self::Compact | Self::Pretty(_) => self.plain(item, out),
            Self::Yaml { .. } => {
                // Written as the only element of a list and without the line that names it, so that it is indented as
                // it would be among others.
                let only = Value::Array(vec![Value::read(item).unwrap_or_default()].into());
                let text = yaml(&Value::Object([("i", only)].into_iter().collect()));
                let named = memchr::memchr(b'\n', &text).map_or(text.len(), |end| end + 1);
                out.extend_from_slice(text.get(named..).unwrap_or_default());
            }
        }
    }

    /// The end. `nothing` is the value of the items in JSON, if there were none.
    pub(super) fn end(&mut self, nothing: Option<&'static str>, out: &mut BytesMut) {
        match self {
            Self::Compact | Self::Pretty(_) => {
                self.plain(nothing.unwrap_or("]").as_bytes(), out);
                self.plain(b"}", out);
            }
            Self::Yaml { items, after } => {
                let mut rest = std::mem::take(after);
                if let Some(nothing) = nothing {
                    rest.insert(*items, Value::read(nothing.as_bytes()).unwrap_or_default());
                }
                if !rest.is_empty() {
                    out.extend_from_slice(&yaml(&Value::Object(rest)));
                }
            }
        }
        if let Self::Compact = self {
            out.extend_from_slice(b"\n");
        }
    }

    fn plain(&mut self, json: &[u8], out: &mut BytesMut) {
        match self {
            Self::Pretty(pretty) => pretty.write(json, out),
            _ => out.extend_from_slice(json),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::negotiate::ResponseShape;
    use crate::respond::encode;

    #[test]
    fn a_list_in_parts_reads_as_one_that_is_whole() {
        // Lists as YAML or over lines were built whole: ten slow readers of 90 MB held 1.2 GB.
        let list_head =
            br#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":"#;
        let table_head = br#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"A"}],"rows":"#;
        let items: [&[u8]; 3] = [
            br#"{"metadata":{"name":"a"},"data":{"k":"several\nlines\n","n":"1","e":""}}"#,
            br#"{"metadata":{"name":"b","finalizers":["x/y"]},"data":{}}"#,
            br#"{"cells":["a",1,null],"object":{"metadata":{"labels":{"a: b":"- c"}}}}"#,
        ];
        for (encoding, pretty) in [(Encoding::Json, false), (Encoding::Json, true), (Encoding::Yaml, false)] {
            let form = ResponseForm { encoding, pretty, shape: ResponseShape::Whole, delta: false };
            for (head, count) in
                [(&list_head[..], 3), (&list_head[..], 0), (&table_head[..], 3), (&table_head[..], 0)]
            {
                let items = items.get(..count).unwrap();
                let whole = [head, b"[", &items.join(&b","[..]), b"]}"].concat();
                let expected = encode::document(whole.into(), form).unwrap();
                let (mut text, mut out) = (Text::new(form), BytesMut::new());
                text.begin(head, &mut out);
                for (index, item) in items.iter().enumerate() {
                    text.item(item, index == 0, &mut out);
                }
                text.end(items.is_empty().then_some("[]"), &mut out);
                assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected), "{form:?}");
            }
        }
    }
}
