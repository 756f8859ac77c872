//! [`Impersonation`]: the user that the `Impersonate-*` headers ask for. Reading only; permission is decided in
//! [`super::mode`].
//!
//! Every header counts or the request fails: a header that was ignored would make the request act as another user
//! than was meant. Each group and each extra value costs one authorization, so their number is bounded. The message
//! for headers without a user name prints a Go struct, as kube-apiserver does.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use listwatch_wire::Status;
use listwatch_wire::go::quote;

/// Groups and other claims of one request: each costs a decision.
/// More are a 400. kube-apiserver has no bound but the size of the header.
const MAX_CLAIMS: usize = 128;

/// The user that a request impersonates.
/// Nothing in it has been checked yet; it is not a [`crate::auth::User`] so that it cannot be used as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Impersonation {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Reads the `Impersonate-*` headers; `None` if there are none. A header that cannot be used fails the request:
    /// ignoring it would make the request act as another user than was meant.
    ///
    /// # Errors
    /// 400 for claims without a user name, for text that is not UTF-8, and for too many claims.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(None);
        }
        let one = |name| headers.get(name).map(text).transpose().map(Option::unwrap_or_default);
        let groups = headers.get_all("impersonate-group").iter().map(text).collect::<Result<_, _>>()?;
        let wanted = Self {
            name: one("impersonate-user")?,
            uid: one("impersonate-uid")?,
            groups,
            extra: extra(headers)?,
        };
        let claims = wanted.groups.len() + wanted.extra.values().map(Vec::len).sum::<usize>();
        match (wanted.name.is_empty(), wanted == Self::default()) {
            _ if claims > MAX_CLAIMS => Err(Status::bad_request(format!(
                "requested to impersonate with more than {MAX_CLAIMS} claims"
            ))),
            (_, true) => Ok(None),
            (true, false) => Err(Status::bad_request(format!(
                "requested {} without impersonating a user name",
                wanted.in_go()
            ))),
            (false, false) => Ok(Some(wanted)),
        }
    }

    /// Returns true if nothing but the name is given.
    pub(super) fn is_name_only(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// As Go's `%#v` prints it.
    fn in_go(&self) -> String {
        let list = |values: &[String]| {
            format!("[]string{{{}}}", values.iter().map(|v| quote(v)).collect::<Vec<_>>().join(", "))
        };
        let groups = if self.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&self.groups) };
        let extra = if self.extra.is_empty() {
            "map[string][]string(nil)".to_owned()
        } else {
            let pairs: Vec<_> = self.extra.iter().map(|(k, v)| format!("{}:{}", quote(k), list(v))).collect();
            format!("map[string][]string{{{}}}", pairs.join(", "))
        };
        let (name, uid) = (quote(&self.name), quote(&self.uid));
        format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
    }
}

/// The `Impersonate-Extra-<key>` headers. Keys are percent-encoded where a header's name could not hold them.
fn extra(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, Status> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix("impersonate-extra-") else { continue };
        let key = percent_encoding::percent_decode_str(key).decode_utf8().map_err(|_| not_text())?;
        extra.entry(key.into_owned()).or_default().push(text(value)?);
    }
    Ok(extra)
}

fn text(value: &HeaderValue) -> Result<String, Status> {
    std::str::from_utf8(value.as_bytes()).map(str::to_owned).map_err(|_| not_text())
}

fn not_text() -> Status {
    Status::bad_request("impersonation headers must be UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&'static str, &[u8])]) -> Result<Option<Impersonation>, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        Impersonation::read(&headers).map_err(|status| status.message)
    }

    /// `Impersonate-User: josé` used to count as absent, and the request ran as the impersonator.
    #[test]
    fn text_that_is_not_ascii_counts_and_text_that_is_not_utf8_is_refused() {
        let wanted = read(&[
            ("impersonate-user", "josé".as_bytes()),
            ("impersonate-group", "über".as_bytes()),
            ("impersonate-extra-a%2fb", "ñ".as_bytes()),
        ]);
        let wanted = wanted.unwrap().unwrap();
        assert_eq!((wanted.name.as_str(), wanted.groups[0].as_str()), ("josé", "über"));
        assert_eq!(wanted.extra["a/b"], ["ñ"]);
        for name in ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-a"] {
            assert!(
                read(&[("impersonate-user", b"a"), (name, b"\xe9")]).is_err() || name == "impersonate-user"
            );
            assert!(read(&[(name, b"\xe9")]).is_err(), "{name}");
        }
    }

    #[test]
    fn claims_without_a_name_are_refused_with_the_messages_of_kube_apiserver() {
        assert_eq!(
            read(&[("impersonate-extra-a", b"1"), ("impersonate-group", b"g")]).unwrap_err(),
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, \
             Extra:map[string][]string{\"a\":[]string{\"1\"}}} without impersonating a user name"
        );
        assert_eq!(read(&[("impersonate-user", b"")]), Ok(None));
        assert_eq!(read(&[("x", b"")]), Ok(None));
    }

    #[test]
    fn more_claims_than_can_be_checked_are_refused_rather_than_dropped() {
        let mut lines: Vec<(&str, &[u8])> = vec![("impersonate-user", b"a")];
        lines.extend((0..=MAX_CLAIMS).map(|_| ("impersonate-group", b"g".as_slice())));
        assert!(read(&lines).unwrap_err().contains("128"));
    }
}
