//! Type checks of ValidatingAdmissionPolicies against the schemas of the kinds that they match.
//!
//! A policy is compiled with `object` of dynamic type, because it may match many kinds; a field that one of them does
//! not have shows only here, as a warning in the policy's status. Warnings never change what a policy does. At most
//! ten kinds per rule are checked, as in kube-apiserver, and wildcards not at all. The status is written by
//! `lifecycle/policies.rs`.

use std::sync::Arc;

use listwatch_cel::{Decl, Env, Type, Version};
use listwatch_kinds::schema::{self, FieldType as Kind};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::environment::{Declared, environment};
use super::policy::MAX_VARIABLES;
use crate::registry::{Registry, Resource};

/// Kinds that are checked per rule at most, as in kube-apiserver.
const KINDS_PER_RULE: usize = 10;

/// The most kinds that are looked for. A rule names groups, versions and resources, and thousands of each make billions;
/// kube-apiserver looks for all of them.
const MAX_LOOKUPS: usize = 100_000;

/// The most bytes of expressions that are compiled, each counted for every kind.
const MAX_COMPILED_BYTES: usize = 2 << 20;

/// A warning about an expression: its place in the policy, and the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) field: String,
    pub(crate) text: String,
}

/// Checks the expressions of a policy.
///
/// Costs a compilation per expression and kind: bounded by [`MAX_LOOKUPS`] and [`MAX_COMPILED_BYTES`], because the
/// controller that runs it has other tasks.
pub(crate) fn check(registry: &Registry, policy: &Value) -> Vec<Warning> {
    let spec = policy.at("spec");
    let environments: Vec<(String, Env)> = kinds(registry, spec)
        .iter()
        .take(MAX_COMPILED_BYTES / expression_bytes(spec).max(1))
        .filter_map(|resource| {
            let object = type_of(resource)?;
            let name = format!("{}, Kind={}", resource.api_version(), resource.kind);
            Some((name, typed(registry, spec, object)))
        })
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec.list("validations").iter().enumerate() {
        for key in ["expression", "messageExpression"] {
            let source = validation.text(key).trim();
            let texts = environments.iter().filter(|_| !source.is_empty()).filter_map(|(name, env)| {
                env.compile(source).err().map(|issues| format!("{name}: {issues}\n"))
            });
            let texts: Vec<String> = texts.collect();
            if !texts.is_empty() {
                let field = format!("spec.validations[{index}].{key}");
                warnings.push(Warning { field, text: texts.join("\n") });
            }
        }
    }
    warnings
}

/// The bytes of all expressions that are compiled for a kind.
fn expression_bytes(spec: &Value) -> usize {
    let bytes =
        |list: &str, key: &str| spec.list(list).iter().map(|item| item.text(key).len()).sum::<usize>();
    bytes("variables", "expression")
        + bytes("validations", "expression")
        + bytes("validations", "messageExpression")
}

/// The environment of the expressions with typed objects.
fn typed(registry: &Registry, spec: &Value, object: Type) -> Env {
    let declared = Declared { params: spec.has("paramKind"), authorizer: true };
    let mut env = environment(Version::Stored, declared)
        .with_variable("object", object.clone())
        .with_variable("oldObject", object);
    if let Some(params) = param_kind(registry, spec.at("paramKind")).and_then(|kind| type_of(&kind)) {
        env = env.with_variable("params", params);
    }
    let mut fields = Vec::new();
    for variable in spec.list("variables").iter().take(MAX_VARIABLES) {
        let compiled = env.compile(variable.text("expression").trim());
        let ty = compiled.map_or(Type::Dyn, |expression| expression.output_type().clone());
        fields.push((variable.text("name").into(), ty));
        env = env.with_variable("variables", Type::object("kubernetes.variables", fields.clone()));
    }
    env
}

fn param_kind(registry: &Registry, kind: &Value) -> Option<Arc<Resource>> {
    let version = kind.text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    registry.find_kind(group, version, kind.text("kind"))
}

/// The kinds that the rules of a policy name one by one, sorted. Wildcards and subresources are not checked.
fn kinds(registry: &Registry, spec: &Value) -> Vec<Arc<Resource>> {
    let mut found: Vec<Arc<Resource>> = Vec::new();
    let mut lookups = MAX_LOOKUPS;
    for rule in spec.at("matchConstraints").list("resourceRules") {
        let texts = |key: &str| -> Vec<&str> {
            let mut texts: Vec<&str> = rule.list(key).iter().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let plurals: Vec<&str> =
            texts("resources").into_iter().filter(|text| !text.contains(['*', '/'])).collect();
        let places = groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)));
        let places =
            places.flat_map(|(group, version)| plurals.iter().map(move |plural| (group, version, plural)));
        let counted = places.take_while(|_| {
            let more = lookups > 0;
            lookups = lookups.saturating_sub(1);
            more
        });
        let named = counted.filter_map(|(group, version, plural)| registry.find(group, version, plural));
        found.extend(named.take(KINDS_PER_RULE));
    }
    let key = |resource: &Resource| [&resource.group, &resource.version, &resource.kind].map(Arc::clone);
    found.sort_by_key(|resource| key(resource));
    found.dedup_by_key(|resource| key(resource));
    found
}

/// The type of the objects of a kind, if its schema is known.
fn type_of(resource: &Resource) -> Option<Type> {
    match &resource.custom {
        Some(version) => Decl::from_schema(&version.schema_json, true).map(|decl| decl.ty().clone()),
        None => {
            schema::node(&resource.group, &resource.version, &resource.kind).map(|node| of_kind(node.ty()))
        }
    }
}

/// The type of a part of a built-in kind. What has several forms in JSON is not checked.
fn of_kind(ty: Kind) -> Type {
    let table = schema::schema();
    match ty {
        Kind::String => Type::String,
        Kind::Bool => Type::Bool,
        Kind::Int32 | Kind::Int64 => Type::Int,
        Kind::Double => Type::Double,
        Kind::Bytes => Type::Bytes,
        Kind::Time | Kind::MicroTime => Type::Timestamp,
        Kind::List(element) => Type::list(of_kind(table.element(element))),
        Kind::Map(element) => Type::map(Type::String, of_kind(table.element(element))),
        // The schema of JSONSchemaProps is recursive.
        Kind::Struct(id) if id == table.schema_props() => Type::Dyn,
        Kind::Struct(id) => {
            let fields = table.fields(id).iter().map(|field| (field.name.into(), of_kind(field.ty)));
            Type::object(table.structure(id).name, fields)
        }
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_storage::MemoryEngine;
    use listwatch_wire::json::json;

    use super::*;
    use crate::CacheLimits;
    use crate::cache::Cache;

    fn warnings(rules: Value, validations: Value) -> Vec<Warning> {
        let cache = Cache::new(Arc::new(MemoryEngine::default()), CacheLimits::default());
        let spec = json!({
            "matchConstraints": {"resourceRules": rules}, "validations": validations,
            "variables": [{"name": "count", "expression": "object.spec.replicas"}],
        });
        check(&Registry::builtin(&cache), &json!({"spec": spec}))
    }

    #[test]
    fn an_expression_that_does_not_fit_a_kind_is_warned_of() {
        let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments", "deployments/scale"]}]);
        let found = warnings(
            rules,
            json!([
                {"expression": "object.spec.replicas > 1", "messageExpression": "'has ' + string(variables.count)"},
                {"expression": "object.spec.replicas > '1'"},
                {"expression": "object.spec.repliicas > 1", "messageExpression": "object.metadata.namespace + variables.count"},
            ]),
        );
        let fields: Vec<&str> = found.iter().map(|warning| warning.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.validations[1].expression",
                "spec.validations[2].expression",
                "spec.validations[2].messageExpression"
            ]
        );
        assert!(found[0].text.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"), "{}", found[0].text);
        assert!(found[1].text.contains("undefined field 'repliicas'"), "{}", found[1].text);
    }

    /// 78 KB of names kept the controller busy for minutes, in which no namespace was deleted.
    #[test]
    fn rules_that_name_billions_of_kinds_are_checked_in_part() {
        let names = |prefix: &str| (0..2000).map(|n| Value::from(format!("{prefix}{n}"))).collect::<Vec<_>>();
        let cube = json!({"apiGroups": names("g"), "apiVersions": names("v"), "operations": ["*"], "resources": names("r")});
        let apps = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]});
        let wrong = json!([{"expression": "object.nothing == 1"}]);
        assert_eq!(warnings(json!([apps, cube]), wrong.clone()).len(), 1);
        assert_eq!(warnings(json!([cube, apps]), wrong), []);
    }

    /// Ten kinds for each of thousands of rules were all of them, for each of thousands of expressions.
    #[test]
    fn large_policies_are_checked_for_few_kinds() {
        let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["daemonsets", "deployments"]}]);
        let text = format!("object.nothing == '{}'", "x".repeat(900_000));
        let found = warnings(rules.clone(), json!([{"expression": text}]));
        assert_eq!(found[0].text.matches("Kind=").count(), 2);
        let more = format!("object.nothing == '{}'", "x".repeat(1_100_000));
        assert_eq!(warnings(rules, json!([{"expression": more}]))[0].text.matches("Kind=").count(), 1);
    }

    #[test]
    fn wildcards_and_unknown_kinds_are_not_checked() {
        for (groups, resources) in [("*", "deployments"), ("apps", "*"), ("apps", "unknown")] {
            let rules = json!([{"apiGroups": [groups], "apiVersions": ["v1"], "operations": ["*"], "resources": [resources]}]);
            assert_eq!(warnings(rules, json!([{"expression": "object.nothing == 1"}])), []);
        }
    }
}
