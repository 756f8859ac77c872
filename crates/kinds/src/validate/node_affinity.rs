//! Requirements on nodes, by label or by field.

use listwatch_wire::names::subdomain_errors;

use super::checks;
use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![comparison_has_one_value, node_selector_operator_is_known, node_field_requirement_is_supported];

fn comparison_has_one_value(at: &At<'_>, errors: &mut Errors) {
    if at.parent.count("values") != 1 {
        errors.required(at.path, "must be specified single value when `operator` is 'Lt' or 'Gt'");
    }
}

fn node_selector_operator_is_known(at: &At<'_>, errors: &mut Errors) {
    let operator = at.value.as_str().unwrap_or_default();
    if !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt") {
        errors.invalid(at.path, operator, "not a valid selector operator");
    }
}

/// Of the fields of a node only its name can be asked for, one at a time.
fn node_field_requirement_is_supported(at: &At<'_>, errors: &mut Errors) {
    let values = at.path.child("values");
    match at.value.text("operator") {
        "In" | "NotIn" if at.value.count("values") != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&values, detail);
        }
        "In" | "NotIn" => {}
        other => errors.invalid(&at.path.child("operator"), other, "not a valid selector operator"),
    }
    let key = at.value.text("key");
    if key != "metadata.name" {
        errors.invalid(&at.path.child("key"), key, "not a valid field selector key");
        return;
    }
    for (index, value) in at.value.list("values").iter().enumerate() {
        let name = value.as_str().unwrap_or_default();
        errors.invalid_all(&values.index(index), name, subdomain_errors(name));
    }
}
