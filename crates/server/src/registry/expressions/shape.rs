//! Validation of admission policies and their bindings, apart from their expressions: names, counts, unions.
//!
//! The rules and messages are kube-apiserver's. They are here and not in the tables of `listwatch_kinds` because they
//! belong to the same objects as the expressions, which need a compiler. Bounds such as 64 match conditions limit the
//! work per request. Expressions are [`super::check`].

use std::collections::HashSet;

use listwatch_cel::is_identifier;
use listwatch_kinds::field::{Errors, Path};
use listwatch_kinds::names::label_1035_errors;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, subdomain_errors};

use super::policy::{MAX_VARIABLES, PolicyFamily};

/// The operations of rules that change objects: without `DELETE`, since there is no object to change then.
const MUTABLE_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
/// Reasons that a validation may give; each has a status code.
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
/// kube-apiserver's bounds.
const MATCH_CONDITIONS: usize = 64;
/// The most audit annotations of one policy: each is in every audit event that it matches.
const AUDIT_ANNOTATIONS: usize = 20;
/// The longest expression of the value of an audit annotation, in bytes.
const AUDIT_ANNOTATION_EXPRESSION: usize = 5 * 1024;

/// Validates a policy, apart from its expressions. Errors are in the order of kube-apiserver.
///
/// All errors are collected; expressions are compiled even if there are some, so that an author sees everything at
/// once.
pub(super) fn policy(family: PolicyFamily, name: &str, spec: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    let failure_policy = path.child("failurePolicy");
    match spec.has("failurePolicy") {
        true => errors.one_of(&failure_policy, spec.text("failurePolicy"), &["Fail", "Ignore"]),
        false => errors.required(&failure_policy, ""),
    }
    if spec.has("paramKind") {
        param_kind(spec.at("paramKind"), &path.child("paramKind"), errors);
    }
    let constraints = path.child("matchConstraints");
    if spec.has("matchConstraints") {
        if spec.at("matchConstraints").count("resourceRules") == 0 {
            errors.required(&constraints.child("resourceRules"), "");
        }
    } else {
        errors.required(&constraints, "");
    }
    match_conditions(spec, &path, errors);
    variables(spec, &path, errors);
    match family {
        PolicyFamily::Validating => validations(name, spec, &path, errors),
        PolicyFamily::Mutating => mutations(spec, &path, errors),
    }
}

/// The kind need not be served: it may be defined later. Requests fail by the failure policy until then.
fn param_kind(kind: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (version, at) = (kind.text("apiVersion"), path.child("apiVersion"));
    if version.is_empty() {
        errors.required(&at, "");
    } else if version.matches('/').count() > 1 {
        errors.invalid(&at, version, format!("unexpected GroupVersion string: {version}"));
    } else {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        if !group.is_empty() {
            errors.invalid_all(&at, group, subdomain_errors(group));
        }
        errors.invalid_all(&at, version, label_1035_errors(version));
    }
    let (name, at) = (kind.text("kind"), path.child("kind"));
    if name.is_empty() {
        errors.required(&at, "");
    } else {
        let form = label_1035_errors(&name.to_lowercase());
        let said = form.iter().map(|why| format!("may have mixed case, but should otherwise match: {why}"));
        errors.invalid_all(&at, name, said);
    }
}

/// Names identify conditions in messages and metrics, so they must be unique and qualified.
fn match_conditions(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (items, path) = (spec.list("matchConditions"), path.child("matchConditions"));
    if items.len() > MATCH_CONDITIONS {
        errors.invalid(&path, items.len() as u64, format!("must have at most {MATCH_CONDITIONS} items"));
    }
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let (path, name) = (path.index(index), item.text("name"));
        if item.text("expression").trim().is_empty() {
            errors.required(&path.child("expression"), "");
        }
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_all(&path.child("name"), name, label_key_errors(name));
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
    }
}

/// Order matters to the compiler, which lets a variable read the earlier ones only; names are identifiers because
/// expressions write `variables.name`.
fn variables(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("variables");
    if spec.count("variables") > MAX_VARIABLES {
        return errors.too_many(&path, spec.count("variables"), MAX_VARIABLES);
    }
    for (index, variable) in spec.list("variables").iter().enumerate() {
        let (path, name) = (path.index(index), variable.text("name"));
        if name.trim().is_empty() {
            errors.required(&path.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&path.child("name"), name, "must be a valid CEL identifier");
        }
        if variable.text("expression").trim().is_empty() {
            errors.required(&path.child("expression"), "expression is not specified");
        }
    }
}

/// Checks validations and audit annotations. The key of an annotation is qualified with the name of the policy, and
/// must be valid with it.
fn validations(name: &str, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (list, annotations) = (path.child("validations"), path.child("auditAnnotations"));
    if spec.count("validations") == 0 && spec.count("auditAnnotations") == 0 {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&list, detail);
        errors.required(&annotations, detail);
    }
    for (index, item) in spec.list("validations").iter().enumerate() {
        validation(item, &list.index(index), errors);
    }
    if spec.count("auditAnnotations") > AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS} auditAnnotations");
        errors.invalid(&annotations, spec.at("auditAnnotations").clone(), detail);
    }
    let mut seen = HashSet::new();
    for (index, item) in spec.list("auditAnnotations").iter().enumerate() {
        let (path, key) = (annotations.index(index), item.text("key"));
        let qualified = format!("{name}/{key}");
        errors.invalid_all(&path.child("key"), qualified.as_str(), label_key_errors(&qualified));
        if !seen.insert(key) {
            errors.duplicate(&path.child("key"), key);
        }
        let source = item.text("valueExpression").trim();
        if source.is_empty() {
            errors.required(&path.child("valueExpression"), "valueExpression is not specified");
        } else if source.len() > AUDIT_ANNOTATION_EXPRESSION {
            let detail = format!("must not exceed {AUDIT_ANNOTATION_EXPRESSION} bytes in length");
            errors.required(&path.child("valueExpression"), detail);
        }
    }
}

/// A message is one line, as it ends up in a Status.
fn validation(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    if item.text("expression").trim().is_empty() {
        errors.required(&path.child("expression"), "expression is not specified");
    }
    for key in ["message", "messageExpression"] {
        let text = item.text(key);
        if !text.is_empty() && text.trim().is_empty() {
            errors.invalid(&path.child(key), text, "must be non-empty if specified");
        }
    }
    if item.text("message").trim().contains(['\n', '\r']) {
        errors.invalid(&path.child("message"), item.text("message"), "must not contain line breaks");
    }
    if item.has("reason") {
        errors.one_of(&path.child("reason"), item.text("reason"), &REASONS);
    }
}

/// Rules must not name deletions, see [`MUTABLE_OPERATIONS`]. kube-apiserver leaves out the indexes.
fn mutable_operations(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rules = path.child("resourceRules");
    for rule in resources.list("resourceRules") {
        for operation in rule.list("operations").iter().filter_map(Value::as_str) {
            errors.one_of(&rules.child("operations"), operation, &MUTABLE_OPERATIONS);
        }
    }
}

/// Checks the mutations of a policy: operations, patches and reinvocation.
fn mutations(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    mutable_operations(spec.at("matchConstraints"), &path.child("matchConstraints"), errors);
    let list = path.child("mutations");
    if spec.count("mutations") == 0 {
        errors.required(&list, "mutations must contain at least one item");
    }
    for (index, item) in spec.list("mutations").iter().enumerate() {
        mutation(item, &list.index(index), errors);
    }
    let policy = spec.text("reinvocationPolicy");
    errors.required_one_of(&path.child("reinvocationPolicy"), policy, &["IfNeeded", "Never"]);
}

/// A union by `patchType`: the field of that type must be there, and the other one must not.
fn mutation(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (own, other) = match item.text("patchType") {
        "" => return errors.required(&path.child("patchType"), ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        unknown => {
            let known = ["ApplyConfiguration", "JSONPatch"];
            return errors.not_supported(&path.child("patchType"), unknown, &known);
        }
    };
    let kind = item.text("patchType");
    if !item.has(own) {
        errors.required(&path.child(own), format!("must be specified when patchType is {kind}"));
    } else if item.at(own).text("expression").trim().is_empty() {
        let path = path.child(own);
        errors.required(&path.child("expression"), "expression is not specified");
    }
    if item.has(other) {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.invalid(&path.child(other), format!("{{{other}}}"), detail);
    }
}

/// Validates a binding. Its policy need not exist.
pub(super) fn binding(family: PolicyFamily, spec: &Value, errors: &mut Errors) {
    let path = Path::root("spec");
    match spec.text("policyName") {
        // The table of declared rules covers the other family.
        "" if family == PolicyFamily::Mutating => errors.required(&path.child("policyName"), ""),
        "" => {}
        name => errors.invalid_all(&path.child("policyName"), name, subdomain_errors(name)),
    }
    if spec.has("paramRef") {
        param_ref(spec.at("paramRef"), &path.child("paramRef"), errors);
    }
    match family {
        PolicyFamily::Validating => actions(spec, &path.child("validationActions"), errors),
        PolicyFamily::Mutating => {
            mutable_operations(spec.at("matchResources"), &path.child("matchResources"), errors);
        }
    }
}

/// By name or by selector. The action for missing parameters has no default, because neither choice is harmless.
fn param_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (named, selected) = (!reference.text("name").is_empty(), reference.has("selector"));
    match (named, selected) {
        (true, true) => {
            for key in ["name", "selector"] {
                errors.forbidden(&path.child(key), "name and selector are mutually exclusive");
            }
        }
        (false, false) => errors.required(path, "one of name or selector must be specified"),
        _ => {}
    }
    let action = reference.text("parameterNotFoundAction");
    errors.required_one_of(&path.child("parameterNotFoundAction"), action, &["Deny", "Allow"]);
}

/// `Deny` makes `Warn` superfluous; each action once.
fn actions(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let items: Vec<&str> = spec.list("validationActions").iter().filter_map(Value::as_str).collect();
    let mut seen = HashSet::new();
    for (index, action) in items.iter().enumerate() {
        errors.one_of(&path.index(index), action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(*action) {
            errors.duplicate(&path.index(index), *action);
        }
    }
    if items.contains(&"Deny") && items.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(path, spec.at("validationActions").clone(), detail);
    }
}
