//! No expression overflows the stack, hangs, panics or takes memory without bound.

#![cfg(test)]

use std::time::{Duration, Instant};

use listwatch_cel::{Decl, Env, EvalError, Type, Value, Variables, Version};
use listwatch_wire::json::{Value as Json, json};
use proptest::prelude::*;

/// As much as a worker of an async runtime has.
const STACK: usize = 2 << 20;

fn schema() -> Json {
    json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}}}})
}

/// Compiles, estimates and evaluates an expression. Returns whether it compiled, and how evaluation ended.
fn run(source: &str) -> Option<Result<bool, EvalError>> {
    let decl = Decl::from_schema(&schema(), false)?;
    let env =
        Env::new(Version::Stored).with_variable("self", decl.ty().clone()).with_variable("x", Type::Dyn);
    let expression = match env.compile(source) {
        Ok(expression) => expression,
        Err(issues) => {
            let _ = issues.to_string();
            return None;
        }
    };
    let _ = expression.estimate_cost(&decl);
    let program = expression.program().ok()?;
    let object = json!({"l": [1, 2, 3], "s": "text", "m": {"k": "v"}});
    let variables = Variables::new()
        .with("self", Value::from_typed(&object, &decl).ok()?)
        .with("x", Value::from_json(&object));
    let outcome = program.evaluate(&variables);
    Some(outcome.result.map(|value| {
        let _ = listwatch_cel::to_json(&value, &mut 1000);
        value.as_bool().unwrap_or(true)
    }))
}

/// Runs on a small stack and within a time that only an endless evaluation exceeds.
fn bounded(source: String) -> Option<Result<bool, EvalError>> {
    let started = Instant::now();
    let shown: String = source.chars().take(60).collect();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || run(&source)).unwrap();
    let result = thread.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(60), "{shown} took {:?}", started.elapsed());
    result
}

fn nested(open: &str, inside: &str, close: &str, times: usize) -> String {
    format!("{}{inside}{}", open.repeat(times), close.repeat(times))
}

/// Rules of 20,000 terms or deep member chains overflowed the stack.
#[test]
fn deep_expressions_are_refused() {
    for source in [
        nested("(", "1", ")", 20_000),
        nested("[", "1", "]", 20_000),
        nested("{1:", "1", "}", 20_000),
        nested("size(", "'a'", ")", 10_000),
        nested("true ? 1 : ", "1", "", 8_000),
        nested("x.all(a, ", "true", ")", 9_000),
        format!("x{}", ".a".repeat(20_000)),
        format!("x{}", "[0]".repeat(20_000)),
        format!("1{}", " + 1".repeat(20_000)),
        format!("1{}", " < 1".repeat(20_000)),
        format!("x{}", ".optMap(y, y)".repeat(60)),
        nested("(", "", "", 50_000),
        "'".repeat(50_000),
        "a".repeat(200_000),
    ] {
        let shown: String = source.chars().take(40).collect();
        assert_eq!(bounded(source), None, "{shown}");
    }
}

#[test]
fn expressions_as_deep_as_allowed_are_evaluated() {
    assert_eq!(bounded(format!("true{}", " && true".repeat(11_000))), Some(Ok(true)));
    assert_eq!(bounded(format!("false{}", " || x.s == 'text'".repeat(5_000))), Some(Ok(true)));
    assert_eq!(bounded(format!("{}true", "!".repeat(90_000))), Some(Ok(true)));
    assert_eq!(bounded(format!("{} == 1", nested("(", "1", ")", 240))), Some(Ok(true)));
    assert_eq!(bounded(format!("1{} > 0", " + 1".repeat(240))), Some(Ok(true)));
    assert_eq!(bounded(nested("[1].all(a, ", "true", ")", 120)), Some(Ok(true)));
    assert_eq!(bounded(format!("[1]{}.size() == 1", ".map(y, y)".repeat(200))), Some(Ok(true)));
    assert!(bounded(nested("true ? ", "true", " : false", 1)).is_some());
}

/// A list or a type that doubles with each step is huge after sixty, and cheap to write down.
#[test]
fn expressions_that_double_in_size_are_cut_off() {
    let doubled = |tail: &str| format!("[[1, 2]]{}{tail}", ".map(y, y + y)".repeat(60));
    assert!(bounded(doubled("[0].sum() > 0")).unwrap().is_err_and(|error| error.is_over_limit()));
    assert!(bounded(doubled("[0].sort().size() > 0")).unwrap().is_err_and(|error| error.is_over_limit()));
    assert_eq!(bounded(doubled("[0] == [1]")), Some(Ok(false)));
    assert_eq!(bounded(doubled("[0].size() > 0")), Some(Ok(true)));
    let same = format!("[[1, 2]]{0} == [[1, 2]]{0}", ".map(y, y + y)".repeat(60));
    assert!(bounded(same).unwrap().is_err_and(|error| error.is_over_limit()));
    let maps = format!("[1]{}.size() == 1", ".map(y, {y: y})".repeat(40));
    let _ = bounded(maps);
}

/// Some functions make far more than they are charged for.
#[test]
fn large_results_are_cut_off() {
    let long = |length: usize| format!("'{}'", "a".repeat(length));
    for source in [
        format!("{}.replace('', {}).replace('', {}).size() > 0", long(2_000), long(2_000), long(2_000)),
        "lists.range(1000000000).size() > 0".to_owned(),
        format!("[{}].map(y, lists.range(5000).map(z, y + 'x')).size() > 0", long(50_000)),
    ] {
        let shown: String = source.chars().filter(|c| *c != 'a').collect();
        let result = bounded(source).unwrap();
        assert!(result.as_ref().is_err_and(EvalError::is_over_limit), "{shown}: {result:?}");
    }
}

/// Four times the input costs four times as much, not sixteen.
#[test]
fn costs_grow_with_the_input() {
    let cost = |source: &str, size: i64| {
        let env = Env::new(Version::Stored).with_variable("x", Type::Dyn);
        let program = env.compile(source).unwrap().program().unwrap();
        let object = Json::from((0..size).collect::<Vec<i64>>());
        let outcome = program.evaluate(&Variables::new().with("x", Value::from_json(&object)));
        assert!(outcome.result.is_ok(), "{source}: {:?}", outcome.result);
        outcome.cost
    };
    for source in [
        "x.all(y, y >= 0)",
        "x.map(y, y + 1).size()",
        "x.filter(y, y > 5).size()",
        "x.exists(y, y < 0)",
        "5000 in x",
        "x.transformMap(i, v, v).size()",
        "x.map(y, string(y)).join(',').size()",
    ] {
        let (small, large) = (cost(source, 1000), cost(source, 4000));
        assert!(large <= small * 5, "{source}: {small} for 1000, {large} for 4000");
    }
}

/// Failed calls are paid for: a rule could fail at no cost, over and over, in a loop that absorbs errors.
#[test]
fn failed_steps_cost_the_same_as_in_cel_go() {
    let cost = |source: &str| {
        let env = Env::new(Version::Stored).with_variable("x", Type::Dyn);
        let program = env.compile(source).unwrap().program().unwrap();
        let object = json!({"s": "a".repeat(100)});
        let outcome = program.evaluate(&Variables::new().with("x", Value::from_json(&object)));
        assert!(outcome.result.is_err(), "{source}");
        outcome.cost
    };
    // Reading `x.s` costs 2, a division 1, passing over the text twice 20.
    assert_eq!(
        cost("x.s.replace('a', 'b', 1 / 0)"),
        2 + 1 + 20,
        "the last argument fails: the call is paid for"
    );
    assert_eq!(cost("x.s.replace('a', string(1 / 0), 1 / 0)"), 2 + 2, "others after it are not evaluated");
    assert_eq!(cost("[1 / 0]"), 1 + 10);
    assert_eq!(cost("{'k': 1 / 0}"), 1 + 30);
}

/// Pieces that expressions are made of.
const PIECES: [&str; 58] = [
    "self",
    "x",
    ".l",
    ".s",
    ".m",
    ".?k",
    "[?0]",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "1",
    "-1",
    "2u",
    "1.5",
    "'a'",
    "b'a'",
    "true",
    "null",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " == ",
    " != ",
    " < ",
    " in ",
    " && ",
    " || ",
    "!",
    ".all(y, y > 0)",
    ".exists(y, ",
    ".map(y, y)",
    ".filter(y, true)",
    "has(x.l)",
    ".size()",
    "size(",
    "string(",
    "int(",
    "duration('1s')",
    "timestamp('2020-01-01T00:00:00Z')",
    ".matches('a*')",
    "'%s'.format([",
    "optional.of(",
    ".orValue(1)",
    ".optMap(y, y)",
    ".transformMap(k, v, v)",
    "quantity('1')",
    "ip('1.1.1.1')",
    "url('/a')",
    "semver('1.0.0')",
    "Struct{a: 1}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_panics_on_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..14)) {
        let _ = run(&pieces.concat());
    }

    #[test]
    fn nothing_panics_on_characters(source in "[ -~äé€😀\\n]{0,60}") {
        let _ = run(&source);
    }

    #[test]
    fn nothing_panics_on_functions(name in "(charAt|substring|replace|split|indexOf|lastIndexOf|format|find|findAll|slice|flatten|getHours|validate)",
        text in "[ -~ä€]{0,12}", first in any::<i64>(), second in "[ -~ä%]{0,6}") {
        let quoted = |text: &str| format!("r'''{}'''", text.replace('\'', ""));
        for args in [first.to_string(), quoted(&second), format!("{}, {first}", quoted(&second)), format!("{first}, {first}")] {
            let _ = run(&format!("dyn({}).{name}({args})", quoted(&text)));
        }
        for function in ["int", "uint", "double", "duration", "timestamp", "bool", "bytes", "ip", "cidr", "quantity", "semver", "url"] {
            let _ = run(&format!("{function}({})", quoted(&text)));
        }
    }
}
