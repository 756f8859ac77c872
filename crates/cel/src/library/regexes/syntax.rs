//! The syntax of Go's regular expressions: what is refused, and with which words.
//!
//! The engine accepts more than Go does (`a**`, `a{2000}`) and words its errors differently, while definitions that one
//! server accepts must be accepted by the other. One pass over the pattern, without recursion.

/// The largest number of repetitions in Go, nested ones multiplied.
const MAX_REPEAT: u64 = 1000;

/// Names of classes such as `[:alpha:]`.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

type SyntaxResult<T> = Result<T, String>;

/// Checks a pattern.
///
/// # Errors
///
/// Go's message, if Go does not compile it.
pub(super) fn check(pattern: &str) -> SyntaxResult<()> {
    let mut parser = Parser { whole: pattern, current: Group::default(), outer: Vec::new() };
    let (mut rest, mut last_repeat) = (pattern, "");
    while let Some(first) = rest.chars().next() {
        let before = rest;
        let is_repeat;
        (rest, is_repeat) = parser.step(first, rest, last_repeat)?;
        last_repeat = if is_repeat { before } else { "" };
    }
    if parser.outer.is_empty() { Ok(()) } else { Err(error("missing closing )", pattern)) }
}

/// One open group: whether there is something to repeat, and how often that is repeated already.
#[derive(Default)]
struct Group {
    has_operand: bool,
    /// Repetitions inside of the last operand, multiplied along the nesting.
    last: u64,
    /// The largest such number of all operands.
    largest: u64,
}

impl Group {
    fn push(&mut self, repetitions: u64) {
        self.has_operand = true;
        self.last = repetitions;
        self.largest = self.largest.max(repetitions);
    }
}

struct Parser<'a> {
    whole: &'a str,
    current: Group,
    outer: Vec<Group>,
}

impl<'a> Parser<'a> {
    /// Reads one element, and returns the rest and true if the element is a repetition.
    fn step(&mut self, first: char, rest: &'a str, last_repeat: &'a str) -> SyntaxResult<(&'a str, bool)> {
        let after = skip(rest, first.len_utf8());
        let repeat = match first {
            '*' | '+' | '?' => Some((after, 1)),
            '{' => counts(rest)?,
            _ => None,
        };
        if let Some((after, times)) = repeat {
            return Ok((self.repeat(rest, after, times, last_repeat)?, true));
        }
        let after = match first {
            '(' => return Ok((self.open(rest)?, false)),
            ')' => {
                self.close()?;
                return Ok((after, false));
            }
            '|' => {
                self.current.has_operand = false;
                return Ok((after, false));
            }
            '[' => class(rest)?,
            '\\' => match escaped_element(rest)? {
                Some(after) => after,
                // Quoted text without characters is not an operand.
                None => return Ok((quoted(rest).1, false)),
            },
            _ => after,
        };
        self.current.push(1);
        Ok((after, false))
    }

    /// Applies a repetition to the last operand.
    fn repeat(
        &mut self,
        before: &str,
        after: &'a str,
        times: u64,
        last_repeat: &str,
    ) -> SyntaxResult<&'a str> {
        let after = after.strip_prefix('?').unwrap_or(after);
        if !last_repeat.is_empty() {
            return Err(error("invalid nested repetition operator", until(last_repeat, after)));
        }
        let group = &mut self.current;
        if !group.has_operand {
            return Err(error("missing argument to repetition operator", until(before, after)));
        }
        let product = group.last.max(1).saturating_mul(times.max(1));
        if times >= 2 && product > MAX_REPEAT {
            return Err(error("invalid repeat count", until(before, after)));
        }
        group.push(product);
        Ok(after)
    }

    /// Opens a group, or sets flags, which is not an element.
    fn open(&mut self, rest: &'a str) -> SyntaxResult<&'a str> {
        let Some(special) = rest.strip_prefix("(?") else {
            self.outer.push(std::mem::take(&mut self.current));
            return Ok(skip(rest, 1));
        };
        let (after, opens) = match special.strip_prefix("P<").or_else(|| special.strip_prefix('<')) {
            Some(named) if !named.is_empty() => (name(rest, named)?, true),
            _ => flags(rest, special)?,
        };
        if opens {
            self.outer.push(std::mem::take(&mut self.current));
        }
        Ok(after)
    }

    fn close(&mut self) -> SyntaxResult<()> {
        let Some(outer) = self.outer.pop() else { return Err(error("unexpected )", self.whole)) };
        let inner = std::mem::replace(&mut self.current, outer);
        self.current.push(inner.largest.max(1));
        Ok(())
    }
}

fn error(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}

fn skip(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or("")
}

/// The part of `text` before its end `after`.
fn until<'t>(text: &'t str, after: &str) -> &'t str {
    text.get(..text.len().saturating_sub(after.len())).unwrap_or(text)
}

/// Reads counts such as `{2,3}`, and returns the rest and the larger number. Braces with anything else are literal.
fn counts(rest: &str) -> SyntaxResult<Option<(&str, u64)>> {
    let inside = rest.strip_prefix('{').unwrap_or("");
    let end = inside.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(inside.len());
    let (inside, after) = inside.split_at(end);
    let Some(after) = after.strip_prefix('}') else { return Ok(None) };
    let (least, most) = match inside.split_once(',') {
        Some((least, "")) => (number(least), Some(None)),
        Some((least, most)) => (number(least), number(most).map(Some)),
        None => (number(inside), number(inside).map(Some)),
    };
    let (Some(least), Some(most)) = (least, most) else { return Ok(None) };
    let largest = most.unwrap_or(least);
    if least > MAX_REPEAT || largest > MAX_REPEAT || least > largest {
        return Err(error("invalid repeat count", until(rest, after)));
    }
    Ok(Some((after, largest)))
}

/// A decimal number without leading zeros. One that is too long is larger than any that is allowed.
fn number(digits: &str) -> Option<u64> {
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    let valid = !digits.is_empty() && !leading_zero && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Reads the name of a group, after its `<`.
fn name<'a>(rest: &'a str, named: &'a str) -> SyntaxResult<&'a str> {
    let Some((name, after)) = named.split_once('>') else { return Err(error("invalid named capture", rest)) };
    let valid = !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    if valid { Ok(after) } else { Err(error("invalid named capture", until(rest, after))) }
}

/// Reads flags, and returns true if they open a group (`(?i:`) rather than hold for the rest of this one (`(?i)`).
fn flags<'a>(rest: &'a str, special: &'a str) -> SyntaxResult<(&'a str, bool)> {
    let (mut negated, mut seen) = (false, false);
    for (at, c) in special.char_indices() {
        let after = skip(special, at + c.len_utf8());
        match c {
            'i' | 'm' | 's' | 'U' => seen = true,
            '-' if !negated => (negated, seen) = (true, false),
            ':' | ')' if !negated || seen => return Ok((after, c == ':')),
            _ => return Err(error("invalid or unsupported Perl syntax", until(rest, after))),
        }
    }
    Err(error("invalid or unsupported Perl syntax", rest))
}

/// Reads an element that begins with a backslash; `None` if it is quoted text without characters.
fn escaped_element(rest: &str) -> SyntaxResult<Option<&str>> {
    match rest.chars().nth(1) {
        Some('A' | 'b' | 'B' | 'z') => Ok(Some(skip(rest, 2))),
        Some('C') => Err(error("invalid escape sequence", until(rest, skip(rest, 2)))),
        Some('Q') => {
            let (text, after) = quoted(rest);
            Ok((!text.is_empty()).then_some(after))
        }
        _ => match set(rest)? {
            Some(after) => Ok(Some(after)),
            None => escape(rest).map(|(_, after)| Some(after)),
        },
    }
}

/// The text between `\Q` and `\E`, and the rest.
fn quoted(rest: &str) -> (&str, &str) {
    let text = skip(rest, 2);
    text.split_once("\\E").unwrap_or((text, ""))
}

/// Reads a set of characters such as `\d` or `\pL`.
fn set(rest: &str) -> SyntaxResult<Option<&str>> {
    match rest.strip_prefix('\\').and_then(|rest| rest.chars().next()) {
        Some('d' | 'D' | 's' | 'S' | 'w' | 'W') => Ok(Some(skip(rest, 2))),
        Some('p' | 'P') => unicode_set(rest).map(Some),
        _ => Ok(None),
    }
}

/// Reads `\pL` or `\p{Greek}`. The names are resolved by the engine.
fn unicode_set(rest: &str) -> SyntaxResult<&str> {
    let text = skip(rest, 2);
    let after = match text.strip_prefix('{') {
        Some(inside) => match inside.split_once('}') {
            Some((_, after)) => after,
            None => return Err(error("invalid character class range", rest)),
        },
        None => skip(text, text.chars().next().map_or(0, char::len_utf8)),
    };
    Ok(after)
}

/// Reads an escaped character, and returns it and the rest.
fn escape(rest: &str) -> SyntaxResult<(char, &str)> {
    let text = skip(rest, 1);
    let Some(first) = text.chars().next() else {
        return Err(error("trailing backslash at end of expression", ""));
    };
    let after = skip(text, first.len_utf8());
    let octal = |c: char| c.is_digit(8);
    match first {
        '0'..='7' if first == '0' || after.starts_with(octal) => {
            let digits = text.chars().take(3).take_while(|c| octal(*c)).count();
            Ok((character(text.get(..digits).unwrap_or(""), 8), skip(text, digits)))
        }
        'x' => hexadecimal(rest, after),
        'a' | 'f' | 'n' | 'r' | 't' | 'v' => Ok((control(first), after)),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok((c, after)),
        _ => Err(error("invalid escape sequence", until(rest, after))),
    }
}

fn control(letter: char) -> char {
    match letter {
        'a' => '\u{7}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => '\u{b}',
    }
}

fn character(digits: &str, radix: u32) -> char {
    u32::from_str_radix(digits, radix).ok().and_then(char::from_u32).unwrap_or_default()
}

/// Reads what follows `\x`: two digits, or several in braces.
fn hexadecimal<'a>(rest: &'a str, after: &'a str) -> SyntaxResult<(char, &'a str)> {
    let hex = |c: char| c.is_ascii_hexdigit();
    let wrong = |read: usize| Err(error("invalid escape sequence", until(rest, skip(after, read))));
    if let Some(inside) = after.strip_prefix('{') {
        let digits = inside.chars().take_while(|c| hex(*c)).count();
        let found = inside.get(..digits).unwrap_or("");
        let in_range = u32::from_str_radix(found, 16).is_ok_and(|code| code <= 0x10_FFFF);
        let closed = skip(inside, digits).starts_with('}');
        if in_range && closed {
            return Ok((character(found, 16), skip(inside, digits + 1)));
        }
        let next = skip(inside, digits).chars().next().map_or(0, char::len_utf8);
        return wrong(1 + digits + next);
    }
    let digits = after.chars().take(2).take_while(|c| hex(*c)).count();
    if digits == 2 {
        return Ok((character(after.get(..2).unwrap_or(""), 16), skip(after, 2)));
    }
    wrong(after.chars().take(digits + 1).map(char::len_utf8).sum())
}

/// Reads a class such as `[a-z]`.
fn class(rest: &str) -> SyntaxResult<&str> {
    let mut text = skip(rest, 1);
    text = text.strip_prefix('^').unwrap_or(text);
    let mut first = true;
    while first || !text.starts_with(']') {
        first = false;
        text = class_part(text, rest)?;
    }
    Ok(skip(text, 1))
}

/// Reads one part of a class: a named class, a set, a character or a range.
fn class_part<'a>(text: &'a str, class: &'a str) -> SyntaxResult<&'a str> {
    let named = text.strip_prefix("[:").and_then(|rest| Some((rest, super::beginning(rest).find(":]")?)));
    if let Some((name, after)) = named.and_then(|(rest, end)| Some((rest.get(..end)?, rest.get(end + 2..)?)))
    {
        if POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Ok(after);
        }
        return Err(error("invalid character class range", until(text, after)));
    }
    if let Some(after) = set(text)? {
        return Ok(after);
    }
    let (low, after) = class_character(text, class)?;
    match after.strip_prefix('-') {
        Some(end) if !end.is_empty() && !end.starts_with(']') => {
            let (high, after) = class_character(end, class)?;
            if high < low {
                return Err(error("invalid character class range", until(text, after)));
            }
            Ok(after)
        }
        _ => Ok(after),
    }
}

fn class_character<'a>(text: &'a str, class: &'a str) -> SyntaxResult<(char, &'a str)> {
    match text.chars().next() {
        None => Err(error("missing closing ]", class)),
        Some('\\') => escape(text),
        Some(c) => Ok((c, skip(text, c.len_utf8()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each result is that of kube-apiserver for a pattern of a schema.
    #[test]
    fn errors_are_those_of_go() {
        for (pattern, expected) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){20}", "invalid repeat count: `{20}`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*{2}", "invalid nested repetition operator: `*{2}`"),
            ("[a", "missing closing ]: `[a`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("(?P<a b>x)", "invalid named capture: `(?P<a b>`"),
            ("\\x{110000}", "invalid escape sequence: `\\x{110000}`"),
        ] {
            assert_eq!(check(pattern), Err(format!("error parsing regexp: {expected}")), "{pattern}");
        }
    }

    #[test]
    fn what_go_compiles_is_valid() {
        for pattern in [
            "",
            "a*?b",
            "(?i:a)|b",
            "(?P<n>a)(?<m>b)",
            "[]a]",
            "[a-]",
            "a{,2}",
            "x{",
            "\\Qa(\\E",
            "\\x41\\x{41}\\101",
            "[^\\d[:alpha:]]",
            "(?i)a(?-s)",
            "^(a{2}){3}$",
            "\\pL\\p{Greek}",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }
}
