//! The position of the parser in its tokens, and the two ways to report an error there.
//!
//! The position never goes back, so parsing is linear in the number of tokens. Messages are those of ANTLR's generated
//! parser, which users of kube-apiserver see.

use super::lexer::{LexToken, Lexeme};
use super::{CelParser, ParseStopped, ParsedNode};
use crate::ast::{AstKind, Id};

impl<'s> CelParser<'s, '_> {
    pub(super) fn peek(&self) -> Lexeme<'s> {
        self.ahead(0)
    }

    /// Beyond the end, the last token: `End`, with its place.
    pub(super) fn ahead(&self, by: usize) -> Lexeme<'s> {
        let end = Lexeme { token: LexToken::End, text: "<EOF>", at: 0 };
        self.tokens.get(self.next + by).or(self.tokens.last()).copied().unwrap_or(end)
    }

    /// Consumes a token. The last one, the end, is never consumed.
    pub(super) fn advance(&mut self) -> Lexeme<'s> {
        let lexeme = self.peek();
        self.next += 1;
        lexeme
    }

    /// True if the next token is this sign.
    pub(super) fn at(&self, sign: &str) -> bool {
        matches!(self.peek().token, LexToken::Sign(found) if found == sign)
    }

    /// Consumes a sign if it is next, and returns its position.
    pub(super) fn eat(&mut self, sign: &str) -> Option<usize> {
        self.at(sign).then(|| self.advance().at)
    }

    /// The two messages are ANTLR's: at the end of the text the token is missing, elsewhere another one is in its
    /// place.
    pub(super) fn expect(&mut self, sign: &str) -> ParsedNode<usize> {
        match self.eat(sign) {
            Some(at) => Ok(at),
            None => {
                let found = self.peek();
                let text = found.text;
                let message = match found.token {
                    LexToken::End => format!("mismatched input '{text}' expecting '{sign}'"),
                    _ => format!("extraneous input '{text}' expecting '{sign}'"),
                };
                self.syntax(found.at, &message)
            }
        }
    }

    /// Nothing may follow an expression.
    pub(super) fn end(&mut self) -> ParsedNode<()> {
        let found = self.peek();
        match found.token {
            LexToken::End => Ok(()),
            _ => self.syntax(found.at, &format!("extraneous input '{}' expecting <EOF>", found.text)),
        }
    }

    /// Reports an error and stops: no attempt is made to find more.
    pub(super) fn syntax<T>(&mut self, at: usize, message: &str) -> ParsedNode<T> {
        self.issues.push(Some(at), format!("Syntax error: {message}"));
        Err(ParseStopped)
    }

    /// Reports an error that leaves the structure clear.
    pub(super) fn report(&mut self, at: usize, message: &str) -> Id {
        self.issues.push(Some(at), message);
        self.ast.add(AstKind::Missing, at)
    }
}
