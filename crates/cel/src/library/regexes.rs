//! Regular expressions: `matches`, `find`, `findAll`, and patterns of schemas.
//!
//! Go's RE2 syntax is translated to that of the `regex` crate: classes such as `\d` are ASCII in Go, and braces that
//! repeat nothing are literal there. Both engines take time linear in the text, which is why a pattern of a user can be
//! run at all; patterns are limited to 16 KiB and their compiled size to 16 MiB. Compiled patterns are kept (`compiled`), since
//! the patterns of rules are constants.

mod compiled;
mod syntax;

use std::sync::Arc;

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Str, Value};
pub use compiled::{CompiledPattern, PatternAllowance};

/// The longest pattern in bytes. Three bytes such as `\\pL` take 5 KB and microseconds to parse, so that a body full of them
/// would take gigabytes. kube-apiserver has no such limit.
const MAX_PATTERN: usize = 16 << 10;
/// The work of parsing one byte of a pattern.
const PARSE_WORK: u64 = 100;
/// The longest name of a class such as `[:alpha:]` that is looked for. A search to the end of the pattern for every bracket
/// would be quadratic.
const MAX_CLASS_NAME: usize = 64;
/// The part of the rest of a text that each match of `findAll` counts. A search may read all of it before it finds the
/// next short match, which makes some patterns quadratic.
const REST_PER_MATCH: u64 = 8;

/// Returns the functions on regular expressions.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

/// Compiles a pattern in Go's syntax, unless it is kept.
///
/// Go's classes `\d`, `\w` and `\s` are ASCII, and a hundredth of Unicode's in size.
///
/// # Errors
/// Go's message if it is none, or too large.
pub fn pattern(pattern: &str) -> Result<Arc<CompiledPattern>, EvalError> {
    CompiledPattern::of(pattern)
}

/// Compilation is work and not part of the cost that users see; patterns that are kept have paid for it.
fn compiled(meter: &mut Meter, pattern: &str) -> Result<Arc<CompiledPattern>, EvalError> {
    if let Some(kept) = compiled::kept(pattern) {
        return kept;
    }
    meter.work(PARSE_WORK * pattern.len() as u64)?;
    let compiled = CompiledPattern::of(pattern);
    meter.work(compiled::pattern_effort(pattern))?;
    compiled
}

/// Tests a text for a match anywhere in it, as RE2's `MatchString`: a pattern that must match all of it has anchors.
fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else {
        return Err(no_overload("matches", args));
    };
    let pattern = compiled(meter, pattern)?;
    meter.work(pattern.search_work(text.len()))?;
    Ok(Value::Bool(pattern.is_match(text)))
}

fn illegal(error: EvalError) -> EvalError {
    if error.is_over_limit() { error } else { EvalError::new(format!("Illegal regex: {error}")) }
}

/// Returns the first match, or an empty text.
fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::String(pattern)] = args else { return Err(no_overload("find", args)) };
    let pattern = compiled(meter, pattern).map_err(illegal)?;
    meter.work(pattern.search_work(text.len()))?;
    let found = pattern.regex().find(&**text).and_then(|found| text.get(found.range())).unwrap_or_default();
    Ok(Value::String(Str::from(found.to_owned())))
}

/// Eight bytes of work per byte of text, since every character may become a string of its own.
fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, pattern, most) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(most)] => (text, pattern, *most),
        _ => return Err(no_overload("findAll", args)),
    };
    let pattern = compiled(meter, pattern).map_err(illegal)?;
    meter.work(pattern.search_work(text.len()).saturating_add(8 * text.len() as u64))?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for found in pattern.regex().find_iter(&**text).take(most) {
        meter.work(pattern.search_work(text.len() - found.end()) / REST_PER_MATCH)?;
        all.push(Value::String(Str::from(text.get(found.range()).unwrap_or_default().to_owned())));
    }
    Ok(Value::list(all))
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
    use super::pattern as compile;
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

    /// 40,000 characters took 1.4 s, and ten times as many a hundred times as long.
    #[test]
    fn matches_that_read_all_of_the_rest_count_as_work() {
        let text = |length: usize| Value::String(Str::from("A".repeat(length)));
        let pattern = || Value::String(Str::from("x.*y|.*[^A-Z]|[A-Z]"));
        let found = |length: usize| find_all(&mut Meter::new(1_000_000), &[text(length), pattern()]);
        assert!(found(1_000).is_ok());
        assert_eq!(found(40_000).err(), Some(EvalError::over_limit()));
        let words = [Value::String(Str::from("word ".repeat(1_000))), Value::String(Str::from("[a-z]+"))];
        assert!(find_all(&mut Meter::new(1_000_000), &words).is_ok());
    }

    #[test]
    fn patterns_of_data_count_as_work() {
        let mut meter = Meter::new(1_000_000);
        let refused = (0..100).find_map(|n| {
            let pattern = Value::String(Str::from(format!("{}{n}", "a".repeat(5_000))));
            matches(&mut meter, &[Value::String(Str::from("a")), pattern]).err()
        });
        assert_eq!(refused, Some(EvalError::over_limit()));
    }
}
