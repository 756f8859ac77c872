//! The `url` library: URLs, read as Go's `url.ParseRequestURI` reads them.
//!
//! Only absolute URLs and absolute paths are accepted. Parts are returned as written: the path stays escaped, the host
//! keeps its port, and `getQuery` decodes. The checks are those of Go and not of the WHATWG standard, since a policy
//! must accept here what it accepts in kube-apiserver.

use std::sync::Arc;

use super::operators::map_of;
use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::value::{Str, Value};

/// A URL in its parts, each as it was written.
///
/// User and fragment are kept for comparisons only; no function of the library reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    user: Option<String>,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

impl Url {
    /// Reads a URL that is absolute or a path.
    ///
    /// # Errors
    /// The message, with Go's text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("parse {text:?}: {why}");
        if text.chars().any(|c| c < ' ' || c == '\x7f') {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        let (scheme, rest) = scheme(text).map_err(wrong)?;
        if scheme.is_empty() && !rest.starts_with('/') {
            return Err(wrong("invalid URI for request"));
        }
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            // Opaque, such as `mailto:a@b`: there is a scheme, and nothing that could be taken apart.
            return Ok(Self {
                scheme: scheme.to_ascii_lowercase(),
                query: query.to_owned(),
                fragment: rest.to_owned(),
                ..Self::default()
            });
        }
        let (authority, path) = split_authority(rest, !scheme.is_empty());
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        check_host(host).map_err(|why| wrong(&why))?;
        if let Some(bad) = bad_escape(path) {
            return Err(wrong(&format!("invalid URL escape {bad:?}")));
        }
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: user.map(str::to_owned),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
        })
    }

    /// Without port and without the brackets of an IPv6 address.
    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some((inside, _)) => inside,
            None => self.host.split_once(':').map_or(&self.host, |(name, _)| name),
        }
    }

    /// Without brackets of an IPv6 address, whose colons are not ports.
    fn port(&self) -> &str {
        let after = self.host.rfind(']').and_then(|at| self.host.get(at + 1..)).unwrap_or(&self.host);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Pairs that do not decode are dropped, as `url.Values` does; the order of first occurrence is kept.
    fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (unescape(key), unescape(value)) else { continue };
            let at = *places.entry(key.clone()).or_insert_with(|| {
                pairs.push((key, Vec::new()));
                pairs.len() - 1
            });
            if let Some((_, values)) = pairs.get_mut(at) {
                values.push(value);
            }
        }
        pairs
    }
}

/// Splits the authority from the path. Without a scheme, three slashes begin a path.
fn split_authority(rest: &str, has_scheme: bool) -> (&str, &str) {
    match rest.strip_prefix("//") {
        Some(after) if has_scheme || !rest.starts_with("///") => {
            let end = after.find('/').unwrap_or(after.len());
            after.split_at_checked(end).unwrap_or((after, ""))
        }
        _ => ("", rest),
    }
}

/// The scheme and what follows it.
fn scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((text.get(..at).unwrap_or(""), text.get(at + 1..).unwrap_or(""))),
            _ => break,
        }
    }
    Ok(("", text))
}

/// Checks the host of a URL as Go's `net/url` does, with its errors.
fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(inside) => {
            let (_, after) = inside.split_once(']').ok_or("missing ']' in host")?;
            after
        }
        None => host.find(':').and_then(|at| host.get(at..)).unwrap_or(""),
    };
    let digits = port.strip_prefix(':').is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()));
    if !port.is_empty() && !digits {
        return Err(format!("invalid port {port:?} after host"));
    }
    if let Some(bad) = bad_escape(host).or_else(|| needless_escape(host)) {
        return Err(format!("invalid URL escape {bad:?}"));
    }
    match host.chars().find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')) {
        Some(bad) => Err(format!("invalid character {:?} in host name", bad.to_string())),
        None => Ok(()),
    }
}

/// An escape in a host that stands for an ASCII character. Go allows only that of the percent sign.
fn needless_escape(host: &str) -> Option<&str> {
    let mut escapes = host.match_indices('%').filter_map(|(at, _)| host.get(at..at + 3));
    escapes.find(|escape| *escape != "%25" && escape.as_bytes().get(1).is_some_and(|digit| *digit < b'8'))
}

/// The first percent sign that is not followed by two digits.
fn bad_escape(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(at, _)| {
        let digits =
            text.get(at + 1..at + 3).is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if digits { None } else { Some(text.get(at..at + 3).or_else(|| text.get(at..)).unwrap_or("%")) }
    })
}

/// Decodes a query as Go's `url.QueryUnescape` does.
fn unescape(text: &str) -> Option<String> {
    if bad_escape(text).is_some() {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                high * 16 + low
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the functions on URLs.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "url" => |_, args| match args {
            [Value::String(text)] => {
                let wrong =
                    |why| EvalError::new(format!("URL parse error during conversion from string: {why}"));
                Url::parse(text).map(|url| Value::Url(Arc::new(url))).map_err(wrong)
            }
            _ => Err(no_overload("url", args)),
        },
        "isURL" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
            _ => Err(no_overload("isURL", args)),
        },
        "getScheme" => |_, args| part(args, "getScheme", |url| url.scheme.clone()),
        "getHost" => |_, args| part(args, "getHost", |url| url.host.clone()),
        "getHostname" => |_, args| part(args, "getHostname", |url| url.hostname().to_owned()),
        "getPort" => |_, args| part(args, "getPort", |url| url.port().to_owned()),
        "getEscapedPath" => |_, args| part(args, "getEscapedPath", |url| escaped_path(&url.path)),
        "getQuery" => |meter, args| match args {
            [Value::Url(url)] => {
                meter.work(url.query.len() as u64 * 4)?;
                let text = |text: String| Value::String(Str::from(text));
                let entries = url
                    .query()
                    .into_iter()
                    .map(|(key, values)| (text(key), Value::list(values.into_iter().map(text).collect())));
                map_of(entries.collect())
            }
            _ => Err(no_overload("getQuery", args)),
        },
        _ => return None,
    })
}

/// The path with invalid characters escaped.
fn escaped_path(path: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@!'()*%[]".contains(c);
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if allowed(c) {
            escaped.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    escaped
}

/// Parts are copied: a URL is shared and its texts are short.
fn part<'a>(args: &[Value<'a>], name: &str, part: fn(&Url) -> String) -> Evaluated<'a> {
    match args {
        [Value::Url(url)] => Ok(Value::String(Str::from(part(url)))),
        _ => Err(no_overload(name, args)),
    }
}
