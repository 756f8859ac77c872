//! Declarations of functions: a table in text, read once.
//!
//! Each line is `function overload signature`. A method has the type of its target before a dot: `string.(int) -> string`.
//! One capital letter is a type parameter.

use std::collections::HashMap;

use crate::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// cel-go's or Kubernetes' name, by which costs and operations of the evaluator are chosen.
    pub(crate) id: &'static str,
    /// Methods and functions of one name are apart: `size(x)` and `x.size()` are two overloads.
    pub(crate) member: bool,
    /// The target first, if there is one.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

/// Functions by name.
pub(crate) type Functions = HashMap<&'static str, Vec<Overload>>;

/// Reads tables of declarations.
///
/// Lines that do not parse are skipped, so a mistake in a table shows as an undeclared function.
pub(crate) fn read(tables: &[&'static str]) -> Functions {
    let mut functions = Functions::new();
    for line in tables.iter().flat_map(|table| table.lines()) {
        if let Some((name, overload)) = declaration(line.trim()) {
            functions.entry(name).or_default().push(overload);
        }
    }
    functions
}

/// Reads one line of the table, `name id target.(arguments) -> result`, where a function that is not a member has no
/// `target.`. Returns nothing for a line that is none; a test requires that there is no such line.
fn declaration(line: &'static str) -> Option<(&'static str, Overload)> {
    let (name, rest) = line.split_once(' ')?;
    let (id, signature) = rest.trim().split_once(' ')?;
    let (before, result) = signature.rsplit_once(" -> ")?;
    let (target, args) = match before.find(".(") {
        Some(at) => (before.get(..at)?.trim(), before.get(at + 1..)?),
        None => ("", before),
    };
    let inside = args.trim().strip_prefix('(')?.strip_suffix(')')?;
    let targets = (!target.is_empty()).then(|| ty(target));
    let args = targets.into_iter().chain(split(inside).into_iter().map(ty)).collect();
    Some((name, Overload { id, member: !target.is_empty(), args, result: ty(result.trim()) }))
}

/// Splits at commas outside of brackets.
fn split(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Reads a type.
///
/// A name that is none of the basic ones becomes an opaque type of a library.
pub(crate) fn ty(text: &'static str) -> Type {
    if let Some((name, inside)) = text.split_once('(') {
        let mut parts = split(inside.strip_suffix(')').unwrap_or(inside)).into_iter().map(ty);
        let mut part = || parts.next().unwrap_or(Type::Dyn);
        return match name {
            "list" => Type::list(part()),
            "map" => Type::map(part(), part()),
            "optional" => Type::optional(part()),
            _ => Type::Type(part().into()),
        };
    }
    match text {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        _ => match text.as_bytes() {
            [letter] if letter.is_ascii_uppercase() => Type::Param(char::from(*letter)),
            _ => Type::scalar(text).unwrap_or(Type::Opaque(text)),
        },
    }
}
