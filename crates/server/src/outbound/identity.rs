//! The headers that pass the user of a request to an extension API server (`X-Remote-User` and the others).
//!
//! It trusts them because the connection has the front proxy's client certificate. So headers of these names in a client's
//! request are removed first, or any client could claim any identity.

use std::collections::BTreeMap;

use http::HeaderValue;
use http::header::{HeaderMap, HeaderName};

/// The characters that the name of a header cannot have, and the sign that escapes begin with.
const HEADER_KEY: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// A user whose name, groups or extra fields have characters that no header can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name, a group or an extra field of the user has a character that no header can have")]
pub(crate) struct UnfitIdentity;

/// Writes the identity of a user as extension API servers read it, in place of any that the headers claim.
///
/// # Errors
/// [`UnfitIdentity`]. An identity is never sent in part: a request without the user's name would be one of this server itself.
pub(crate) fn identity_headers(
    headers: &mut HeaderMap,
    name: &str,
    uid: &str,
    groups: &[String],
    extra: &BTreeMap<String, Vec<String>>,
) -> Result<(), UnfitIdentity> {
    let claimed: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    claimed.iter().for_each(|name| drop(headers.remove(name)));
    let single = [("x-remote-user".to_owned(), name), ("x-remote-uid".to_owned(), uid)];
    let single = single.into_iter().filter(|(_, value)| !value.is_empty());
    let groups = groups.iter().map(|group| ("x-remote-group".to_owned(), group.as_str()));
    let extra = extra.iter().flat_map(|(key, values)| {
        let key = format!("x-remote-extra-{}", percent_encoding::utf8_percent_encode(key, HEADER_KEY));
        values.iter().map(move |value| (key.clone(), value.as_str()))
    });
    for (name, value) in single.chain(groups).chain(extra) {
        let unfit = |_| UnfitIdentity;
        let name = HeaderName::try_from(name).map_err(|_| UnfitIdentity)?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(unfit)?);
    }
    Ok(())
}
