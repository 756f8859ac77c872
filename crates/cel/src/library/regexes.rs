//! Regular expressions: `matches`, `find`, `findAll`, and patterns of schemas.
//!
//! Go's RE2 syntax is translated to that of the `regex` crate: classes such as `\d` are ASCII in Go, and braces that
//! repeat nothing are literal there. Both engines take time linear in the text, which is why a pattern of a user can be
//! run at all; patterns are limited to 16 KiB and their compiled size to 1 MiB. Each thread keeps up to 64 compiled
//! patterns, since the patterns of rules are constants.

mod syntax;

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Str, Value};

/// The longest pattern in bytes. Three bytes such as `\\pL` take 5 KB and microseconds to parse, so that a body full of them
/// would take gigabytes. kube-apiserver has no such limit.
const MAX_PATTERN: usize = 16 << 10;
/// The work of compiling one byte of a pattern.
const COMPILE_WORK: u64 = 100;
/// The longest name of a class such as `[:alpha:]` that is looked for. A search to the end of the pattern for every bracket
/// would be quadratic.
const MAX_CLASS_NAME: usize = 64;
/// The largest compiled pattern in bytes: what is written down once must not hold memory at will.
const MAX_COMPILED: usize = 1 << 20;
/// The number of compiled patterns that a thread keeps. Patterns of rules are constants, so that few are in use.
///
/// When it is reached, all are dropped: simpler than an order of use, and rare.
const KEPT: usize = 64;
/// Longer patterns are not kept.
const MAX_KEPT_LENGTH: usize = 1000;

thread_local! {
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::new(HashMap::new());
}

/// Returns the functions on regular expressions.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

/// Compiles a pattern of a schema, in Go's syntax.
///
/// Go's classes `\d`, `\w` and `\s` are ASCII, and a hundredth of Unicode's in size.
///
/// # Errors
/// Go's message if it is none, or too large.
pub fn pattern(pattern: &str) -> Result<Regex, EvalError> {
    compile(pattern)
}

/// Compiles a pattern.
///
/// # Errors
/// If it is none.
pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    if pattern.len() > MAX_PATTERN {
        return Err(EvalError::new("error parsing regexp: expression too large"));
    }
    syntax::check(pattern).map_err(EvalError::new)?;
    let wrong = |_| EvalError::new(format!("error parsing regexp: invalid pattern: `{pattern}`"));
    RegexBuilder::new(&translate(pattern)).size_limit(MAX_COMPILED).build().map_err(wrong)
}

/// Compilation is work and not part of the cost that users see; patterns that are constants pay for it once per thread.
fn with<T>(meter: &mut Meter, pattern: &str, run: impl FnOnce(&Regex) -> T) -> Result<T, EvalError> {
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(regex) = compiled.get(pattern) {
            return Ok(run(regex));
        }
        meter.work(COMPILE_WORK * pattern.len() as u64)?;
        let regex = compile(pattern)?;
        let result = run(&regex);
        if pattern.len() <= MAX_KEPT_LENGTH {
            if compiled.len() >= KEPT {
                compiled.clear();
            }
            compiled.insert(pattern.to_owned(), regex);
        }
        Ok(result)
    })
}

/// Tests a text for a match anywhere in it, as RE2's `MatchString`: a pattern that must match all of it has anchors.
fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else {
        return Err(no_overload("matches", args));
    };
    meter.work((text.len() + pattern.len()) as u64)?;
    with(meter, pattern, |regex| Value::Bool(regex.is_match(text)))
}

fn illegal(error: EvalError) -> EvalError {
    EvalError::new(format!("Illegal regex: {error}"))
}

/// Returns the first match, or an empty text.
fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return Err(no_overload("find", args)) };
    meter.work((text.len() + pattern.len()) as u64)?;
    let found = |regex: &Regex| regex.find(text).map(|found| found.as_str().to_owned()).unwrap_or_default();
    with(meter, pattern, found).map(|found| Value::String(Str::from(found))).map_err(illegal)
}

/// Eight bytes of work per byte of text, since every character may become a string of its own.
fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, pattern, most) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(most)] => (text, pattern, *most),
        _ => return Err(no_overload("findAll", args)),
    };
    meter.work((text.len() * 8 + pattern.len()) as u64)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = |regex: &Regex| {
        let all = regex.find_iter(text).take(most);
        Value::list(all.map(|found| Value::String(Str::from(found.as_str().to_owned()))).collect())
    };
    with(meter, pattern, found).map_err(illegal)
}

/// A pattern of Go in the syntax of the `regex` crate: classes such as `\d` are ASCII, braces and brackets that mean
/// nothing in Go are escaped.
///
/// Linear apart from look-behinds for braces. Unknown syntax is passed through, and the engine refuses it.
pub(crate) fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.char_indices().peekable();
    let mut in_class = false;
    let mut class_start = false;
    while let Some((at, c)) = chars.next() {
        let first = std::mem::take(&mut class_start);
        match c {
            '\\' => {
                let Some((_, escaped)) = chars.next() else {
                    out.push('\\');
                    break;
                };
                escape(escaped, in_class, &mut out);
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
                if chars.peek().is_some_and(|(_, next)| *next == '^') {
                    chars.next();
                    out.push('^');
                }
            }
            '[' if pattern.get(at..).is_some_and(|rest| rest.starts_with("[:")) => {
                let end = pattern.get(at..).and_then(|rest| beginning(rest).find(":]")).unwrap_or(0);
                out.push('[');
                while chars.peek().is_some_and(|(next, _)| *next < at + end + 2) {
                    out.extend(chars.next().map(|(_, c)| c));
                }
            }
            '[' => out.push_str("\\["),
            ']' if in_class && first => out.push_str("\\]"),
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '{' if !in_class
                && !is_repetition(pattern.get(at..).unwrap_or(""))
                && !after_name(pattern, at) =>
            {
                out.push_str("\\{");
            }
            '}' if !in_class && !closes_repetition(pattern, at) => out.push_str("\\}"),
            other => out.push(other),
        }
    }
    out
}

/// The part of a text in which the name of a class must end.
fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_CLASS_NAME)).unwrap_or(text)
}

/// Translates an escape of RE2, where classes are ASCII, into one of this crate's engine, where they are Unicode.
fn escape(escaped: char, in_class: bool, out: &mut String) {
    let plain = match (escaped, in_class) {
        ('d', false) => "[0-9]",
        ('D', false) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('W', false) => "[^0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\x0C\\r ]",
        ('S', false) => "[^\\t\\n\\x0C\\r ]",
        ('d', true) => "0-9",
        ('w', true) => "0-9A-Za-z_",
        ('s', true) => "\\t\\n\\x0C\\r ",
        ('b', false) => "(?-u:\\b)",
        _ => {
            out.push('\\');
            out.push(escaped);
            return;
        }
    };
    out.push_str(plain);
}

/// Returns true if a brace begins a repetition such as `{2,3}`.
fn is_repetition(rest: &str) -> bool {
    let inside = rest.get(1..).unwrap_or("");
    let after = inside.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
    let counts = inside.strip_suffix(after).unwrap_or("");
    after.starts_with('}')
        && !counts.starts_with(',')
        && !counts.is_empty()
        && counts.matches(',').count() < 2
}

/// Returns true if a closing brace ends a repetition, or an escape such as `\p{Greek}` or `\x{41}`.
fn closes_repetition(pattern: &str, at: usize) -> bool {
    let before = pattern.get(..at).unwrap_or("");
    let Some(open) = before.rfind('{') else { return false };
    after_name(pattern, open) || is_repetition(pattern.get(open..).unwrap_or(""))
}

/// Returns true if the brace follows `\\p`, `\\P` or `\\x`.
fn after_name(pattern: &str, at: usize) -> bool {
    pattern.get(..at).is_some_and(|head| ["\\p", "\\P", "\\x"].iter().any(|name| head.ends_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, expected) in [
            ("^\\d+$", "٣", false),
            ("^\\d+$", "3", true),
            ("^[\\w-]+$", "a-b_1", true),
            ("^[[]a]$", "[a]", true),
            ("a{", "a{", true),
            ("^a{2,3}$", "aaa", true),
            ("^\\p{Greek}$", "α", true),
            ("^[a&&b]+$", "a&b", true),
            ("^[[:alpha:]]+$", "ab", true),
            ("^.$", "ä", true),
            ("\\bfoo\\b", "a foo b", true),
            ("^[]a]$", "]", true),
        ] {
            assert_eq!(compile(pattern).map(|regex| regex.is_match(text)), Ok(expected), "{pattern}");
        }
        assert!(compile("(").is_err() && compile("a{2,1}").is_err() && compile("\\pX").is_err());
    }

    /// A body full of `\pL` took 2.4 GB, and one full of braces or brackets a minute.
    #[test]
    fn long_patterns_are_refused_and_others_cost_little() {
        assert!(compile(&"a".repeat(MAX_PATTERN)).is_ok());
        let refused = compile(&"a".repeat(MAX_PATTERN + 1)).unwrap_err().to_string();
        assert_eq!(refused, "error parsing regexp: expression too large");
        let begun = std::time::Instant::now();
        for part in ["{", "}", "[[:a", "[[:a]", "\\pL", "\\Q", "(", "a{1,2}", "[^"] {
            let _ = compile(&part.repeat(MAX_PATTERN / part.len()));
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[test]
    fn patterns_of_data_count_as_work() {
        let pattern = Value::String(Str::from("a".repeat(5_000)));
        let args = [Value::String(Str::from("a".to_owned())), pattern];
        let mut meter = Meter::new(1_000_000);
        let refused = (0..100).find_map(|_| matches(&mut meter, &args).err());
        assert_eq!(refused, Some(EvalError::over_limit()));
    }
}
