//! Validation of names and keys, with the messages of kube-apiserver.
//!
//! The forms that selectors need too are in [`listwatch_wire::names`]; here are the rule each kind names, and the keys
//! and names that occur inside objects. Every check returns its errors; an empty list means that the text is valid.

use std::borrow::Cow;

use listwatch_wire::names::{label_errors, pattern_error, subdomain_errors};

use crate::{NameRule, rules};

/// Characters of a DNS label.
const MAX_LABEL: usize = 63;
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
/// The message of the relaxed rule, by which names need not be identifiers.
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

impl NameRule {
    /// The errors in a name, or in the prefix of a generated one.
    ///
    /// A generated name is checked by its prefix, whose trailing dash counts as a letter.
    #[must_use]
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let name = if prefix { mask_trailing_dash(name) } else { Cow::Borrowed(name) };
        match self {
            Self::DeclaredSubdomain if prefix => Vec::new(),
            Self::Subdomain | Self::DeclaredSubdomain => subdomain_errors(&name),
            Self::Label => label_errors(&name),
            Self::PathSegment => path_segment(&name, prefix),
            Self::IpAddress => rules::canonical_ip(&name),
        }
    }
}

/// Returns what keeps a name from being a DNS label that begins with a letter.
///
/// At most 63 characters. The names of Services were such labels before Kubernetes 1.37, and fields that refer to them still are.
///
/// ```
/// use listwatch_kinds::names::label_1035_errors;
///
/// assert!(label_1035_errors("web-1").is_empty());
/// assert_eq!(label_1035_errors("1-web").len(), 1);
/// ```
#[must_use]
pub fn label_1035_errors(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > MAX_LABEL {
        found.push(format!("must be no more than {MAX_LABEL} characters"));
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    if !begins || name.ends_with('-') || !name.bytes().all(inner) {
        found.push(pattern_error(LABEL_1035_TEXT, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    found
}

/// An IP address in the form the server itself would write.
///
/// Canonical, because the name of an IPAddress object is its identity: two spellings would be two objects.
///
/// ```
/// use listwatch_kinds::names::ip_address;
///
/// assert!(ip_address("2001:db8::1").is_empty());
/// assert_eq!(ip_address("2001:DB8::1"), ["must be in canonical form (\"2001:db8::1\")"]);
/// ```
#[must_use]
pub fn ip_address(text: &str) -> Vec<String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == text => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form (\"{address}\")")],
        Err(_) => vec![IP_ADDRESS.to_owned()],
    }
}

/// A prefix may end in a dash because letters follow it.
fn mask_trailing_dash(name: &str) -> Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut cut = rest.to_owned();
            cut.pop();
            cut.push('a');
            Cow::Owned(cut)
        }
        _ => Cow::Borrowed(name),
    }
}

/// Checks that a name fits into one segment of a URL path, with nothing to escape. RBAC names may have colons.
///
/// `prefix` is for `generateName`: `..` may begin a name, and is none.
///
/// ```
/// use listwatch_kinds::names::path_segment;
///
/// assert!(path_segment("system:kube-scheduler", false).is_empty());
/// assert_eq!(path_segment("..", false), ["may not be '..'"]);
/// assert!(path_segment("..", true).is_empty());
/// ```
#[must_use]
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    let mut found = Vec::new();
    if !prefix && (name == "." || name == "..") {
        found.push(format!("may not be '{name}'"));
    }
    for bad in ['/', '%'] {
        if name.contains(bad) {
            found.push(format!("may not contain '{bad}'"));
        }
    }
    found
}

/// Checks a key of a ConfigMap or Secret. Keys become file names in volumes, hence no slash and no leading `..`.
///
/// At most 253 bytes.
///
/// ```
/// use listwatch_kinds::names::config_key;
///
/// assert!(config_key("tls.crt").is_empty());
/// assert_eq!(config_key("..data"), ["must not start with '..'"]);
/// ```
#[must_use]
pub fn config_key(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.len() > 253 {
        found.push("must be no more than 253 characters".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    {
        found.push(pattern_error(CONFIG_KEY_TEXT, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    } else if text == "." || text == ".." {
        found.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        found.push("must not start with '..'".to_owned());
    }
    found
}

/// Checks the name of an environment variable: any printable ASCII except `=`.
///
/// Shells accept less; the kubelet passes on what the runtime takes.
///
/// ```
/// use listwatch_kinds::names::env_name;
///
/// assert!(env_name("my.variable").is_empty());
/// assert!(!env_name("A=B").is_empty());
/// ```
#[must_use]
pub fn env_name(text: &str) -> Vec<String> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        Vec::new()
    } else {
        vec![ENV_NAME.to_owned()]
    }
}

/// The error of a text that is no IP address.
pub(crate) const IP_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The message for a text that is no CIDR.
pub const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Returns true if a text is a CIDR.
///
/// Leading zeros of octets are refused, since Rust's parser refuses them; kube-apiserver accepts them in some old
/// fields.
///
/// ```
/// use listwatch_kinds::names::is_cidr;
///
/// assert!(is_cidr("10.0.0.0/8") && is_cidr("2001:db8::/64"));
/// assert!(!is_cidr("10.0.0.0") && !is_cidr("10.0.0.0/33"));
/// ```
#[must_use]
pub fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// A range with the bits after its length cleared, in the shortest form.
pub(crate) fn canonical_cidr(text: &str) -> String {
    let Some((address, bits)) = range(text) else { return String::new() };
    let number = prefix(address, bits);
    let address = match address {
        std::net::IpAddr::V4(_) => {
            let number =
                u32::try_from(number).unwrap_or(0).checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
            std::net::IpAddr::V4(number.into())
        }
        std::net::IpAddr::V6(_) => {
            std::net::IpAddr::V6(number.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0).into())
        }
    };
    format!("{address}/{bits}")
}

/// Returns true if a CIDR is part of another one, but not all of it, as the exceptions of a NetworkPolicy must be.
///
/// Families do not mix, and a text that is no CIDR is part of nothing.
///
/// ```
/// use listwatch_kinds::names::is_strict_subset;
///
/// assert!(is_strict_subset("10.1.0.0/16", "10.0.0.0/8"));
/// assert!(!is_strict_subset("10.0.0.0/8", "10.0.0.0/8"));
/// ```
#[must_use]
pub fn is_strict_subset(inner: &str, outer: &str) -> bool {
    match (range(inner), range(outer)) {
        (Some((inner, long)), Some((outer, short))) => {
            inner.is_ipv4() == outer.is_ipv4() && long > short && prefix(inner, short) == prefix(outer, short)
        }
        _ => false,
    }
}

/// Address and length, without a check that the length fits the family: callers have used [`is_cidr`].
fn range(text: &str) -> Option<(std::net::IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok()?))
}

/// The first bits of an address.
fn prefix(address: std::net::IpAddr, bits: u32) -> u128 {
    let (number, size) = match address {
        std::net::IpAddr::V4(address) => (u128::from(u32::from(address)), 32_u32),
        std::net::IpAddr::V6(address) => (u128::from(address), 128),
    };
    number.checked_shr(size.saturating_sub(bits)).unwrap_or(0)
}

/// Checks the name of a header that a probe or hook sends.
///
/// ```
/// use listwatch_kinds::names::http_header;
///
/// assert!(http_header("X-Header-Name").is_empty());
/// assert!(!http_header("X_Header").is_empty());
/// ```
#[must_use]
pub fn http_header(text: &str) -> Vec<String> {
    const RULE: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if fits { Vec::new() } else { vec![RULE.to_owned()] }
}

/// Checks the name of a container or Service target port: an IANA service name of at most 15 characters.
///
/// All errors are returned, not only the first.
///
/// ```
/// use listwatch_kinds::names::port_name;
///
/// assert!(port_name("http-2").is_empty());
/// assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
/// ```
#[must_use]
pub fn port_name(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if text.len() > 15 {
        found.push("must be no more than 15 characters".to_owned());
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || !text.bytes().all(allowed) {
        found.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        found.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        found.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        found.push("must not begin or end with a hyphen".to_owned());
    }
    found
}

/// True for resources that Kubernetes itself counts.
pub(crate) fn is_native_resource(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// True for extended resources, such as devices, which are counted by a component outside of Kubernetes.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    !is_native_resource(name)
        && !name.starts_with("requests.")
        && listwatch_wire::names::label_key_errors(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_kinds() {
        for (rule, good, bad) in [
            (NameRule::Subdomain, "a-b.c", "BAD"),
            (NameRule::Subdomain, "0", "a..b"),
            (NameRule::Label, "a-b", "a.b"),
            (NameRule::PathSegment, "system:Node", "a/b"),
            (NameRule::PathSegment, "a", ".."),
            (NameRule::IpAddress, "10.0.0.1", "x"),
            (NameRule::IpAddress, "::1", "0:0::1"),
        ] {
            assert!(rule.check(good, false).is_empty(), "{rule:?} {good}");
            assert_eq!(rule.check(bad, false).len(), 1, "{rule:?} {bad}");
        }
    }

    #[test]
    fn a_prefix_may_end_in_a_dash_and_a_name_may_not() {
        assert!(NameRule::Subdomain.check("gen-", true).is_empty());
        assert_eq!(NameRule::Subdomain.check("gen-", false).len(), 1);
        assert!(NameRule::DeclaredSubdomain.check("G_", true).is_empty());
        assert_eq!(NameRule::DeclaredSubdomain.check("G_", false).len(), 1);
    }

    #[test]
    fn keys_and_names_inside_objects() {
        for (check, good, bad) in [
            (config_key as fn(&str) -> Vec<String>, "a.b_C-1", "a b"),
            (config_key, "x", ".."),
            (config_key, "a", "..a"),
            (env_name, "A-b.c", "A=b"),
            (port_name, "http-1", "HTTP"),
            (port_name, "a", "a--b"),
        ] {
            assert!(!check(bad).is_empty(), "{bad}");
            assert!(check(good).is_empty(), "{good}");
        }
    }
}
