//! The grammar of label selectors.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ] | key ( "in" | "notin" ) "(" values ")"
//! ```
//!
//! Recursive descent with one token of lookahead. `in` and `notin` are operators only in operator position, so labels
//! may have these names. The error texts are kube-apiserver's.

use super::label::{Operator, Requirement};
use crate::names::label_key_errors;
use crate::status::FieldError;

/// A token of the grammar. `Error` is text that can be part of no selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorToken {
    Error,
    End,
    ClosedPar,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    GreaterThan,
    Identifier,
    In,
    LessThan,
    NotEquals,
    NotIn,
    OpenPar,
}

/// A part of a selector, or the message of the error.
type ParsedSelector<T> = Result<T, String>;

/// Parses a selector with one token of lookahead, like `labels.Parse` of apimachinery, whose errors it reproduces.
pub(super) fn parse(text: &str) -> ParsedSelector<Vec<Requirement>> {
    let mut parser = SelectorParser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            (SelectorToken::Identifier | SelectorToken::Not, _) => {
                requirements.push(parser.requirement_in_context()?)
            }
            (SelectorToken::End, _) => return Ok(requirements),
            (_, literal) => {
                return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
            }
        }
        match parser.take() {
            (SelectorToken::End, _) => return Ok(requirements),
            (SelectorToken::Comma, _) => parser.expect_requirement_after_comma()?,
            (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
        }
    }
}

/// The tokens of a selector and the position in them. The last token is followed by [`SelectorToken::End`].
struct SelectorParser {
    tokens: Vec<(SelectorToken, String)>,
    at: usize,
}

impl SelectorParser {
    /// The next token in operator position, where `in` and `notin` are operators.
    fn raw(&self) -> (SelectorToken, String) {
        self.tokens.get(self.at).cloned().unwrap_or((SelectorToken::End, String::new()))
    }

    /// The next token in the position of a name or value.
    fn peek(&self) -> (SelectorToken, String) {
        let (token, literal) = self.raw();
        (
            if matches!(token, SelectorToken::In | SelectorToken::NotIn) {
                SelectorToken::Identifier
            } else {
                token
            },
            literal,
        )
    }

    /// Consumes a name, a value or a separator.
    fn take(&mut self) -> (SelectorToken, String) {
        let next = self.peek();
        self.at += 1;
        next
    }

    /// Consumes an operator.
    fn take_operator(&mut self) -> (SelectorToken, String) {
        let next = self.raw();
        self.at += 1;
        next
    }

    /// A comma at the end is an error, although the empty selector is none.
    fn expect_requirement_after_comma(&self) -> ParsedSelector<()> {
        match self.peek() {
            (SelectorToken::Identifier | SelectorToken::Not, _) => Ok(()),
            (_, literal) => Err(format!("found '{literal}', expected: identifier after ','")),
        }
    }

    /// A requirement, with apimachinery's prefix for its errors.
    fn requirement_in_context(&mut self) -> ParsedSelector<Requirement> {
        self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))
    }

    /// A key alone requires the presence of the label, `!key` its absence.
    fn requirement(&mut self) -> ParsedSelector<Requirement> {
        let (key, negated) = self.key()?;
        let unary = matches!(self.peek().0, SelectorToken::End | SelectorToken::Comma);
        let (operator, values) = match (negated, unary) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => self.operator_and_values()?,
        };
        Requirement::new(&key, operator, values).map_err(|e| e.0)
    }

    /// The key of a requirement, and true if `!` is before it. The key is checked here, before the operator is read, as
    /// in apimachinery.
    fn key(&mut self) -> ParsedSelector<(String, bool)> {
        let (mut token, mut literal) = self.take();
        let negated = token == SelectorToken::Not;
        if negated {
            (token, literal) = self.take();
        }
        if token != SelectorToken::Identifier {
            return Err(format!("found '{literal}', expected: identifier"));
        }
        let errors = label_key_errors(&literal);
        if !errors.is_empty() {
            return Err(FieldError::invalid("", literal, errors.join("; ")).to_string());
        }
        Ok((literal, negated))
    }

    /// The operator behind a key and what it compares with. Equality takes one value, `in` and `notin` a list.
    fn operator_and_values(&mut self) -> ParsedSelector<(Operator, Vec<String>)> {
        let (token, literal) = self.take_operator();
        let operator = match token {
            SelectorToken::In => return Ok((Operator::In, self.values()?)),
            SelectorToken::NotIn => return Ok((Operator::NotIn, self.values()?)),
            SelectorToken::Equals => Operator::Equals,
            SelectorToken::DoubleEquals => Operator::DoubleEquals,
            SelectorToken::NotEquals => Operator::NotEquals,
            SelectorToken::GreaterThan => Operator::GreaterThan,
            SelectorToken::LessThan => Operator::LessThan,
            _ => return Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        Ok((operator, vec![self.exact_value()?]))
    }

    /// The value of a comparison. Nothing before a comma or the end is the empty value.
    fn exact_value(&mut self) -> ParsedSelector<String> {
        if matches!(self.peek().0, SelectorToken::End | SelectorToken::Comma) {
            return Ok(String::new());
        }
        match self.take() {
            (SelectorToken::Identifier, literal) => Ok(literal),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }

    /// The values of `in` and `notin`. Empty parentheses are one empty value.
    fn values(&mut self) -> ParsedSelector<Vec<String>> {
        match self.take() {
            (SelectorToken::OpenPar, _) => {}
            (_, literal) => return Err(format!("found '{literal}' expected: '('")),
        }
        match self.peek() {
            (SelectorToken::ClosedPar, _) => {
                self.take();
                Ok(vec![String::new()])
            }
            (SelectorToken::Identifier | SelectorToken::Comma, _) => self.value_list(),
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    /// Up to and with the closing parenthesis; nothing between two commas is the empty value.
    fn value_list(&mut self) -> ParsedSelector<Vec<String>> {
        let mut values = Vec::new();
        loop {
            match self.take() {
                (SelectorToken::Identifier, literal) => values.push(literal),
                (SelectorToken::Comma, _) => {
                    if values.is_empty()
                        || matches!(self.peek().0, SelectorToken::ClosedPar | SelectorToken::Comma)
                    {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        SelectorToken::Comma => self.at += 1,
                        SelectorToken::ClosedPar => {
                            self.at += 1;
                            return Ok(values);
                        }
                        _ => {}
                    }
                    continue;
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
            match self.peek() {
                (SelectorToken::Comma, _) => {}
                (SelectorToken::ClosedPar, _) => {
                    self.at += 1;
                    return Ok(values);
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
            }
        }
    }
}

/// Splits a text into tokens. Linear: each character is looked at once.
fn tokens(text: &str) -> Vec<(SelectorToken, String)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else { return tokens };
        let (token, length) = if is_special(first) { special(rest) } else { word(rest) };
        let (literal, tail) = rest.split_at(length);
        tokens.push((token, literal.to_owned()));
        rest = tail;
    }
}

/// Characters that end a word and are tokens, or begin one.
fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// A key, a value or an operator of letters, up to a blank or a special character.
fn word(text: &str) -> (SelectorToken, usize) {
    let end = text.find(|c| is_special(c) || matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(text.len());
    let token = match text.get(..end) {
        Some("in") => SelectorToken::In,
        Some("notin") => SelectorToken::NotIn,
        // kube-apiserver's lexer reads bytes up to a NUL, which ends its input; it is nothing a key or value may hold.
        Some(word) if word.contains('\0') => SelectorToken::Error,
        _ => SelectorToken::Identifier,
    };
    (token, end)
}

/// The token of an operator or separator, the longest that fits.
fn special(text: &str) -> (SelectorToken, usize) {
    let two = match text.get(..2) {
        Some("==") => Some(SelectorToken::DoubleEquals),
        Some("!=") => Some(SelectorToken::NotEquals),
        _ => None,
    };
    if let Some(token) = two {
        return (token, 2);
    }
    let token = match text.chars().next() {
        Some('=') => SelectorToken::Equals,
        Some('!') => SelectorToken::Not,
        Some('(') => SelectorToken::OpenPar,
        Some(')') => SelectorToken::ClosedPar,
        Some(',') => SelectorToken::Comma,
        Some('>') => SelectorToken::GreaterThan,
        Some('<') => SelectorToken::LessThan,
        _ => SelectorToken::Error,
    };
    (token, 1)
}

#[cfg(test)]
mod tests {
    use crate::selector::LabelSelector;

    #[test]
    fn refusals_have_the_messages_of_kube_apiserver() {
        for (text, expected) in [
            ("app==a==b", "found '==', expected: ',' or 'end of string'"),
            ("app in a", "unable to parse requirement: found 'a' expected: '('"),
            ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("app=a,,b", "found ',', expected: identifier after ','"),
            ("bad key!", "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt"),
            ("app=has space", "found 'space', expected: ',' or 'end of string'"),
            ("app in (a,!)", "unable to parse requirement: found '!', expected: ',', or identifier"),
            (
                "n>abc",
                "unable to parse requirement: values[0]: Invalid value: \"abc\": for 'Gt', 'Lt' operators, the value must be \
                 an integer",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ] {
            assert_eq!(text.parse::<LabelSelector>().unwrap_err().0, expected, "{text}");
        }
    }

    #[test]
    fn empty_values_stand_between_commas() {
        for (text, printed) in [
            ("a in ()", "a in ()"),
            ("a in (,)", "a in ()"),
            ("a in (,b)", "a in (,b)"),
            ("a in (b,)", "a in (,b)"),
            ("a in (b,,c)", "a in (,b,c)"),
            ("a=", "a="),
            ("in in (in,notin)", "in in (in,notin)"),
            (" a  ,\tb ", "a,b"),
        ] {
            assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn absent_labels_meet_negative_requirements_only() {
        let absent = |text: &str| text.parse::<LabelSelector>().unwrap().matches(|_| None);
        assert!(["a!=b", "a notin (b)", "!a", ""].iter().all(|t| absent(t)));
        assert!(!["a=b", "a in (b)", "a", "a>1", "a<1", "a="].iter().any(|t| absent(t)));
    }

    #[test]
    fn numbers_compare_as_numbers() {
        let seven = |text: &str, label: &str| text.parse::<LabelSelector>().unwrap().matches(|_| Some(label));
        assert!(seven("n>7", "10") && !seven("n>7", "7") && seven("n<7", "-1") && !seven("n>7", "x"));
    }
}
