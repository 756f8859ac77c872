//! Macros: calls that stand for another expression, known by name and number of arguments.
//!
//! `has`, `all`, `exists`, `map`, `filter`, `sortBy`, `optMap` and their relatives become comprehensions (`Fold`) or
//! selections here, so that checker, cost and evaluator know loops in one form only. The expansion is cel-go's to the
//! node, since estimated and actual costs count its nodes. Names such as `@result` cannot be written by users. The copy
//! that `optMap` needs counts towards the limit of nodes.

use listwatch_wire::json::Text;

use super::{CelParser, ParseStopped, ParsedNode};
use crate::ast::{AstKind, Fold, Id, Literal};

/// The accumulator of every comprehension. Expressions cannot contain this name.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The variable of comprehensions that are made to bind a name, not to loop.
const UNUSED: &str = "#unused";
/// The name that the list of `sortBy` is bound to. Nested calls shadow it, which is right, since the inner one is
/// complete before the outer reads its own.
const SORT_INPUT: &str = "@__sortBy_input__";

/// Expands a call if it is a macro.
///
/// A call with another number of arguments is an ordinary call, so functions of the same name stay possible.
pub(super) fn expand(
    parser: &mut CelParser<'_, '_>,
    function: &str,
    target: Option<Id>,
    args: &[Id],
    at: usize,
) -> ParsedNode<Option<Id>> {
    let mut build = Builder { parser, at };
    let expanded = match (function, target, args) {
        ("has", None, [field]) => build.has(*field),
        ("all" | "exists" | "exists_one", Some(range), [variable, test]) => {
            build.quantifier(function, range, *variable, None, *test)
        }
        ("all" | "exists" | "exists_one" | "existsOne", Some(range), [first, second, test]) => {
            build.quantifier(function, range, *first, Some(*second), *test)
        }
        ("map", Some(range), [variable, test @ .., value]) if test.len() <= 1 => {
            build.list(range, (*variable, None), test.first().copied(), Some(*value))
        }
        ("filter", Some(range), [variable, test]) => build.list(range, (*variable, None), Some(*test), None),
        (
            "transformList" | "transformMap" | "transformMapEntry",
            Some(range),
            [first, second, test @ .., value],
        ) if test.len() <= 1 => {
            build.transform(function, range, (*first, *second), test.first().copied(), *value)
        }
        ("optMap" | "optFlatMap", Some(optional), [variable, value]) => {
            build.optional(function, optional, *variable, *value)
        }
        ("sortBy", Some(list), [variable, key]) => build.sort_by(list, *variable, *key),
        _ => return Ok(None),
    };
    expanded.map(Some)
}

/// Makes nodes at the place of the macro's call.
///
/// All nodes of an expansion have the place of the call, which is what errors about them point to.
struct Builder<'p, 's, 'l> {
    parser: &'p mut CelParser<'s, 'l>,
    at: usize,
}

impl Builder<'_, '_, '_> {
    fn add(&mut self, kind: AstKind) -> ParsedNode {
        self.parser.add(kind, self.at)
    }

    fn call(&mut self, function: &str, args: Vec<Id>) -> ParsedNode {
        self.add(AstKind::Call { function: function.into(), target: None, args })
    }

    /// A call with a target, as `a.f(b)`.
    fn method(&mut self, function: &str, target: Id, args: Vec<Id>) -> ParsedNode {
        self.add(AstKind::Call { function: function.into(), target: Some(target), args })
    }

    fn literal(&mut self, literal: Literal) -> ParsedNode {
        self.add(AstKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> ParsedNode {
        self.add(AstKind::Ident(name.into()))
    }

    /// The variable that a loop carries its result in.
    fn accumulator(&mut self) -> ParsedNode {
        self.ident(ACCUMULATOR)
    }

    fn items(&mut self, items: Vec<Id>) -> ParsedNode {
        self.add(AstKind::List { items, optional: Vec::new() })
    }

    /// The error takes the place of a node, so parsing continues and may find more errors.
    fn error(&mut self, at: Id, message: &str) -> ParsedNode {
        let at = self.parser.ast.node(at).at;
        Ok(self.parser.report(at, message))
    }

    /// Expands `has(a.b)` into a presence test. Only a field selection can be tested.
    fn has(&mut self, field: Id) -> ParsedNode {
        match self.parser.ast.kind(field).clone() {
            AstKind::Select { operand, field, test: false } => {
                self.add(AstKind::Select { operand, field, test: true })
            }
            _ => self.error(field, "invalid argument to has() macro"),
        }
    }

    /// The name of a variable, or the node of the error.
    fn variable(&mut self, id: Id, message: &str) -> ParsedNode<Result<Text, Id>> {
        match self.parser.ast.kind(id).clone() {
            AstKind::Ident(name) if name == "__result__" => {
                self.error(id, "iteration variable overwrites accumulator variable").map(Err)
            }
            AstKind::Ident(name) => Ok(Ok(name)),
            _ => self.error(id, message).map(Err),
        }
    }

    /// The names of one or two iteration variables, which must differ.
    fn variables(
        &mut self,
        (first, second): (Id, Option<Id>),
        message: &str,
    ) -> ParsedNode<Result<(Text, Option<Text>), Id>> {
        let name = match self.variable(first, message)? {
            Ok(name) => name,
            Err(error) => return Ok(Err(error)),
        };
        let Some(second) = second else { return Ok(Ok((name, None))) };
        match self.variable(second, message)? {
            Ok(other) if other == name => {
                self.error(second, &format!("duplicate variable name: {name}")).map(Err)
            }
            Ok(other) => Ok(Ok((name, Some(other)))),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Expands `all`, `exists` and `exists_one` into comprehensions. The conditions of the first two end the loop
    /// early, but not on an error, which a later element may absorb.
    fn quantifier(
        &mut self,
        function: &str,
        range: Id,
        first: Id,
        second: Option<Id>,
        test: Id,
    ) -> ParsedNode {
        let names = match self.variables((first, second), "argument must be a simple name")? {
            Ok(names) => names,
            Err(error) => return Ok(error),
        };
        let (init, condition, step, result) = match function {
            "all" => {
                let init = self.literal(Literal::Bool(true))?;
                let so_far = self.accumulator()?;
                let condition = self.call("@not_strictly_false", vec![so_far])?;
                let so_far = self.accumulator()?;
                (init, condition, self.call("_&&_", vec![so_far, test])?, self.accumulator()?)
            }
            "exists" => {
                let init = self.literal(Literal::Bool(false))?;
                let so_far = self.accumulator()?;
                let not = self.call("!_", vec![so_far])?;
                let condition = self.call("@not_strictly_false", vec![not])?;
                let so_far = self.accumulator()?;
                (init, condition, self.call("_||_", vec![so_far, test])?, self.accumulator()?)
            }
            _ => self.exactly_one(test)?,
        };
        self.fold(range, names, ACCUMULATOR, [init, condition, step, result])
    }

    /// The parts of `exists_one`: it counts, and looks at every element, so that an error is not absorbed.
    fn exactly_one(&mut self, test: Id) -> ParsedNode<(Id, Id, Id, Id)> {
        let init = self.literal(Literal::Int(0))?;
        let condition = self.literal(Literal::Bool(true))?;
        let (so_far, one) = (self.accumulator()?, self.literal(Literal::Int(1))?);
        let more = self.call("_+_", vec![so_far, one])?;
        let same = self.accumulator()?;
        let step = self.call("_?_:_", vec![test, more, same])?;
        let (count, one) = (self.accumulator()?, self.literal(Literal::Int(1))?);
        Ok((init, condition, step, self.call("_==_", vec![count, one])?))
    }

    /// The comprehensions of two variables that make a list or a map.
    fn transform(
        &mut self,
        function: &str,
        range: Id,
        names: (Id, Id),
        test: Option<Id>,
        value: Id,
    ) -> ParsedNode {
        match function {
            "transformList" => self.list(range, (names.0, Some(names.1)), test, Some(value)),
            _ => self.map(function, range, names, test, value),
        }
    }

    /// `map`, `filter` and `transformList`. Without a value, the element itself is taken.
    fn list(
        &mut self,
        range: Id,
        names: (Id, Option<Id>),
        test: Option<Id>,
        value: Option<Id>,
    ) -> ParsedNode {
        let message = if names.1.is_none() {
            "argument is not an identifier"
        } else {
            "argument must be a simple name"
        };
        let element = names.0;
        let names = match self.variables(names, message)? {
            Ok(names) => names,
            Err(error) => return Ok(error),
        };
        let init = self.items(Vec::new())?;
        let condition = self.literal(Literal::Bool(true))?;
        let so_far = self.accumulator()?;
        let added = self.items(vec![value.unwrap_or(element)])?;
        let step = self.call("_+_", vec![so_far, added])?;
        let step = self.guarded(test, step)?;
        let result = self.accumulator()?;
        self.fold(range, names, ACCUMULATOR, [init, condition, step, result])
    }

    /// `transformMap` and `transformMapEntry`: the first takes the key from the range, the second from the value.
    fn map(&mut self, function: &str, range: Id, names: (Id, Id), test: Option<Id>, value: Id) -> ParsedNode {
        let names = match self.variables((names.0, Some(names.1)), "argument must be a simple name")? {
            Ok(names) => names,
            Err(error) => return Ok(error),
        };
        let init = self.add(AstKind::Map(Vec::new()))?;
        let condition = self.literal(Literal::Bool(true))?;
        let so_far = self.accumulator()?;
        let mut args = vec![so_far];
        if function == "transformMap" {
            args.push(self.ident(&names.0)?);
        }
        args.push(value);
        let step = self.call("cel.@mapInsert", args)?;
        let step = self.guarded(test, step)?;
        let result = self.accumulator()?;
        self.fold(range, names, ACCUMULATOR, [init, condition, step, result])
    }

    /// A step that is made only if a test holds.
    fn guarded(&mut self, test: Option<Id>, step: Id) -> ParsedNode {
        let Some(test) = test else { return Ok(step) };
        let same = self.accumulator()?;
        self.call("_?_:_", vec![test, step, same])
    }

    /// The operand is copied, since it is tested and then read; chains of `optMap` double with each link, up to the
    /// limit of nodes.
    fn optional(&mut self, function: &str, optional: Id, variable: Id, value: Id) -> ParsedNode {
        let AstKind::Ident(name) = self.parser.ast.kind(variable).clone() else {
            return self.error(variable, &format!("{function}() variable name must be a simple identifier"));
        };
        let present = self.method("hasValue", optional, Vec::new())?;
        let Some(copy) = self.parser.ast.copy(optional, self.parser.limits.nodes) else {
            self.parser.issues.push(None, "expression is too large");
            return Err(ParseStopped);
        };
        let inside = self.method("value", copy, Vec::new())?;
        let bound = self.bind(name, inside, value)?;
        let some = if function == "optMap" { self.call("optional.of", vec![bound])? } else { bound };
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![present, some, none])
    }

    /// Binds the list to a name first, so that it is evaluated once for its keys and its elements.
    fn sort_by(&mut self, list: Id, variable: Id, key: Id) -> ParsedNode {
        if matches!(
            self.parser.ast.kind(list),
            AstKind::Literal(_) | AstKind::Map(_) | AstKind::Struct { .. }
        ) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.error(list, message);
        }
        let range = self.ident(SORT_INPUT)?;
        let keys = self.list(range, (variable, None), None, Some(key))?;
        let input = self.ident(SORT_INPUT)?;
        let sorted = self.method("@sortByAssociatedKeys", input, vec![keys])?;
        self.bind(SORT_INPUT.into(), list, sorted)
    }

    /// An expression with a name for a value.
    ///
    /// A loop over nothing, whose accumulator is the value: the language has no other way to name one.
    fn bind(&mut self, name: Text, value: Id, result: Id) -> ParsedNode {
        let range = self.items(Vec::new())?;
        let condition = self.literal(Literal::Bool(false))?;
        let step = self.ident(&name)?;
        self.fold(range, (UNUSED.into(), None), &name, [value, condition, step, result])
    }

    /// All macros become this one loop: a range, an initial value, a loop condition, a step and a result.
    fn fold(
        &mut self,
        range: Id,
        (variable, second): (Text, Option<Text>),
        accumulator: &str,
        [init, condition, step, result]: [Id; 4],
    ) -> ParsedNode {
        let accumulator = accumulator.into();
        let fold = Fold { range, variable, second, accumulator, init, condition, step, result };
        self.add(AstKind::Fold(Box::new(fold)))
    }
}
