//! [`Query`]: the decoded pairs of a query string, with Kubernetes' rules for booleans and numbers.
//!
//! The rules are those of Go's `url.ParseQuery` and of the conversion in `apimachinery`, which are laxer than most:
//! pairs that do not decode are dropped, a flag without a value is true, an empty number is zero, and of repeated keys
//! the first counts. A stricter parser would refuse requests that kubectl and client-go send. The parameters are
//! interpreted by [`ListOptions`](super::ListOptions), [`WriteOptions`](super::WriteOptions) and
//! [`DeleteOptions`](super::DeleteOptions).

use std::borrow::Cow;

use crate::go;
use crate::status::{Result, Status};

/// The pairs of a query string, decoded.
///
/// ```
/// use listwatch_wire::options::Query;
///
/// let query = Query::parse("watch=1&labelSelector=app%3Dweb%2Cx&limit=5&limit=6");
/// assert!(query.flag("watch"));
/// assert_eq!(query.text("labelSelector"), "app=web,x");
/// assert_eq!(query.integer("limit")?, Some(5));
/// # Ok::<(), listwatch_wire::Status>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Decodes a query string without its question mark.
    ///
    /// Pairs with malformed escapes are left out, as kube-apiserver does. Bytes that are not UTF-8 become U+FFFD, which no option
    /// accepts: a selector that were left out would select everything.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let decoded = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        });
        Self { pairs: decoded.collect() }
    }

    /// Copies the pairs, so that they outlive the text they were read from.
    #[must_use]
    pub fn into_owned(self) -> Query<'static> {
        let own = |(key, value): (Cow<'a, str>, Cow<'a, str>)| {
            (Cow::Owned(key.into_owned()), Cow::Owned(value.into_owned()))
        };
        Query { pairs: self.pairs.into_iter().map(own).collect() }
    }

    /// The first value of a key, which is the one that Kubernetes uses where one is expected.
    #[must_use]
    pub fn first(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_ref())
    }

    /// Every value of a key.
    pub fn all<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        self.pairs.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_ref())
    }

    /// The first value, empty if there is none.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.first(key).unwrap_or_default()
    }

    /// A boolean: absent, `0` and `false` in any case are false, everything else is true, even nothing at all.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    /// A boolean for which absence differs from false.
    #[must_use]
    pub fn optional_flag(&self, key: &str) -> Option<bool> {
        self.first(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// An integer.
    ///
    /// # Errors
    /// 400 if there is a value that is none.
    pub fn integer(&self, key: &str) -> Result<Option<i64>> {
        match self.first(key) {
            None => Ok(None),
            Some(text) => go::parse_int(text).map(Some).map_err(Status::bad_request),
        }
    }
}

/// Decodes a percent-encoded text; `None` if it is malformed. Most values have nothing to decode and are borrowed.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|b| matches!(b, b'%' | b'+')) {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// Collects pairs for a query string.
#[derive(Debug, Default)]
pub(crate) struct QueryWriter {
    text: String,
}

impl QueryWriter {
    /// Adds a pair unless the value is empty.
    pub(crate) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        if !value.is_empty() {
            self.pair(key, value);
        }
        self
    }

    /// Adds `key=true` if the flag is set.
    pub(crate) fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        if value {
            self.pair(key, "true");
        }
        self
    }

    /// Adds a pair if there is a value.
    pub(crate) fn option(&mut self, key: &str, value: Option<impl ToString>) -> &mut Self {
        if let Some(value) = value {
            self.pair(key, &value.to_string());
        }
        self
    }

    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Adds a pair, encoding everything but the unreserved characters of RFC 3986.
    fn pair(&mut self, key: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.text.push_str(key);
        self.text.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    self.text.push(char::from(byte));
                }
                _ => self.text.push_str(&format!("%{byte:02X}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_true() {
        let watch = |text| Query::parse(text).flag("watch");
        assert!(["watch=1", "watch=true", "watch=", "watch=no", "watch"].into_iter().all(watch));
        assert!(!["watch=0", "watch=false", "watch=FALSE", ""].into_iter().any(watch));
    }

    #[test]
    fn undecodable_pairs_are_left_out() {
        let query = Query::parse("a=%zz&b=%2&d=a%20b+c&e;f=1");
        assert_eq!(query.pairs, [("d".into(), "a b c".into())]);
    }

    /// `labelSelector=a%3D%FF` was left out: a collection was deleted as a whole, and `dryRun=%FF` wrote.
    #[test]
    fn values_that_are_not_utf_8_are_kept_and_match_nothing() {
        let query = Query::parse("labelSelector=a%3D%ff&limit=%ff&dryRun=%ff");
        assert_eq!(query.text("labelSelector"), "a=\u{fffd}");
        assert!(query.text("labelSelector").parse::<crate::selector::LabelSelector>().is_err());
        assert!(query.integer("limit").is_err());
        assert_eq!(query.text("dryRun"), "\u{fffd}");
    }

    #[test]
    fn integers_must_parse() {
        let status = Query::parse("limit=abc").integer("limit").unwrap_err();
        assert_eq!(status.message, "strconv.ParseInt: parsing \"abc\": invalid syntax");
        assert_eq!(status.code, 400);
        // An empty value was taken for zero.
        let status = Query::parse("limit=").integer("limit").unwrap_err();
        assert_eq!(status.message, "strconv.ParseInt: parsing \"\": invalid syntax");
    }
}
