//! Tests of expression rules: errors of definitions, and verdicts on objects.
//! Each test is one rule of apiextensions-apiserver: transition rules, ratcheting, costs, messages and paths. The
//! language itself is tested in `listwatch-cel`.

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

fn definition_errors(field: Value) -> Vec<String> {
    let schema = schema(field);
    Rules::compile(&schema).errors(&schema, "s").iter().map(ToString::to_string).collect()
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
    let rules = rules(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}));
    assert!(rules.evaluate(&json!({"f": "x"}), None).is_empty());
    assert_eq!(shown(&rules.evaluate(&json!({"f": "y"}), Some(&json!({"f": "x"})))), ["f Invalid"]);
}

#[test]
fn an_optional_old_value_is_there_on_create_too() {
    let rule =
        json!({"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0", "optionalOldSelf": true});
    let rules = rules(json!({"type": "integer", "x-kubernetes-validations": [rule]}));
    assert!(rules.evaluate(&json!({"f": 0}), None).is_empty());
    assert_eq!(shown(&rules.evaluate(&json!({"f": 1}), None)), ["f Invalid"]);
    assert!(rules.evaluate(&json!({"f": 2}), Some(&json!({"f": 1}))).is_empty());
    assert_eq!(shown(&rules.evaluate(&json!({"f": 0}), Some(&json!({"f": 1})))), ["f Invalid"]);
}

#[test]
fn a_rule_that_cannot_work_is_an_error_of_the_definition() {
    for (rule, expected) in [
        (
            "self.nothing()",
            "compilation failed: ERROR: <input>:1:13: undeclared reference to 'nothing' (in container '')",
        ),
        (
            "self ==",
            "compilation failed: ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting",
        ),
        (
            "nosuch(self)",
            "compilation failed: ERROR: <input>:1:7: undeclared reference to 'nosuch' (in container '')",
        ),
        ("self.size()", "cel expression must evaluate to a bool"),
        ("Struct{a: 1} == 1", "compilation failed: ERROR: <input>:1:7: undeclared reference to 'Struct'"),
    ] {
        let errors =
            definition_errors(json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with("s.properties[f].x-kubernetes-validations[0].rule: Invalid value: {"));
        assert!(errors[0].contains(expected), "{} lacks {expected}", errors[0]);
    }
}

#[test]
fn the_old_value_of_an_element_must_be_known() {
    let list = |kind: &str| {
        json!({"type": "array", "maxItems": 10, "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 10}},
                "x-kubernetes-validations": [{"rule": "self.k == oldSelf.k"}]}})
    };
    assert_eq!(definition_errors(list("map")), [""; 0]);
    let errors = definition_errors(list("set"));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].ends_with(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[f]"
    ));
}

/// The bounds of containers decide whether a rule may cost too much, for itself and for all rules together.
#[test]
fn rules_that_may_cost_too_much_are_refused() {
    let list = |bound: Value| {
        let mut list = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.all(x, x.all(y, y > 0))"}]});
        list["maxItems"] = bound.clone();
        list["items"]["maxItems"] = bound;
        list
    };
    assert_eq!(definition_errors(list(json!(10))), [""; 0]);
    let errors = definition_errors(list(json!(100_000)));
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors[0]
            .contains("rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try")
    );
    assert!(errors[1].ends_with(
        "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    ));
    assert!(errors[2].starts_with(
        "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    ));
}

/// A rule with n³ steps was evaluated to its end and held everything up.
#[test]
fn a_rule_that_costs_too_much_is_cut_off() {
    let rule = json!({"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"});
    let rules =
        rules(json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [rule]}));
    let list: Vec<i64> = (0..1000).collect();
    let errors = rules.evaluate(&json!({"f": list}), None);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .detail
            .starts_with("'operation cancelled: actual cost limit exceeded': no further validation rules")
    );
}

/// Each evaluation has some work for free, and a definition may have thousands of rules.
#[test]
fn all_rules_of_an_object_share_their_work() {
    let rule = json!({"rule": "self.findAll('x.*y|.*[^A-Z]|[A-Z]').size() >= 0"});
    let schema = json!({"type": "object", "properties": {"f": {"type": "string", "maxLength": 2000,
        "x-kubernetes-validations": vec![rule; 300]}}});
    let found = Rules::compile(&schema).evaluate(&json!({"f": "A".repeat(2_000)}), None);
    assert!(found.len() == 1 && found[0].detail.contains("cost budget"), "{found:?}");
}

/// Many evaluations that are cheap one by one share the budget of their object.
#[test]
fn all_rules_of_an_object_share_a_budget() {
    let items = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('^(a|b|c|d|e|f|g|h)*$')"}]});
    let rules = rules(json!({"type": "array", "items": items}));
    let text = "a".repeat(1000);
    let errors = rules.evaluate(&json!({"f": vec![text; 20_000]}), None);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].detail.starts_with("validation failed due to running out of cost budget"),
        "{:?}",
        errors[0]
    );
}

/// An update is not blamed for what it did not change.
#[test]
fn an_unchanged_part_may_stay_broken() {
    let rules = rules(json!({"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}, "b": {"type": "integer"}}}));
    let old = json!({"f": {"a": -1, "b": 1}});
    let verdict = rules.verdict(&json!({"f": {"a": -1, "b": 2}}), Some(&old));
    assert_eq!((verdict.errors.len(), verdict.warnings.len()), (0, 1));
    assert_eq!(verdict.warnings, ["f.a: Invalid value: -1: failed rule: self > 0"]);
    assert_eq!(shown(&rules.verdict(&json!({"f": {"a": -2, "b": 1}}), Some(&old)).errors), ["f.a Invalid"]);
}

/// The path of each warning and error may be as long as the object: 5,000 warnings took a gigabyte.
#[test]
fn warnings_and_errors_are_bounded_in_bytes() {
    let items = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'"}]});
    let rules = rules(json!({"type": "object", "additionalProperties": {"type": "array", "items": items}}));
    let object = json!({"f": {"k".repeat(100_000): vec!["a"; 1000]}});
    let ratcheted = rules.verdict(&object, Some(&object));
    assert!(ratcheted.errors.is_empty() && !ratcheted.warnings.is_empty());
    assert!(ratcheted.warnings.iter().map(String::len).sum::<usize>() < 300_000);
    let errors = rules.evaluate(&object, None);
    assert!((1..5).contains(&errors.len()), "{}", errors.len());
    // Short ones are bounded in number.
    let object = json!({"f": {"k": vec!["a"; 1000]}});
    assert_eq!(rules.verdict(&object, Some(&object)).warnings.len(), 100);
    assert_eq!(rules.evaluate(&object, None).len(), 100);
}

/// Fields of the schema that elements do not have cost nothing.
#[test]
fn rules_of_absent_fields_cost_nothing() {
    let rule = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'"}]});
    let fields: listwatch_wire::json::Map = (0..1000).map(|n| (format!("p{n:04}"), rule.clone())).collect();
    let rules = rules(json!({"type": "array", "items": {"type": "object", "properties": fields}}));
    let mut items = vec![json!({}); 2000];
    items.push(json!({"p0999": "y", "p0001": "x", "p0000": "y", "q": 1}));
    let before = listwatch_wire::json::steps::taken();
    assert_eq!(
        shown(&rules.evaluate(&json!({"f": items}), None)),
        ["f[2000].p0000 Invalid", "f[2000].p0999 Invalid"]
    );
    assert!(listwatch_wire::json::steps::taken() - before < 100_000);
}

#[test]
fn a_message_may_be_made_by_an_expression() {
    let rule = |made: &str| {
        let rule = json!({"rule": "self > 5", "message": "too small", "messageExpression": made});
        let rules = rules(json!({"type": "integer", "x-kubernetes-validations": [rule]}));
        rules.evaluate(&json!({"f": 3}), None).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(rule("'is ' + string(self)"), ["f: Invalid value: 3: is 3"]);
    assert_eq!(rule("self == 3 ? ' ' : 'x'"), ["f: Invalid value: 3: too small"]);
    assert_eq!(rule("string(1 / (self - 3))"), ["f: Invalid value: 3: too small"]);
}

#[test]
fn rules_in_all_of_are_evaluated_too() {
    let rules =
        rules(json!({"type": "integer", "allOf": [{"x-kubernetes-validations": [{"rule": "self > 5"}]}]}));
    assert_eq!(shown(&rules.evaluate(&json!({"f": 3}), None)), ["f Invalid"]);
}

/// kube-apiserver takes the key of a map for as long as its value where the path to the map has an odd length.
#[test]
fn the_cost_of_two_variables_is_that_of_kube_apiserver() {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let rule = |rule: &str, properties: Value| {
        let field =
            json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]});
        definition_errors(field).len()
    };
    let nested = json!({"x": {"type": "object", "properties": {"labels": labels}}});
    assert_eq!(rule("self.x.labels.all(k, v, k != v)", nested), 3);
    assert_eq!(rule("self.labels.all(k, v, k != 'a')", json!({"labels": labels})), 0);
}

/// The fields of many kinds are named `namespace`.
#[test]
fn a_reserved_word_names_a_field_with_and_without_underscores() {
    for rule in ["self.namespace == 'a'", "self.__namespace__ == 'a'", "has(self.namespace)"] {
        let field = json!({"type": "object", "properties": {"namespace": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": rule}]});
        assert_eq!(definition_errors(field.clone()), [""; 0], "{rule}");
        let object = json!({"f": {"namespace": "a"}});
        assert_eq!(shown(&rules(field).evaluate(&object, None)), [""; 0], "{rule}");
    }
}
