//! Expression rules (`x-kubernetes-validations`): compiled with the definition, evaluated on each write.

mod types;

use std::cell::OnceCell;

use kube_cel::{CompilationError, CompiledSchema, Validator, compile_schema};
use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrorKind};

thread_local! {
    /// The evaluator with all functions registered. It is not shareable between threads and too dear to build per
    /// write.
    static VALIDATOR: OnceCell<Validator> = const { OnceCell::new() };
}

/// The compiled expression rules of one version of a definition.
#[derive(Debug)]
pub struct Rules {
    compiled: CompiledSchema,
    /// Without any rule the walk is skipped altogether.
    any: bool,
}

impl Rules {
    /// Compiles every rule in a schema.
    #[must_use]
    pub fn compile(schema: &Value) -> Self {
        Self { compiled: compile_schema(&schema.into()), any: has_rules(schema) }
    }

    /// The rules that cannot work, each as an error at its place under `path`.
    #[must_use]
    pub fn errors(&self, schema: &Value, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let place = Place { path: path.to_owned(), root: true, apart: None };
        collect(&self.compiled, schema, &place, &mut errors);
        errors
    }

    /// Evaluates all rules; those that speak of `oldSelf` only if there is an old object.
    #[must_use]
    pub fn evaluate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if !self.any {
            return Vec::new();
        }
        // The evaluator has a tree of its own kind. Only kinds with rules pay for it.
        let (tree, old_tree) = (serde_json::Value::from(object), old.map(serde_json::Value::from));
        let result = VALIDATOR.with(|cell| {
            let validator = cell.get_or_init(Validator::new);
            validator.validate_compiled(&self.compiled, &tree, old_tree.as_ref())
        });
        let failures = result.err().map(kube_cel::ValidationErrors::into_vec).unwrap_or_default();
        failures.into_iter().map(|failure| field_error(object, failure)).collect()
    }
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

fn field_error(object: &Value, failure: kube_cel::ValidationError) -> FieldError {
    let kind = match failure.reason.as_deref() {
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    };
    let value = shown(lookup(object, &failure.field_path));
    FieldError::new(kind, failure.field_path, value, failure.message)
}

/// Scalars are shown as they are, objects and lists only by their type, so that errors stay small.
fn shown(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Object(_)) => "object".into(),
        Some(Value::Array(_)) => "array".into(),
        Some(value) => value.clone(),
        None => Value::Null,
    }
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']')).filter(|step| !step.is_empty());
    steps.into_iter().try_fold(object, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

/// Where in a schema rules are collected.
struct Place {
    path: String,
    root: bool,
    /// The part of the schema around this one whose old and new elements cannot be told apart, if there is one.
    apart: Option<String>,
}

impl Place {
    fn below(&self, step: &str, apart: bool) -> Self {
        let here = apart.then(|| self.path.clone());
        Self { path: format!("{}.{step}", self.path), root: false, apart: self.apart.clone().or(here) }
    }
}

fn collect(node: &CompiledSchema, schema: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    for (index, rule) in node.validations.iter().enumerate() {
        if let Some((part, detail)) = problem(rule, schema, place) {
            let field = format!("{}.x-kubernetes-validations[{index}].{part}", place.path);
            errors.push(FieldError::invalid(field, source(rule), detail));
        }
    }
    let empty = Value::Null;
    let mut properties: Vec<_> = node.properties.iter().collect();
    properties.sort_by_key(|(name, _)| *name);
    let atomic = schema.get("x-kubernetes-map-type").is_some_and(|kind| kind == "atomic");
    for (name, child) in properties {
        let below = schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&empty);
        collect(child, below, &place.below(&format!("properties[{name}]"), atomic), errors);
    }
    let keyed = schema.get("x-kubernetes-list-type").is_some_and(|kind| kind == "map");
    for (step, child, apart) in
        [("items", &node.items, !keyed), ("additionalProperties", &node.additional_properties, atomic)]
    {
        if let Some(child) = child {
            collect(child, schema.get(step).unwrap_or(&empty), &place.below(step, apart), errors);
        }
    }
}

/// What is wrong with a rule, and with which part of it.
fn problem(
    rule: &Result<kube_cel::CompilationResult, CompilationError>,
    schema: &Value,
    place: &Place,
) -> Option<(&'static str, String)> {
    let rule = match rule {
        Err(CompilationError::MessageExpressionParse { .. }) => {
            return Some(("messageExpression", "compilation failed".into()));
        }
        Err(error) => return Some(("rule", format!("compilation failed: {error}"))),
        Ok(rule) => rule,
    };
    if let Some(text) = unknown_function(&rule.program) {
        return Some(("rule", text));
    }
    if let Err(text) = types::check(&rule.program, schema, place.root) {
        return Some(("rule", format!("compilation failed: {text}")));
    }
    if let Some(Err(text)) =
        rule.message_program.as_ref().map(|program| types::check_message(program, schema, place.root))
    {
        return Some(("messageExpression", format!("messageExpression compilation failed: {text}")));
    }
    let uses_old = rule.program.references().variables().contains(&"oldSelf");
    match &place.apart {
        Some(path) if uses_old => {
            let text =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
            Some(("rule", text))
        }
        _ if !uses_old && rule.rule.optional_old_self.is_some() => {
            Some(("optionalOldSelf", "may not be set if oldSelf is not used in rule".into()))
        }
        _ => None,
    }
}

fn source(rule: &Result<kube_cel::CompilationResult, CompilationError>) -> String {
    match rule {
        Ok(rule) => rule.rule.rule.clone(),
        Err(CompilationError::Parse { rule, .. } | CompilationError::MessageExpressionParse { rule, .. }) => {
            rule.clone()
        }
        Err(_) => String::new(),
    }
}

fn unknown_function(program: &kube_cel::cel::Program) -> Option<String> {
    let references = program.references();
    let mut unknown: Vec<&str> = references.functions().into_iter().filter(|name| !is_known(name)).collect();
    unknown.sort_unstable();
    unknown
        .first()
        .map(|name| format!("compilation failed: undeclared reference to '{name}' (in container '')"))
}

/// Whether a function exists in the dialect. Operators come under names with punctuation and always exist.
fn is_known(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic()) || FUNCTIONS.contains(&name)
}

/// Every named function of CEL's standard library and of the Kubernetes ones, sorted by library.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    // standard
    "size", "contains", "startsWith", "endsWith", "matches", "has", "all", "exists", "exists_one", "existsOne", "map", "filter",
    "int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp", "type", "dyn", "min", "max",
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes",
    "getSeconds", "getMilliseconds", "optional", "of", "none", "ofNonZeroValue", "hasValue", "value", "orValue", "or", "optMap",
    "optFlatMap",
    // strings
    "charAt", "format", "indexOf", "lastIndexOf", "join", "lowerAscii", "upperAscii", "quote", "replace", "split", "substring",
    "trim", "reverse",
    // lists, sets, math, encoders
    "isSorted", "sum", "distinct", "flatten", "first", "last", "slice", "sort", "sortBy", "range", "sets", "intersects",
    "equivalent", "greatest", "least", "abs", "sign", "ceil", "floor", "round", "trunc", "isNaN", "isInf", "isFinite",
    "bitAnd", "bitOr", "bitXor", "bitNot", "bitShiftLeft", "bitShiftRight", "sqrt", "base64", "encode", "decode",
    "math", "bind", "cel",
    // regex, urls, ip, cidr, quantity, semver, formats, json patch
    "find", "findAll", "url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery",
    "ip", "isIP", "cidr", "isCIDR", "family", "isCanonical", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "containsIP", "containsCIDR", "prefixLength", "masked",
    "quantity", "isQuantity", "isInteger", "asInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo",
    "add", "sub", "semver", "isSemver", "major", "minor", "patch", "validate", "named", "dns1123Label", "dns1123Subdomain",
    "dns1035Label", "qualifiedName", "labelValue", "uri", "uuid", "byte", "date", "datetime", "escapeKey",
];

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_wire::json::json;

    fn rules(field: Value) -> Rules {
        Rules::compile(&schema(field))
    }

    fn schema(field: Value) -> Value {
        json!({"type": "object", "properties": {"f": field}})
    }

    fn shown(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
    }

    #[test]
    fn a_rule_refuses_with_its_own_message_reason_and_path() {
        let rules = rules(
            json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min above max",
                "reason": "FieldValueForbidden", "fieldPath": ".min"}]}),
        );
        let errors = rules.evaluate(&json!({"f": {"min": 5, "max": 1}}), None);
        assert_eq!(shown(&errors), ["f.min Forbidden"]);
        assert!(rules.evaluate(&json!({"f": {"min": 1, "max": 5}}), None).is_empty());
    }

    #[test]
    fn rules_over_the_old_value_hold_on_update_only() {
        let rules =
            rules(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}));
        assert!(rules.evaluate(&json!({"f": "x"}), None).is_empty());
        assert_eq!(shown(&rules.evaluate(&json!({"f": "y"}), Some(&json!({"f": "x"})))), ["f Invalid"]);
    }

    #[test]
    fn a_rule_that_cannot_work_is_an_error_of_the_definition() {
        for rule in ["self.nothing()", "self ==", "nosuch(self)"] {
            let schema = schema(json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}));
            let errors = Rules::compile(&schema).errors(&schema, "schema");
            assert_eq!(
                shown(&errors),
                ["schema.properties[f].x-kubernetes-validations[0].rule Invalid"],
                "{rule}"
            );
        }
    }

    #[test]
    fn the_old_value_of_an_element_must_be_known() {
        let list = |kind: &str| {
            schema(
                json!({"type": "array", "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}},
                    "x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]}}),
            )
        };
        let errors = |schema: Value| Rules::compile(&schema).errors(&schema, "s");
        assert!(errors(list("map")).is_empty());
        assert_eq!(
            shown(&errors(list("set"))),
            ["s.properties[f].items.x-kubernetes-validations[0].rule Invalid"]
        );
    }
}
