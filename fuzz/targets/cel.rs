//! Expressions: whatever is sent compiles or is refused, and evaluates within its limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use listwatch_cel::{Decl, Env, Type, Value, Variables, Version};
use listwatch_wire::json::json;

fuzz_target!(|source: &str| {
    let schema = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}}});
    let Some(decl) = Decl::from_schema(&schema, true) else { return };
    let env = Env::new(Version::Stored).with_variable("self", decl.ty().clone()).with_variable("x", Type::Dyn);
    let Ok(expression) = env.compile(source) else { return };
    let _ = expression.estimate_cost(&decl);
    let Ok(program) = expression.program() else { return };
    let object = json!({"l": [1, 2, 3], "s": "text"});
    let Ok(typed) = Value::from_typed(&object, &decl) else { return };
    let variables = Variables::new().with("self", typed).with("x", Value::from_json(&object));
    let _ = program.evaluate(&variables);
});
