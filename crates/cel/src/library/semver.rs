//! The `semver` library: semantic versions (`semver('1.2.3')`), with Kubernetes' lenient form.
//!
//! Parsing and messages follow `blang/semver`, which Kubernetes uses. The lenient form (`semver('v1.2', true)`) drops a
//! leading `v` and leading zeros and fills in missing numbers. Order follows semver.org: a pre-release comes before its
//! release, and build metadata does not count. The comparison functions are shared with `quantity`, because they have
//! the same names.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::value::Value;

/// A semantic version without its build metadata, which does not count in comparisons.
#[derive(Clone, Debug)]
pub struct Semver {
    numbers: [u64; 3],
    /// Empty for a release, which comes after all of its pre-releases.
    pre: Vec<PreReleasePart>,
}

/// A part of a pre-release. Numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PreReleasePart {
    Number(u64),
    Word(String),
}

impl Semver {
    /// The order of two versions. Build metadata does not count.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let pre = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then(pre)
    }
}

/// Returns the functions on semantic versions. The second argument of `semver` allows a leading `v` and missing
/// numbers.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "semver" => |_, args| match args {
            [Value::String(text)] => parse(text).map(|version| Value::Semver(Arc::new(version))),
            [Value::String(text), Value::Bool(lenient)] => {
                read(text, *lenient).map(|version| Value::Semver(Arc::new(version)))
            }
            _ => Err(no_overload("semver", args)),
        },
        "isSemver" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
            [Value::String(text), Value::Bool(lenient)] => Ok(Value::Bool(read(text, *lenient).is_ok())),
            _ => Err(no_overload("isSemver", args)),
        },
        "major" => |_, args| number(args, "major", |[major, _, _]| *major),
        "minor" => |_, args| number(args, "minor", |[_, minor, _]| *minor),
        "patch" => |_, args| number(args, "patch", |[_, _, patch]| *patch),
        _ => return None,
    })
}

/// Returns one of the three numbers of a version.
fn number<'a>(args: &[Value<'a>], name: &str, part: fn(&[u64; 3]) -> u64) -> Evaluated<'a> {
    match args {
        [Value::Semver(version)] => Ok(Value::Int(part(&version.numbers).cast_signed())),
        _ => Err(no_overload(name, args)),
    }
}

/// Compares two quantities or two versions.
pub(super) fn ordered<'a>(
    args: &[Value<'a>],
    name: &str,
    result: fn(Ordering) -> Value<'a>,
) -> Evaluated<'a> {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(result(a.compare(b))),
        [Value::Semver(a), Value::Semver(b)] => Ok(result(a.compare(b))),
        _ => Err(no_overload(name, args)),
    }
}

/// Parses a version. `lenient` drops a leading `v` and leading zeros, and completes missing parts.
///
/// # Errors
///
/// With the messages of `blang/semver`.
fn read(text: &str, lenient: bool) -> Result<Semver, EvalError> {
    if lenient { parse(&normalized(text)?) } else { parse(text) }
}

/// Adds what is missing and drops what is too much: a leading `v`, leading zeros, absent numbers.
fn normalized(text: &str) -> Result<String, EvalError> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err(EvalError::new("short version cannot contain PreRelease/Build meta data"));
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

/// A lone zero stays, and so does one before a word.
fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

/// Parses a version strictly by semver 2.0, with the messages of `blang/semver`, which Kubernetes uses.
fn parse(text: &str) -> Result<Semver, EvalError> {
    if text.is_empty() {
        return Err(EvalError::new("Version string empty"));
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts.as_slice() else {
        return Err(EvalError::new("No Major.Minor.Patch elements found"));
    };
    let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let numbers = [numeric(major, "major")?, numeric(minor, "minor")?, numeric(patch, "patch")?];
    let pre = pre.map(|pre| pre.split('.').map(pre_release).collect()).transpose()?;
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err(EvalError::new("Build meta data is empty"));
        }
        if !part.chars().all(is_word) {
            return Err(EvalError::new(format!("Invalid character(s) found in build meta data {part:?}")));
        }
    }
    Ok(Semver { numbers, pre: pre.unwrap_or_default() })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// Reads one of the three numbers: digits without a leading zero. Error texts are those of the Go library that
/// Kubernetes uses.
fn numeric(text: &str, name: &str) -> Result<u64, EvalError> {
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit()) {
        return Err(EvalError::new(format!("Invalid character(s) found in {name} number {text:?}")));
    }
    if text.len() > 1 && text.starts_with('0') {
        let (first, rest) = name.split_at_checked(1).unwrap_or((name, ""));
        let name = first.to_ascii_uppercase() + rest;
        return Err(EvalError::new(format!("{name} number must not contain leading zeroes {text:?}")));
    }
    let beyond = |_| EvalError::new(format!("strconv.ParseUint: parsing {text:?}: value out of range"));
    text.parse().map_err(beyond)
}

/// Parses one part of a pre-release. Numbers and words are ordered differently.
fn pre_release(part: &str) -> Result<PreReleasePart, EvalError> {
    if part.is_empty() {
        return Err(EvalError::new("Prerelease is empty"));
    }
    if part.chars().all(|c| c.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            let message = format!("Numeric PreRelease version must not contain leading zeroes {part:?}");
            return Err(EvalError::new(message));
        }
        let beyond = |_| EvalError::new(format!("strconv.ParseUint: parsing {part:?}: value out of range"));
        return part.parse().map(PreReleasePart::Number).map_err(beyond);
    }
    if !part.chars().all(is_word) {
        return Err(EvalError::new(format!("Invalid character(s) found in prerelease {part:?}")));
    }
    Ok(PreReleasePart::Word(part.to_owned()))
}
