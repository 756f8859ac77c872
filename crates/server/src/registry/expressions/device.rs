//! CEL selectors of devices (dynamic resource allocation), in ResourceClaims, their templates and DeviceClasses.
//!
//! Checked only when they are written: selecting devices is the scheduler's work, not this server's. The variable
//! `device` has kube-apiserver's type. Specs of claims are immutable, so only classes are checked on update.
//! An attribute is of no type that is known in advance, so that a selector may be one; other expressions must be
//! boolean, which is stricter in policies ([`super::check`]).

use std::sync::LazyLock;

use listwatch_cel::{Env, PatternAllowance, Type, Version};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

use super::policy::has_type;

/// The longest expression that is looked at.
///
/// kube-apiserver's `CELSelectorExpressionMaxLength`.
const MAX_LENGTH: usize = 10 * 1024;

/// The variable `device`.
static DEVICE: LazyLock<Type> = LazyLock::new(|| {
    let by_domain = || Type::map(Type::String, Type::map(Type::String, Type::Dyn));
    let fields = [
        ("driver", Type::String),
        ("allowMultipleAllocations", Type::Bool),
        ("attributes", by_domain()),
        ("capacity", by_domain()),
    ];
    Type::object("kubernetes.DRADevice", fields.map(|(field, ty)| (field.into(), ty)))
});

/// Returns the errors of the selectors of a new claim, template or class, or of a changed class. The others never change.
pub(super) fn errors(kind: &str, object: &Value, changed: bool) -> Vec<FieldError> {
    let version = if changed { Version::Stored } else { Version::New };
    let env =
        Env::new(version).with_variable("device", DEVICE.clone()).with_patterns(PatternAllowance::default());
    let spec = object.at("spec");
    let mut errors = Vec::new();
    match kind {
        "ResourceClaim" if !changed => claim(&env, spec, "spec", &mut errors),
        "ResourceClaimTemplate" if !changed => claim(&env, spec.at("spec"), "spec.spec", &mut errors),
        "DeviceClass" => selectors(&env, spec, "spec", &mut errors),
        _ => {}
    }
    errors
}

/// The expressions of a claim: those of its requests and of their alternatives.
fn claim(env: &Env, spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, request) in spec.at("devices").list("requests").iter().enumerate() {
        let path = format!("{path}.devices.requests[{index}]");
        selectors(env, request.at("exactly"), &format!("{path}.exactly"), errors);
        for (index, option) in request.list("firstAvailable").iter().enumerate() {
            selectors(env, option, &format!("{path}.firstAvailable[{index}]"), errors);
        }
    }
}

/// Compiles each expression and reports what kube-apiserver reports.
fn selectors(env: &Env, holder: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, selector) in holder.list("selectors").iter().enumerate() {
        let path = format!("{path}.selectors[{index}].cel.expression");
        let source = selector.at("cel").text("expression");
        if !selector.has("cel") {
            continue;
        }
        if source.trim().is_empty() {
            errors.push(FieldError::invalid(path, source, "compilation failed: the expression is empty"));
        } else if source.len() > MAX_LENGTH {
            errors.push(FieldError::too_long(path, MAX_LENGTH));
        } else {
            errors.extend(problem(env, source).map(|why| FieldError::invalid(path, source, why)));
        }
    }
}

/// The reason why an expression cannot select devices.
fn problem(env: &Env, source: &str) -> Option<String> {
    match env.compile(source) {
        Err(issues) => Some(format!("compilation failed: {issues}")),
        Ok(expression) if has_type(&expression, &[Type::Bool]) => None,
        Ok(expression) => match expression.output_type() {
            Type::Dyn => None,
            found => Some(format!("must evaluate to bool or the unknown type, not {found}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn selectors_must_compile_and_decide() {
        for (source, wrong) in [
            ("device.driver == 'a'", false),
            ("device.attributes['a'].b == 1", false),
            ("device.attributes['a'].b", false),
            ("device.attributes['a']", true),
            ("device.driver == ", true),
            ("device.driver", true),
            ("nothing == 1", true),
            ("", true),
        ] {
            let selectors = json!([{"cel": {"expression": source}}]);
            let request = json!({"name": "r", "exactly": {"selectors": selectors}});
            let claim = json!({"spec": {"devices": {"requests": [request]}}});
            assert_eq!(!errors("ResourceClaim", &claim, false).is_empty(), wrong, "{source}");
        }
    }
}
