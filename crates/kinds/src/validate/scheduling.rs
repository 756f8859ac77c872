//! Where a Pod may run: affinities, spreading and gates.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::label_key_errors;

use super::selector;
use crate::field::{Errors, Path};
use crate::tree::Tree;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let affinity = path.child("affinity");
    node_affinity(spec.at("affinity").at("nodeAffinity"), &affinity.child("nodeAffinity"), errors);
    for key in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(spec.at("affinity").at(key), &affinity.child(key), errors);
    }
    spread(spec.list("topologySpreadConstraints"), &path.child("topologySpreadConstraints"), errors);
    gates(spec.list("schedulingGates"), &path.child("schedulingGates"), errors);
}

fn gates(gates: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (path, name) = (path.index(index), gate.text("name"));
        errors.invalid_all(&path, name, label_key_errors(name));
        if !seen.insert(name) {
            errors.duplicate(&path, name);
        }
    }
}

fn node_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    if affinity.has(REQUIRED) {
        let path = path.child(REQUIRED);
        let path = path.child("nodeSelectorTerms");
        let terms = affinity.at(REQUIRED).list("nodeSelectorTerms");
        if terms.is_empty() {
            errors.required(&path, "must have at least one node selector term");
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, &path.index(index), errors);
        }
    }
    let path = path.child(PREFERRED);
    for (index, preferred) in affinity.list(PREFERRED).iter().enumerate() {
        let path = path.index(index);
        weight(preferred, &path, errors);
        node_term(preferred.at("preference"), &path.child("preference"), errors);
    }
}

fn node_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["matchExpressions", "matchFields"] {
        let path = path.child(key);
        for (index, requirement) in term.list(key).iter().enumerate() {
            node_requirement(requirement, &path.index(index), errors);
        }
    }
}

fn node_requirement(requirement: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (count, values) = (requirement.count("values"), path.child("values"));
    match requirement.text("operator") {
        "In" | "NotIn" if count == 0 => {
            errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            errors.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if count != 1 => {
            errors.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = requirement.text("key");
    errors.invalid_all(&path.child("key"), key, label_key_errors(key));
}

fn weight(preferred: &Value, path: &Path<'_>, errors: &mut Errors) {
    let weight = preferred.int("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let required = path.child(REQUIRED);
    for (index, term) in affinity.list(REQUIRED).iter().enumerate() {
        pod_term(term, &required.index(index), errors);
    }
    let preferred = path.child(PREFERRED);
    for (index, term) in affinity.list(PREFERRED).iter().enumerate() {
        let path = preferred.index(index);
        weight(term, &path, errors);
        pod_term(term.at("podAffinityTerm"), &path.child("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["labelSelector", "namespaceSelector"] {
        selector::check(term.at(key), &path.child(key), errors);
    }
    topology_key(term.text("topologyKey"), &path.child("topologyKey"), errors);
}

fn topology_key(key: &str, path: &Path<'_>, errors: &mut Errors) {
    if key.is_empty() {
        errors.required(path, "can not be empty");
    }
    errors.invalid_all(path, key, label_key_errors(key));
}

fn spread(constraints: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        errors.positive(&path.child("maxSkew"), constraint.int("maxSkew"));
        topology_key(constraint.text("topologyKey"), &path.child("topologyKey"), errors);
        let actions = &["DoNotSchedule", "ScheduleAnyway"];
        errors.one_of(&path.child("whenUnsatisfiable"), constraint.text("whenUnsatisfiable"), actions);
        selector::check(constraint.at("labelSelector"), &path.child("labelSelector"), errors);
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if !seen.insert((key, action)) {
            let pair = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&pair, format!("{{{key}, {action}}}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn fields(spec: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&spec, &Path::root("spec"), &mut errors);
        errors.into_fields()
    }

    #[test]
    fn terms_are_checked_where_they_stand() {
        let node = |term: Value| json!({"affinity": {"nodeAffinity": {REQUIRED: term}}});
        let terms =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        assert_eq!(fields(node(json!({"nodeSelectorTerms": []}))), [terms]);
        let expression = |operator: &str| {
            node(json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": operator}]}]}))
        };
        assert_eq!(fields(expression("Exists")), [""; 0]);
        assert_eq!(fields(expression("In")), [format!("{terms}[0].matchExpressions[0].values")]);
        assert_eq!(fields(expression("Near")), [format!("{terms}[0].matchExpressions[0].operator")]);
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "Cry"}]});
        assert_eq!(
            fields(spread),
            [
                "spec.topologySpreadConstraints[0].maxSkew",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable"
            ]
        );
    }
}
