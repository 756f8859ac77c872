//! Formats of mail addresses and of URIs, as Go's packages read them.
//!
//! kube-openapi uses `net/mail` and `net/url`, which accept less and more than the RFCs. The other formats are in [`super`].

/// Returns true for one address, `a@b`, with or without a name in front: `A B <a@b>`.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => is_phrase(name.trim()) && is_address(address.trim()),
        None => is_address(text),
    }
}

/// Words, or one text in quotes; may be empty.
fn is_phrase(name: &str) -> bool {
    is_quoted(name) || name.split_whitespace().all(|word| word.chars().all(|c| is_atom_char(c) || c == '.'))
}

fn is_address(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else { return false };
    let literal = host.starts_with('[') && host.ends_with(']');
    (is_quoted(user) || is_dot_atom(user)) && (literal || is_dot_atom(host))
}

/// A text in quotes, in which a quote follows a backslash only.
fn is_quoted(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return false };
    let mut escaped = false;
    let fits = inside.chars().all(|c| {
        let fits = escaped || c != '"';
        escaped = c == '\\' && !escaped;
        fits && !c.is_control()
    });
    fits && !escaped
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

/// Returns true for a valid request target: a path from the root, or a URI with a scheme.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) || text.starts_with(':') {
        return false;
    }
    let text = text.split_once('?').map_or(text, |(before, _)| before);
    let scheme = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme));
    match scheme {
        None if text == "*" => true,
        None => text.starts_with('/') && has_whole_escapes(text),
        Some((_, rest)) => match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                is_authority(authority) && has_whole_escapes(path)
            }
            None => !rest.starts_with('/') || has_whole_escapes(rest),
        },
    }
}

/// The part of a URI before the colon, after RFC 3986.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// User, host and port.
fn is_authority(text: &str) -> bool {
    let (user, place) = text.rsplit_once('@').unwrap_or(("", text));
    let user_fits = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    let bracketed = place.strip_prefix('[').map(|inside| inside.split_once(']'));
    let (host, port) = match bracketed {
        Some(None) => return false,
        Some(Some((host, port))) => (host, port),
        None => place.split_at(place.rfind(':').unwrap_or(place.len())),
    };
    user.bytes().all(user_fits) && has_whole_escapes(user) && host.bytes().all(fits_host) && is_port(port)
}

/// Escapes are for what is not ASCII, which is not asked for here, and for zones.
fn fits_host(b: u8) -> bool {
    !b.is_ascii() || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&b)
}

/// Nothing, or a colon and digits, of which there may be none.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

/// Two hexadecimal digits follow each percent sign.
fn has_whole_escapes(text: &str) -> bool {
    let hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(|rest| hex(rest.as_bytes().first()) && hex(rest.as_bytes().get(1)))
}
