//! Expressions and what they evaluate to, as cel-go and kube-apiserver have it.

use listwatch_cel::{Env, Type, Value, Variables, Version};
use listwatch_wire::json::{Value as Json, json};

fn object() -> Json {
    json!({"name": "web", "count": 3, "ratio": 1.5, "on": true, "none": null, "tags": ["a", "b", "c"],
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "labels": {"app": "web", "tier": "front"}, "text": "äöü€"})
}

/// The value of an expression as text, or its error.
fn evaluate(source: &str) -> String {
    let env = Env::new(Version::Stored).with_variable("x", Type::Dyn);
    let expression = match env.compile(source) {
        Ok(expression) => expression,
        Err(issues) => {
            return format!(
                "compile: {}",
                issues.iter().map(|issue| issue.message.clone()).next().unwrap_or_default()
            );
        }
    };
    let program = match expression.program() {
        Ok(program) => program,
        Err(error) => return format!("program: {error}"),
    };
    let object = object();
    let variables = Variables::new().with("x", Value::from_json(&object));
    match program.evaluate(&variables).result {
        Ok(value) => match listwatch_cel::to_json(&value, &mut 10_000) {
            Ok(json) => json.to_string(),
            Err(_) => format!("{value:?}"),
        },
        Err(error) => format!("error: {error}"),
    }
}

/// Everything in this table evaluates to true.
const TRUE: &str = include_str!("true.txt");

#[test]
fn expressions_that_are_true() {
    let cases = TRUE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let wrong: Vec<_> =
        cases.map(|line| (line, evaluate(line))).filter(|(_, result)| result != "true").collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), lines(&wrong));
}

fn lines(wrong: &[(&str, String)]) -> String {
    wrong.iter().map(|(source, result)| format!("{source}\n    {result}\n")).collect()
}

/// Expressions with the errors that they end in, in turns.
const ERRORS: &str = include_str!("errors.txt");

#[test]
fn expressions_that_fail_and_their_errors() {
    let mut cases = ERRORS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut wrong = Vec::new();
    while let (Some(source), Some(expected)) = (cases.next(), cases.next()) {
        let result = evaluate(source);
        if result != expected {
            wrong.push((source, format!("{result}\n    {expected} was expected")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), lines(&wrong));
}

/// Mutations construct objects of any shape, and patches.
#[test]
fn constructed_objects_come_out_as_json() {
    let patch = Type::message("JSONPatch", [("op".into(), Type::String), ("value".into(), Type::Dyn)]);
    let env = Env::new(Version::New).with_dynamic_type("Object").with_type(patch).with_mutation();
    let json = |source: &str| {
        let value = env.compile(source).ok()?.program().ok()?.evaluate(&Variables::new()).result.ok()?;
        Some(listwatch_cel::to_json(&value, &mut 1000).ok()?.to_string())
    };
    let object = "Object{metadata: Object.metadata{labels: {'a': 'b'}}, ?spec: optional.none()}";
    assert_eq!(json(object).as_deref(), Some(r#"{"metadata":{"labels":{"a":"b"}}}"#));
    let patch = "[JSONPatch{op: 'add', value: 1}, JSONPatch{op: jsonpatch.escapeKey('a/b')}]";
    assert_eq!(json(patch).as_deref(), Some(r#"[{"op":"add","value":1},{"op":"a~1b"}]"#));
    assert_eq!(json("JSONPatch{op: 1}"), None);
    let ty = |source: &str| env.compile(source).map(|expression| expression.output_type().to_string()).ok();
    assert_eq!(ty("Object{}").as_deref(), Some("Object"));
    assert_eq!(ty("[JSONPatch{}]").as_deref(), Some("list(JSONPatch)"));
}
