//! From text to a syntax tree: a recursive-descent parser with kube-apiserver's limits.
//!
//! Macros (`has`, `all`, `map`, …) are expanded here, see `macros`. The first syntax error ends parsing; errors that leave
//! the structure clear (reserved names, bad literals, bad macro arguments) are collected.
//!
//! The grammar has eight ranks of operators. Ranks that can be chained are loops, so the stack grows with brackets
//! and nested conditionals only. Nesting is counted per rule like in cel-go's ANTLR listener, so that the same
//! expressions are refused.

mod cursor;
mod lexer;
mod macros;
mod primary;
mod unescape;

pub(crate) use macros::ACCUMULATOR;

use listwatch_wire::json::Text;

use crate::ast::{Ast, AstKind, Id, Literal};
use crate::issues::Issues;
use lexer::{LexToken, Lexeme};

/// Bounds on what is parsed. Expressions come from users, and everything after the parser recurses over the tree.
///
/// The first two are visible in error messages and are cel-go's; the others have no counterpart there and are far
/// above what the first two allow in ordinary expressions.
#[derive(Clone, Copy, Debug)]
pub struct ParserLimits {
    /// The longest expression in code points; cel-go's default.
    pub code_points: usize,
    /// The deepest nesting of one grammar rule; cel-go's default.
    pub recursion: usize,
    /// The most nodes, macros expanded. Chains of `optMap` double with each link.
    pub nodes: usize,
    /// The highest tree, macros expanded. Everything that walks trees recurses this deep at most.
    pub height: u32,
}

impl Default for ParserLimits {
    fn default() -> Self {
        Self { code_points: 100_000, recursion: 250, nodes: 400_000, height: 600 }
    }
}

/// Words that the language reserves.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The tokens that can begin an operand, as ANTLR lists them.
const OPERANDS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                        BYTES, IDENTIFIER}";

/// Parsing cannot continue; the error has been reported.
///
/// Carries nothing: everything about the error is in [`Issues`].
struct ParseStopped;

type ParsedNode<T = Id> = Result<T, ParseStopped>;

/// Parses an expression.
///
/// Linear in the source, apart from macros that copy a part of the tree.
///
/// # Errors
///
/// All that was found up to the first syntax error.
pub(crate) fn parse(source: &str, limits: &ParserLimits) -> Result<Ast, Issues> {
    let mut issues = Issues::new(source);
    let size = source.chars().count();
    if size > limits.code_points {
        let limit = limits.code_points;
        issues.push(None, format!("expression code point size exceeds limit: size: {size}, limit {limit}"));
        return Err(issues);
    }
    let tokens = lexer::tokens(source, &mut issues);
    let mut parser =
        CelParser { tokens: &tokens, next: 0, ast: Ast::default(), issues, limits, depths: [0; 4] };
    let root = parser.expression();
    if let Ok(root) = root {
        parser.ast.root = root;
        let _ = parser.end();
    }
    if parser.issues.is_empty() { Ok(parser.ast) } else { Err(parser.issues) }
}

/// The rules of the grammar whose nesting is counted.
#[derive(Clone, Copy)]
enum GrammarRule {
    Expression,
    Relation,
    Calculation,
    Member,
}

/// A recursive descent parser with the precedence of the CEL specification.
///
/// Depth is counted by grammar rule, as cel-go's ANTLR parser does, so that the same expressions are too deep.
struct CelParser<'s, 'l> {
    tokens: &'l [Lexeme<'s>],
    /// Index of the next token. It never goes back.
    next: usize,
    /// The tree so far; nodes come after their parts.
    ast: Ast,
    issues: Issues,
    limits: &'l ParserLimits,
    /// By [`GrammarRule`].
    depths: [usize; 4],
}

impl<'s> CelParser<'s, '_> {
    /// Balanced by [`CelParser::leave`], except after an error, which ends parsing anyway.
    fn enter(&mut self, rule: GrammarRule) -> ParsedNode<()> {
        let depth = self.depths.get_mut(rule as usize).ok_or(ParseStopped)?;
        *depth += 1;
        let limit = self.limits.recursion;
        if *depth > limit {
            self.issues.push(None, format!("expression recursion limit exceeded: {limit}"));
            return Err(ParseStopped);
        }
        Ok(())
    }

    /// Takes levels back when a rule is done.
    fn leave(&mut self, rule: GrammarRule, levels: usize) {
        if let Some(depth) = self.depths.get_mut(rule as usize) {
            *depth = depth.saturating_sub(levels);
        }
    }

    /// Adds a node within the limits.
    fn add(&mut self, kind: AstKind, at: usize) -> ParsedNode {
        let id = self.ast.add(kind, at);
        if self.ast.len() > self.limits.nodes || self.ast.height(id) > self.limits.height {
            self.issues.push(None, "expression is too large");
            return Err(ParseStopped);
        }
        Ok(id)
    }

    /// Operators are calls of functions under their own names, such as `_+_`.
    fn call(&mut self, function: &str, args: Vec<Id>, at: usize) -> ParsedNode {
        self.add(AstKind::Call { function: function.into(), target: None, args }, at)
    }

    /// A conditional is nested to the right, so a chain of them counts towards the limit of nesting.
    fn expression(&mut self) -> ParsedNode {
        self.enter(GrammarRule::Expression)?;
        let mut result = self.logic("||")?;
        if let Some(at) = self.eat("?") {
            let yes = self.logic("||")?;
            self.expect(":")?;
            let no = self.expression()?;
            result = self.call("_?_:_", vec![result, yes, no], at)?;
        }
        self.leave(GrammarRule::Expression, 1);
        Ok(result)
    }

    /// Terms joined by `||` or `&&`, as a balanced tree: chains may be long.
    fn logic(&mut self, sign: &str) -> ParsedNode {
        let term = |parser: &mut Self| if sign == "||" { parser.logic("&&") } else { parser.relation() };
        let mut terms = vec![term(self)?];
        let mut signs = Vec::new();
        while let Some(at) = self.eat(sign) {
            terms.push(term(self)?);
            signs.push(at);
        }
        let function = if sign == "||" { "_||_" } else { "_&&_" };
        self.balance(function, &terms, &signs)
    }

    /// Halves are parsed in the order of the text and joined from the middle, so a chain of n terms has a height of
    /// log n. cel-go balances the same way, which keeps costs and limits equal.
    fn balance(&mut self, function: &str, terms: &[Id], signs: &[usize]) -> ParsedNode {
        let middle = signs.len() / 2;
        match (terms.first(), signs.get(middle)) {
            (Some(only), None) => Ok(*only),
            (Some(_), Some(at)) => {
                let (left, right) = terms.split_at_checked(middle + 1).ok_or(ParseStopped)?;
                let (before, after) = signs.split_at_checked(middle).ok_or(ParseStopped)?;
                let left = self.balance(function, left, before)?;
                let right = self.balance(function, right, after.get(1..).unwrap_or(&[]))?;
                self.call(function, vec![left, right], *at)
            }
            _ => Err(ParseStopped),
        }
    }

    /// Comparisons and `in`, which have one rank and associate to the left.
    fn relation(&mut self) -> ParsedNode {
        const SIGNS: [(&str, &str); 7] = [
            ("<", "_<_"),
            ("<=", "_<=_"),
            (">=", "_>=_"),
            (">", "_>_"),
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("in", "@in"),
        ];
        self.enter(GrammarRule::Relation)?;
        let result = self.chain(GrammarRule::Relation, &SIGNS, Self::sum)?;
        self.leave(GrammarRule::Relation, 1);
        Ok(result)
    }

    /// Sums. Each rank counts its own recursion, as in cel-go's grammar, so that the limit is reached by the same
    /// expressions.
    fn sum(&mut self) -> ParsedNode {
        self.enter(GrammarRule::Calculation)?;
        let result = self.chain(GrammarRule::Calculation, &[("+", "_+_"), ("-", "_-_")], Self::product)?;
        self.leave(GrammarRule::Calculation, 1);
        Ok(result)
    }

    fn product(&mut self) -> ParsedNode {
        self.chain(GrammarRule::Calculation, &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")], Self::unary)
    }

    /// Operands joined by operators of one rank, the left ones first.
    fn chain(
        &mut self,
        rule: GrammarRule,
        signs: &[(&str, &str)],
        operand: fn(&mut Self) -> ParsedNode,
    ) -> ParsedNode {
        let mut result = operand(self)?;
        let mut levels = 0;
        while let Some((_, function)) = signs.iter().find(|(sign, _)| self.at(sign)) {
            self.enter(rule)?;
            levels += 1;
            let at = self.advance().at;
            let right = operand(self)?;
            result = self.call(function, vec![result, right], at)?;
        }
        self.leave(rule, levels);
        Ok(result)
    }

    /// Signs before a member. Repeated signs cancel each other out, as in cel-go.
    fn unary(&mut self) -> ParsedNode {
        let sign = match self.peek().token {
            LexToken::Sign("!") => "!",
            // A number takes the last minus as its own sign.
            LexToken::Sign("-") if !matches!(self.ahead(1).token, LexToken::Int | LexToken::Double) => "-",
            _ => return self.member(),
        };
        let (at, mut count) = (self.peek().at, 0);
        while self.eat(sign).is_some() {
            count += 1;
        }
        let operand = self.member()?;
        match (count % 2, sign) {
            (0, _) => Ok(operand),
            (_, "!") => self.call("!_", vec![operand], at),
            _ => self.call("-_", vec![operand], at),
        }
    }

    /// Selections, calls and indexes after a primary expression, in a loop, because chains can be long.
    fn member(&mut self) -> ParsedNode {
        self.enter(GrammarRule::Member)?;
        let mut result = self.primary()?;
        let mut levels = 1;
        loop {
            result = if let Some(at) = self.eat(".") {
                self.selection(result, at)?
            } else if let Some(at) = self.eat("[") {
                let function = if self.eat("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                self.call(function, vec![result, index], at)?
            } else {
                break;
            };
            self.enter(GrammarRule::Member)?;
            levels += 1;
        }
        self.leave(GrammarRule::Member, levels);
        Ok(result)
    }

    /// A field or a method after a dot.
    fn selection(&mut self, operand: Id, at: usize) -> ParsedNode {
        let optional = self.eat("?").is_some();
        let name = self.advance();
        let field: Text = match name.token {
            LexToken::Ident => name.text.into(),
            LexToken::Escaped => name.text.trim_matches('`').into(),
            _ => return self.syntax(name.at, &format!("no viable alternative at input '.{}'", name.text)),
        };
        if optional {
            let field = self.add(AstKind::Literal(Literal::String(field)), name.at)?;
            return self.call("_?._", vec![operand, field], at);
        }
        match (name.token, self.eat("(")) {
            (LexToken::Ident, Some(open)) => {
                let args = self.arguments()?;
                self.invoke(&field, Some(operand), args, open)
            }
            (_, Some(open)) => self.syntax(open, "mismatched input '(' expecting <EOF>"),
            (_, None) => self.add(AstKind::Select { operand, field, test: false }, at),
        }
    }

    /// A call, or what its macro expands to.
    fn invoke(&mut self, function: &str, target: Option<Id>, args: Vec<Id>, at: usize) -> ParsedNode {
        match macros::expand(self, function, target, &args, at)? {
            Some(expanded) => Ok(expanded),
            None => self.add(AstKind::Call { function: function.into(), target, args }, at),
        }
    }

    /// The arguments of a call, up to and with the closing parenthesis.
    fn arguments(&mut self) -> ParsedNode<Vec<Id>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.eat(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }
}
