//! Errors of Go's `netip`: the reason for which a text is not an address or not a prefix.
//!
//! The standard library accepts the same texts but does not say what is wrong with others.

use listwatch_wire::go::quote;

/// A reason, and the part of the text at which it was found.
type Wrong<'t> = (&'static str, &'t str);

/// Returns the error of `netip.ParseAddr` for a text that is not an address.
pub(super) fn address_error(text: &str) -> String {
    let (why, at) = match text.find(['.', ':', '%']).and_then(|at| text.get(at..)?.chars().next()) {
        Some('.') => v4(text).err().unwrap_or(("unable to parse IP", "")),
        Some(':') => v6(text).err().unwrap_or(("unable to parse IP", "")),
        Some(_) => ("missing IPv6 address", ""),
        None => ("unable to parse IP", ""),
    };
    let at = if at.is_empty() { String::new() } else { format!(" (at {})", quote(at)) };
    format!("ParseAddr({}): {why}{at}", quote(text))
}

/// Returns the error of `netip.ParsePrefix` for a text that is not a prefix, given whether its address is one.
pub(super) fn prefix_error(text: &str, is_address: impl Fn(&str) -> bool) -> String {
    let why = match text.rsplit_once('/') {
        None => "no '/'".to_owned(),
        Some((address, _)) if address.contains('%') && address.contains(':') => {
            "IPv6 zones cannot be present in a prefix".to_owned()
        }
        Some((address, _)) if !is_address(address) => address_error(address),
        Some((_, bits)) if !is_length(bits) => format!("bad bits after slash: {}", quote(bits)),
        Some(_) => "prefix length out of range".to_owned(),
    };
    format!("netip.ParsePrefix({}): {why}", quote(text))
}

/// Returns true for a decimal number without a leading zero.
pub(super) fn is_length(bits: &str) -> bool {
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    digits && (bits == "0" || !bits.starts_with('0')) && bits.len() < 10
}

/// Reads four fields of an IPv4 address.
fn v4(text: &str) -> Result<(), Wrong<'_>> {
    let (mut value, mut digits, mut fields) = (0_u32, 0, 0);
    let mut before = b'.';
    for (at, c) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        match c.to_digit(10) {
            Some(_) if digits == 1 && value == 0 => {
                return Err(("IPv4 field has octet with leading zero", ""));
            }
            Some(digit) => (value, digits) = (value * 10 + digit, digits + 1),
            None if c != '.' => return Err(("unexpected character", rest)),
            None if before == b'.' || rest.len() == 1 => {
                return Err(("IPv4 field must have at least one digit", rest));
            }
            None if fields == 3 => return Err(("IPv4 address too long", "")),
            None => (value, digits, fields) = (0, 0, fields + 1),
        }
        if value > 255 {
            return Err(("IPv4 field has value >255", ""));
        }
        before = if c == '.' { b'.' } else { b'0' };
    }
    if fields < 3 { Err(("IPv4 address too short", "")) } else { Ok(()) }
}

/// Reads the fields of an IPv6 address. `used` counts bytes.
fn v6(text: &str) -> Result<(), Wrong<'_>> {
    let (mut rest, zone) = text.split_once('%').map_or((text, None), |(head, zone)| (head, Some(zone)));
    if zone == Some("") {
        return Err(("zone must be a non-empty string", ""));
    }
    let mut ellipsis = rest.starts_with("::");
    rest = rest.strip_prefix("::").unwrap_or(rest);
    let mut used = 0;
    while used < 16 && !(ellipsis && rest.is_empty()) {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        let after = rest.get(digits..).unwrap_or_default();
        if after.starts_with('.') {
            embedded(rest, used, ellipsis)?;
            (rest, used) = ("", used + 4);
            break;
        }
        (rest, used) = (after, used + 2);
        if rest.is_empty() {
            break;
        }
        rest = separator(rest, &mut ellipsis)?;
    }
    match (rest.is_empty(), used < 16, ellipsis) {
        (false, ..) => Err(("trailing garbage after address", rest)),
        (_, true, false) => Err(("address string too short", "")),
        (_, false, true) => Err(("the :: must expand to at least one field of zeros", "")),
        _ => Ok(()),
    }
}

/// An IPv4 address at the end of an IPv6 one.
fn embedded(rest: &str, used: usize, ellipsis: bool) -> Result<(), Wrong<'_>> {
    match used {
        _ if !ellipsis && used != 12 => {
            Err(("embedded IPv4 address must replace the final 2 fields of the address", rest))
        }
        13.. => Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest)),
        _ => v4(rest),
    }
}

/// Reads a colon, or two of them, between fields.
fn separator<'t>(rest: &'t str, ellipsis: &mut bool) -> Result<&'t str, Wrong<'t>> {
    let Some(after) = rest.strip_prefix(':') else { return Err(("unexpected character, want colon", rest)) };
    if after.is_empty() {
        return Err(("colon must be followed by more characters", rest));
    }
    let Some(second) = after.strip_prefix(':') else { return Ok(after) };
    if std::mem::replace(ellipsis, true) {
        return Err(("multiple :: in address", after));
    }
    Ok(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each result is that of kube-apiserver.
    #[test]
    fn errors_are_those_of_go() {
        for (text, expected) in [
            ("a", "unable to parse IP"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("10.0.0.0/33", "unexpected character (at \"/33\")"),
            ("1:2", "address string too short"),
            ("::zz", "each colon-separated field must have at least one digit (at \"zz\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
        ] {
            assert_eq!(address_error(text), format!("ParseAddr({text:?}): {expected}"));
        }
        for (text, expected) in [
            ("x", "no '/'"),
            ("10.0.0.0/33", "prefix length out of range"),
            ("10.0.0.1/x", "bad bits after slash: \"x\""),
            ("10.0.0.1/", "bad bits after slash: \"\""),
        ] {
            let found = prefix_error(text, |address| address == "10.0.0.0" || address == "10.0.0.1");
            assert_eq!(found, format!("netip.ParsePrefix({text:?}): {expected}"));
        }
    }
}
