//! Parsing of the JSONPath of printer columns. [`path`](super::path) evaluates the result.
//!
//! The grammar is client-go's, without its braces: a definition has the path only. What it cannot parse was refused with the
//! definition, so None, an empty cell, is enough of an error here.

use listwatch_wire::json::Value;

use super::path::{ColumnStep, FilterStep, SliceStep};

/// Parses a path.
pub(super) fn path(text: &str) -> Option<Vec<ColumnStep>> {
    let (mut steps, mut rest) = (Vec::new(), text);
    while let Some(next) = rest.chars().next() {
        rest = match next {
            '[' if rest.starts_with("[?(") => filter(rest, &mut steps)?,
            '[' => array(rest, &mut steps)?,
            '.' if rest.starts_with("..") => recursive(rest, &mut steps)?,
            '.' => field(rest.get(1..)?, &mut steps),
            ' ' | '@' | '$' => rest.get(1..)?,
            '"' | '\'' => quoted(rest, next, &mut steps)?,
            '+' | '-' | '0'..='9' => number(rest, &mut steps)?,
            _ => truth(rest, &mut steps)?,
        };
    }
    Some(steps)
}

/// Tracks which characters are escaped by a backslash.
#[derive(Default)]
struct EscapeState(bool);

impl EscapeState {
    fn is_literal(&mut self, c: char) -> bool {
        let literal = self.0;
        self.0 = c == '\\' && !literal;
        literal
    }
}

/// True for the characters that end a field or a word.
fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Reads a field name up to the next terminator; a backslash escapes a character.
fn field<'a>(text: &'a str, steps: &mut Vec<ColumnStep>) -> &'a str {
    let mut escape = EscapeState::default();
    let end = text.find(|c: char| {
        let literal = escape.is_literal(c);
        !literal && is_terminator(c)
    });
    let (name, left) = text.split_at(end.unwrap_or(text.len()));
    steps.push(if name == "*" { ColumnStep::Wildcard } else { ColumnStep::Field(name.replace('\\', "")) });
    left
}

/// Reads `..`, and the name behind it if there is one.
fn recursive<'a>(text: &'a str, steps: &mut Vec<ColumnStep>) -> Option<&'a str> {
    if steps.last() == Some(&ColumnStep::Recursive) {
        return None;
    }
    let left = text.get(2..)?;
    steps.push(ColumnStep::Recursive);
    let named = left.starts_with(|c: char| c == '_' || c.is_alphanumeric());
    Some(if named { field(left, steps) } else { left })
}

/// Reads `[…]`: a union, a quoted name, an index or a slice.
fn array<'a>(text: &'a str, steps: &mut Vec<ColumnStep>) -> Option<&'a str> {
    let (inside, left) = text.get(1..)?.split_once(']')?;
    if inside.contains(',') {
        let paths = inside.split(',').map(|part| path(&format!("[{}]", part.trim_matches(' '))));
        steps.push(ColumnStep::Union(paths.collect::<Option<_>>()?));
    } else if let Some(name) = inside.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')) {
        // client-go reads the name as a path, so that dots in it have to be escaped.
        steps.extend(path(&format!(".{name}"))?);
    } else {
        steps.push(ColumnStep::Slice(slice(if inside == "*" { ":" } else { inside })?));
    }
    Some(left)
}

/// Reads an index or `start:end:step`, each part of which may be missing.
fn slice(text: &str) -> Option<SliceStep> {
    let mut parts = text.split(':');
    let mut bound = || match parts.next() {
        None => Some(None),
        Some("") => Some(Some(None)),
        Some(number) => number.parse::<i64>().ok().map(|number| Some(Some(number))),
    };
    let (start, end, step) = (bound()?.flatten().unwrap_or(0), bound()?, bound()?);
    let is_index = end.is_none();
    let end = end.unwrap_or(Some(start.saturating_add(1)));
    parts.next().is_none().then_some(SliceStep { start, end, is_index, step: step.flatten() })
}

/// Reads `[?(left operator right)]` or `[?(left)]`. A parenthesis inside of quotes does not end it.
fn filter<'a>(text: &'a str, steps: &mut Vec<ColumnStep>) -> Option<&'a str> {
    let text = text.strip_prefix("[?(")?;
    let mut quote = None;
    let mut escape = EscapeState::default();
    let end = text.find(|c: char| {
        let literal = escape.is_literal(c);
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open && !literal => quote = None,
            _ => {}
        }
        c == ')' && quote.is_none()
    })?;
    let (inside, left) = (text.get(..end)?, text.get(end..)?.strip_prefix(")]")?);
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let step = match inside.find(is_operator).filter(|&at| at > 0) {
        None => FilterStep { left: path(inside)?, comparison: None },
        Some(at) => {
            let (first, rest) = inside.split_at(at);
            let (operator, second) = rest.split_at(rest.find(|c| !is_operator(c))?);
            FilterStep { left: path(first)?, comparison: Some((operator.to_owned(), path(second)?)) }
        }
    };
    steps.push(ColumnStep::Filter(step));
    Some(left)
}

fn quoted<'a>(text: &'a str, quote: char, steps: &mut Vec<ColumnStep>) -> Option<&'a str> {
    let inside = text.get(1..)?;
    let mut escape = EscapeState::default();
    let end = inside.find(|c: char| !escape.is_literal(c) && c == quote)?;
    let unescaped = inside.get(..end)?.replace("\\\\", "\u{0}").replace('\\', "").replace('\u{0}', "\\");
    steps.push(ColumnStep::Literal(unescaped.into()));
    inside.get(end + 1..)
}

fn number<'a>(text: &'a str, steps: &mut Vec<ColumnStep>) -> Option<&'a str> {
    let end = text
        .char_indices()
        .find(|&(at, c)| !(c == '.' || c.is_ascii_digit() || (at == 0 && matches!(c, '+' | '-'))));
    let (number, left) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    let literal = match number.parse::<i64>() {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(number.parse::<f64>().ok()?),
    };
    steps.push(ColumnStep::Literal(literal));
    Some(left)
}

/// Reads `true` or `false`. No other word has a meaning in a column.
fn truth<'a>(text: &'a str, steps: &mut Vec<ColumnStep>) -> Option<&'a str> {
    let (word, left) = text.split_at(text.find(is_terminator).unwrap_or(text.len()));
    steps.push(ColumnStep::Literal(word.parse::<bool>().ok()?.into()));
    Some(left)
}
