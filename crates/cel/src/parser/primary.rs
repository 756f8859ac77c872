//! Primary expressions: names, calls, structs, lists, maps and literals.
//!
//! The operators around them are in `parser`. Bad literals and reserved names leave the structure clear, so they are
//! collected instead of ending the parse.

use super::lexer::LexToken;
use super::{CelParser, OPERANDS, ParsedNode, RESERVED, unescape};
use crate::ast::{AstKind, Literal, MapEntry};

impl CelParser<'_, '_> {
    /// A name, a literal or something in brackets.
    pub(super) fn primary(&mut self) -> ParsedNode {
        let first = self.peek();
        let start = if self.at(".") { 1 } else { 0 };
        if self.ahead(start).token == LexToken::Ident {
            return self.named(start == 1);
        }
        match first.token {
            LexToken::Sign("(") => {
                self.advance();
                let inside = self.expression()?;
                self.expect(")")?;
                Ok(inside)
            }
            LexToken::Sign("[") => self.list(),
            LexToken::Sign("{") => self.map(),
            _ => self.literal(),
        }
    }

    /// A name, a call or a struct.
    fn named(&mut self, rooted: bool) -> ParsedNode {
        let dot = if rooted { self.advance().text } else { "" };
        if let Some(steps) = self.struct_ahead() {
            return self.structure(dot, steps);
        }
        let name = self.advance();
        let text = format!("{dot}{}", name.text);
        if RESERVED.contains(&name.text) {
            let missing = self.report(name.at, &format!("reserved identifier: {}", name.text));
            if self.eat("(").is_some() {
                self.arguments()?;
            }
            return Ok(missing);
        }
        match self.eat("(") {
            Some(open) => {
                let args = self.arguments()?;
                self.invoke(&text, None, args, open)
            }
            None => self.add(AstKind::Ident(text.into()), name.at),
        }
    }

    /// The number of names before the brace, if a struct literal begins here.
    ///
    /// Looks as far as the dotted name goes; each name of a chain is looked at once more by `member`.
    fn struct_ahead(&self) -> Option<usize> {
        let mut names = 1;
        loop {
            match self.ahead(names * 2 - 1).token {
                LexToken::Sign("{") => return Some(names),
                LexToken::Sign(".") if self.ahead(names * 2).token == LexToken::Ident => names += 1,
                _ => return None,
            }
        }
    }

    /// The construction of an object: a dotted name and its fields.
    fn structure(&mut self, dot: &str, names: usize) -> ParsedNode {
        let mut name = dot.to_owned();
        for _ in 0..names * 2 - 1 {
            name.push_str(self.advance().text);
        }
        let open = self.expect("{")?;
        self.lone_comma("}");
        let mut fields = Vec::new();
        while self.eat("}").is_none() {
            let optional = self.eat("?").is_some();
            let key = self.advance();
            if !matches!(key.token, LexToken::Ident | LexToken::Escaped) {
                return self.syntax(key.at, &format!("mismatched input '{}' expecting '}}'", key.text));
            }
            let at = self.expect(":")?;
            let value = self.expression()?;
            fields.push(MapEntry { key: key.text.trim_matches('`').into(), value, optional, at });
            self.separator("}")?;
        }
        self.add(AstKind::Struct { name: name.into(), fields }, open)
    }

    /// A comma, or nothing before the end.
    fn separator(&mut self, end: &str) -> ParsedNode<()> {
        if self.eat(",").is_some() || self.at(end) { Ok(()) } else { self.expect(end).map(|_| ()) }
    }

    /// Skips the comma of a literal that has no element, which the grammar allows.
    fn lone_comma(&mut self, end: &str) {
        if self.at(",") && matches!(self.ahead(1).token, LexToken::Sign(sign) if sign == end) {
            self.advance();
        }
    }

    /// A list literal, with optional elements (`[?a]`) and a trailing comma allowed.
    fn list(&mut self) -> ParsedNode {
        let at = self.advance().at;
        self.lone_comma("]");
        let (mut items, mut optional) = (Vec::new(), Vec::new());
        while self.eat("]").is_none() {
            if self.eat("?").is_some() {
                optional.push(items.len());
            }
            items.push(self.expression()?);
            self.separator("]")?;
        }
        self.add(AstKind::List { items, optional }, at)
    }

    /// A map literal, with optional entries (`{?'a': b}`) and a trailing comma allowed.
    fn map(&mut self) -> ParsedNode {
        let open = self.advance().at;
        self.lone_comma("}");
        let mut entries = Vec::new();
        while self.eat("}").is_none() {
            let optional = self.eat("?").is_some();
            let key = self.expression()?;
            let at = self.expect(":")?;
            let value = self.expression()?;
            entries.push(MapEntry { key, value, optional, at });
            self.separator("}")?;
        }
        self.add(AstKind::Map(entries), open)
    }

    /// A literal. One that is out of range is reported and does not stop the parser.
    ///
    /// A minus before a number belongs to it, so that the smallest integer can be written.
    fn literal(&mut self) -> ParsedNode {
        let first = self.peek();
        let sign = if self.eat("-").is_some() { "-" } else { "" };
        let lexeme = self.advance();
        let text = lexeme.text;
        let literal = match lexeme.token {
            LexToken::Int => integer(text, sign).map(Literal::Int).ok_or("invalid int literal"),
            LexToken::Uint => unsigned(text).map(Literal::Uint).ok_or("invalid uint literal"),
            LexToken::Double => double(text, sign).map(Literal::Double).ok_or("invalid double literal"),
            LexToken::String => unescape::literal(text, false),
            LexToken::Bytes => unescape::literal(text, true),
            LexToken::Sign("true") => Ok(Literal::Bool(true)),
            LexToken::Sign("false") => Ok(Literal::Bool(false)),
            LexToken::Sign("null") => Ok(Literal::Null),
            _ => {
                let message = format!("mismatched input '{text}' expecting {OPERANDS}");
                return self.syntax(lexeme.at, &message);
            }
        };
        match literal {
            Ok(literal) => self.add(AstKind::Literal(literal), first.at),
            Err(message) => Ok(self.report(first.at, message)),
        }
    }
}

/// The sign belongs to the text, since the smallest integer has no positive counterpart.
fn integer(text: &str, sign: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

/// `0x` is hexadecimal; a trailing `u` is part of the literal.
fn unsigned(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['u', 'U']);
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A number beyond the range is an error and no infinity.
fn double(text: &str, sign: &str) -> Option<f64> {
    format!("{sign}{text}").parse().ok().filter(|number: &f64| number.is_finite())
}
