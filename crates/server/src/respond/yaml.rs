//! YAML as kube-apiserver writes it: keys in order, strings plain where unambiguous, long strings folded.
//!
//! The rules of quoting and folding are those of libyaml, and of what YAML 1.1 takes for a number, a time, a boolean or null.
//! Reading YAML is in `pipeline/yaml.rs`. Pure.

use std::cmp::Ordering;
use std::fmt::Write as _;

use listwatch_wire::json::{Map, Value};

use super::yaml_style::{TextStyle, YamlTextForm, is_printable};

/// A line is broken at the first space beyond this column.
const WIDTH: usize = 80;
/// Spaces per level.
const STEP: usize = 2;

/// Writes a document.
pub(crate) fn write(value: &Value) -> Vec<u8> {
    let mut writer = YamlWriter { out: String::new(), column: 0 };
    match value {
        Value::Object(map) if !map.is_empty() => writer.map(map, 0),
        Value::Array(items) if !items.is_empty() => writer.list(items, 0),
        other => {
            writer.scalar(other, 0);
            writer.line();
        }
    }
    writer.out.into_bytes()
}

/// Recursion is as deep as the document, which the JSON reader has bounded.
struct YamlWriter {
    out: String,
    /// Characters since the last line break.
    column: usize,
}

impl YamlWriter {
    /// Writes text without a line break in it. Columns are counted in characters, as libyaml does.
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    /// Ends the line.
    fn line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Begins a line with so many spaces.
    fn indent(&mut self, depth: usize) {
        self.out.extend(std::iter::repeat_n(' ', depth));
        self.column = depth;
    }

    /// Continues on the next line, indented.
    fn break_line(&mut self, depth: usize) {
        self.line();
        self.indent(depth);
    }

    /// The entries of a map. The first begins at the current position: after a dash or on a new line.
    ///
    /// Keys are sorted once more, because the order of sigs.k8s.io/yaml is not that of JSON (see [`natural`]).
    fn map(&mut self, map: &Map, depth: usize) {
        let mut fields: Vec<(&str, &Value)> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
        fields.sort_by(|(a, _), (b, _)| natural(a, b));
        for (index, (key, value)) in fields.into_iter().enumerate() {
            if index > 0 {
                self.indent(depth);
            }
            self.key(key);
            self.put(":");
            self.value(value, depth);
        }
    }

    /// A value after its key: containers begin on a line of their own, a list at the depth of its key.
    fn value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.break_line(depth + STEP);
                self.map(map, depth + STEP);
            }
            Value::Array(items) if !items.is_empty() => {
                self.break_line(depth);
                self.list(items, depth);
            }
            other => {
                self.put(" ");
                self.scalar(other, depth + STEP);
                self.line();
            }
        }
    }

    /// The elements of a list. Lists and maps in it begin behind the dash.
    fn list(&mut self, items: &[Value], depth: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.indent(depth);
            }
            self.put("- ");
            match item {
                Value::Object(map) if !map.is_empty() => self.map(map, depth + STEP),
                Value::Array(items) if !items.is_empty() => self.list(items, depth + STEP),
                other => {
                    self.scalar(other, depth + STEP);
                    self.line();
                }
            }
        }
    }

    /// Keys are never folded or written as blocks.
    fn key(&mut self, key: &str) {
        let form = YamlTextForm::of(key);
        match form.style(key) {
            TextStyle::Plain => self.put(key),
            TextStyle::Single => self.put(&format!("'{}'", key.replace('\'', "''"))),
            TextStyle::Literal | TextStyle::Double => self.double(key, None),
        }
    }

    /// A value on one line, or text in the style that fits it. Maps and lists are empty here.
    fn scalar(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) => self.text(text, depth),
            Value::Object(_) => self.put("{}"),
            Value::Array(_) => self.put("[]"),
            other => self.put(&other.to_string()),
        }
    }

    /// A string in the first style of libyaml that can hold it.
    fn text(&mut self, text: &str, depth: usize) {
        match YamlTextForm::of(text).style(text) {
            TextStyle::Plain => self.folded(text, depth, |out, character| out.push(character)),
            TextStyle::Single => {
                self.put("'");
                self.folded(text, depth, |out, character| match character {
                    '\'' => out.push_str("''"),
                    other => out.push(other),
                });
                self.put("'");
            }
            TextStyle::Double => self.double(text, Some(depth)),
            TextStyle::Literal => self.literal(text, depth),
        }
    }

    /// Text on as many lines as it takes.
    /// A break replaces a space between words, never one of several: a reader would not get them back.
    fn folded(&mut self, text: &str, depth: usize, write: impl Fn(&mut String, char)) {
        let characters: Vec<char> = text.chars().collect();
        let mut spaces = false;
        for (index, &character) in characters.iter().enumerate() {
            let next = characters.get(index + 1);
            let inside = index > 0 && next.is_some_and(|next| *next != ' ');
            if character == ' ' && !spaces && self.column > WIDTH && inside {
                self.break_line(depth);
            } else {
                let before = self.out.len();
                write(&mut self.out, character);
                self.column += self.out.get(before..).map_or(1, |written| written.chars().count());
            }
            spaces = character == ' ';
        }
    }

    /// Text in which everything can be written. A key stays on its line.
    fn double(&mut self, text: &str, depth: Option<usize>) {
        self.put("\"");
        let characters: Vec<char> = text.chars().collect();
        let mut spaces = false;
        for (index, &character) in characters.iter().enumerate() {
            let next = characters.get(index + 1);
            let inside = index > 0 && next.is_some();
            if let Some(depth) =
                depth.filter(|_| character == ' ' && !spaces && self.column > WIDTH && inside)
            {
                self.break_line(depth);
                if next == Some(&' ') {
                    self.put("\\");
                }
            } else {
                self.escaped(character);
            }
            spaces = character == ' ';
        }
        self.put("\"");
    }

    /// A character between double quotes: as itself if it can be printed, by its short escape, or by its number.
    fn escaped(&mut self, character: char) {
        let short = match character {
            '\0' => "\\0",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            '\u{1b}' => "\\e",
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{85}' => "\\N",
            '\u{a0}' => "\\_",
            '\u{2028}' => "\\L",
            '\u{2029}' => "\\P",
            printable if is_printable(printable) => return self.put(printable.encode_utf8(&mut [0; 4])),
            other => {
                let mut escaped = String::new();
                let _ = match u32::from(other) {
                    code @ ..=0xff => write!(escaped, "\\x{code:02X}"),
                    code @ ..=0xffff => write!(escaped, "\\u{code:04X}"),
                    code => write!(escaped, "\\U{code:08X}"),
                };
                return self.put(&escaped);
            }
        };
        self.put(short);
    }

    /// Text of several lines, as it is.
    ///
    /// The hint after the bar says how many newlines the end has, and the indentation if the text begins with a
    /// space.
    fn literal(&mut self, text: &str, depth: usize) {
        self.put("|");
        if text.starts_with([' ', '\n']) {
            self.put(&STEP.to_string());
        }
        match text.strip_suffix('\n') {
            None => self.put("-"),
            Some("") => self.put("+"),
            Some(rest) if rest.ends_with('\n') => self.put("+"),
            Some(_) => {}
        }
        let lines = text.strip_suffix('\n').unwrap_or(text);
        for line in lines.split('\n') {
            self.line();
            if !line.is_empty() {
                self.indent(depth);
                self.put(line);
            }
        }
    }
}

/// The order of keys: letters after all else, numbers by what they count.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    let (Some(&first), Some(&second)) = (a.get(at), b.get(at)) else { return a.len().cmp(&b.len()) };
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, true) => first.cmp(&second),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            // A zero inside a longer number counts as a digit of it.
            let before = a.get(..at).unwrap_or_default().iter().rev().take_while(|c| c.is_ascii_digit());
            let inside = (first == '0' || second == '0') && before.into_iter().any(|c| *c != '0');
            let number = |text: &[char]| {
                let digits: Vec<i64> = text.iter().map_while(|c| c.to_digit(10)).map(i64::from).collect();
                let start = i64::from(inside);
                let value = digits.iter().fold(start, |sum, digit| sum.wrapping_mul(10).wrapping_add(*digit));
                (value, digits.len())
            };
            let (left, right) =
                (number(a.get(at..).unwrap_or_default()), number(b.get(at..).unwrap_or_default()));
            left.cmp(&right).then(first.cmp(&second))
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn text(value: &Value) -> String {
        String::from_utf8(write(value)).unwrap()
    }

    #[test]
    fn text_is_quoted_only_where_it_must_be() {
        let value = json!({
            "f:a": {".": {}}, "k": "1", "time": "2020-01-01T00:00:00Z", "yes": "yes", "empty": "", "no": null, "n": 1.5,
            "colon": "a: b", "quote": "it's", "hash": "a #b", "dash": "- a", "space": " a", "tab": "a\tb", "list": [], "plain": "a-b_c/d:e",
        });
        let expected = "colon: 'a: b'\ndash: '- a'\nempty: \"\"\nf:a:\n  .: {}\nhash: 'a #b'\nk: \"1\"\nlist: []\n\"n\": 1.5\n\"no\": null\n\
            plain: a-b_c/d:e\nquote: it's\nspace: ' a'\ntab: \"a\\tb\"\ntime: \"2020-01-01T00:00:00Z\"\n\"yes\": \"yes\"\n";
        assert_eq!(text(&value), expected);
    }

    #[test]
    fn long_text_is_folded_beyond_the_eightieth_column() {
        let words = "Invalid value: \"A_\": a lowercase RFC 1123 subdomain must consist of lower case characters, '-' or '.'";
        let value = json!({"causes": [{"field": "metadata.name", "message": words}]});
        let expected = "causes:\n- field: metadata.name\n  message: 'Invalid value: \"A_\": a lowercase RFC 1123 subdomain must consist of lower\n    \
            case characters, ''-'' or ''.'''\n";
        assert_eq!(text(&value), expected);
    }

    #[test]
    fn lines_are_kept_and_numbers_in_keys_count() {
        let value = json!({"m": "406: Not Acceptable\n\nmore", "a10": "x\n", "a2": [["b"]]});
        assert_eq!(text(&value), "a2:\n- - b\na10: |\n  x\nm: |-\n  406: Not Acceptable\n\n  more\n");
    }
}
