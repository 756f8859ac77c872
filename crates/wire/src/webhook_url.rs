//! Addresses of webhooks: `https://host[/path]` and nothing else.
//!
//! Admission webhooks and conversion webhooks have the same rule, and definitions and built-in kinds are checked by
//! different crates.

/// Returns what is wrong with the URL of a webhook: the part and the reason, for each part.
///
/// ```
/// let found = listwatch_wire::webhook_url::findings("https://me@example.com/path");
/// assert_eq!(found, [("me".to_owned(), "user information is not permitted in the URL".to_owned())]);
/// ```
#[must_use]
pub fn findings(url: &str) -> Vec<(String, String)> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut found = Vec::new();
    let mut refuse = |part: &str, why: String| found.push((part.to_owned(), why));
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !scheme.eq_ignore_ascii_case("https") {
        refuse(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.is_empty() || host.is_empty() {
        refuse("", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = host.rsplit_once('@') {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if let Some((_, query)) = rest.split_once('?').filter(|(_, query)| !query.is_empty()) {
        refuse(query, "query parameters are not permitted in the URL".to_owned());
    }
    found
}
