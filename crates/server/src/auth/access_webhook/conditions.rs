//! [`MatchConditions`]: the CEL expressions that decide if an authorization webhook is called for a request.
//!
//! They are compiled once, when the configuration is read. Next: `review.rs`, the value that they are evaluated on.

use std::sync::LazyLock;

use listwatch_cel::{Activation, Env, EvalError, Expression, Program, Type, Value, Version};
use listwatch_wire::json::Value as Json;
use listwatch_wire::status::{FieldError, aggregate};

/// The most conditions of one webhook, as in kube-apiserver.
const MAX_CONDITIONS: usize = 64;

/// The conditions of a webhook, compiled.
#[derive(Debug, Default)]
pub(super) struct MatchConditions(Vec<(String, Program)>);

impl MatchConditions {
    /// Compiles the conditions of the webhook at `path`.
    ///
    /// # Errors
    /// All that is wrong with them, in kube-apiserver's words.
    pub(super) fn compile(sources: &[String], path: &str) -> Result<Self, Vec<FieldError>> {
        if sources.len() > MAX_CONDITIONS {
            let path = format!("{path}matchConditions");
            return Err(vec![FieldError::too_many(path, sources.len(), MAX_CONDITIONS)]);
        }
        let (mut compiled, mut errors) = (Vec::new(), Vec::new());
        for (index, source) in sources.iter().enumerate() {
            let path = format!("{path}matchConditions[{index}].expression");
            let earlier = sources.get(..index).unwrap_or_default();
            if source.trim().is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if earlier.contains(source) {
                errors.push(FieldError::duplicate(path, source.as_str()));
            } else {
                match program(source) {
                    Ok(program) => compiled.push((source.clone(), program)),
                    Err(why) => errors.push(FieldError::invalid(path, source.as_str(), why)),
                }
            }
        }
        if errors.is_empty() { Ok(Self(compiled)) } else { Err(errors) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all conditions hold. One that is false decides, whatever errors others have.
    ///
    /// # Errors
    /// The errors of conditions, if none is false.
    pub(super) fn hold(&self, request: &Json) -> Result<bool, String> {
        let mut errors = Vec::new();
        for (source, program) in &self.0 {
            match program.evaluate(&ConditionRequest(request)).result {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {
                    let error = format!("expression '{source}' eval result type should be bool");
                    errors.push(format!("cel evaluation error: {error}"));
                }
                Err(error) => {
                    let error = format!("expression '{source}' resulted in error: {}", error.message());
                    errors.push(format!("cel evaluation error: {error}"));
                }
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(aggregate(errors)) }
    }
}

/// The only variable of conditions.
struct ConditionRequest<'a>(&'a Json);

impl<'a> Activation<'a> for ConditionRequest<'a> {
    fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        Ok((name == "request").then(|| Value::from_json(self.0)))
    }
}

/// Compiles a condition, which must be a boolean.
fn program(source: &str) -> Result<Program, String> {
    let expression: Expression =
        ENVIRONMENT.compile(source).map_err(|issues| format!("compilation failed: {issues}"))?;
    let found = expression.output_type();
    if !found.is_same(&Type::Bool) {
        return Err(format!("must evaluate to bool but got {found}"));
    }
    expression.program().map_err(|error| format!("program instantiation failed: {}", error.message()))
}

/// The environment of conditions.
static ENVIRONMENT: LazyLock<Env> =
    LazyLock::new(|| Env::new(Version::Stored).with_variable("request", REQUEST.clone()));

/// The type of the variable `request`.
static REQUEST: LazyLock<Type> = LazyLock::new(|| {
    let texts = || Type::list(Type::String);
    let requirement = || {
        object(
            "SelectorRequirement",
            vec![("key", Type::String), ("operator", Type::String), ("values", texts())],
        )
    };
    let selector = |name: &str| {
        object(name, vec![("rawSelector", Type::String), ("requirements", Type::list(requirement()))])
    };
    let names = ["namespace", "verb", "group", "version", "resource", "subresource", "name"];
    let mut attributes: Vec<(&str, Type)> = names.iter().map(|name| (*name, Type::String)).collect();
    attributes.push(("fieldSelector", selector("FieldSelectorAttributes")));
    attributes.push(("labelSelector", selector("LabelSelectorAttributes")));
    let paths = object("NonResourceAttributes", vec![("path", Type::String), ("verb", Type::String)]);
    object(
        "SubjectAccessReviewSpec",
        vec![
            ("resourceAttributes", object("ResourceAttributes", attributes)),
            ("nonResourceAttributes", paths),
            ("user", Type::String),
            ("groups", texts()),
            ("extra", Type::map(Type::String, texts())),
            ("uid", Type::String),
        ],
    )
});

fn object(name: &str, fields: Vec<(&str, Type)>) -> Type {
    Type::object(&format!("kubernetes.{name}"), fields.into_iter().map(|(field, ty)| (field.into(), ty)))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn holds(sources: &[&str], request: &Json) -> Result<bool, String> {
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        MatchConditions::compile(&sources, "").unwrap().hold(request)
    }

    #[test]
    fn conditions_see_the_review() {
        let request = json!({
            "user": "jane", "groups": ["devs"], "uid": "", "extra": {"a": ["b"]},
            "resourceAttributes": {"verb": "get", "namespace": "kube-system", "name": ""},
        });
        for (source, expected) in [
            ("request.user == 'jane' && 'devs' in request.groups", true),
            (
                "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'kube-system'",
                true,
            ),
            ("has(request.nonResourceAttributes)", false),
            ("request.extra['a'][0] == 'b'", true),
            ("has(request.resourceAttributes.labelSelector)", false),
            ("!('system:masters' in request.groups)", true),
        ] {
            assert_eq!(holds(&[source], &request), Ok(expected), "{source}");
        }
        let fails = "request.nonResourceAttributes.path == '/'";
        let error = holds(&[fails], &request).unwrap_err();
        assert!(
            error.starts_with(&format!(
                "cel evaluation error: expression '{fails}' resulted in error: no such key"
            )),
            "{error}"
        );
        assert_eq!(holds(&[fails, "false"], &request), Ok(false), "one that is false decides");
    }

    #[test]
    fn wrong_conditions_are_told_as_in_kube_apiserver() {
        let sources = ["", "true", "true", "request.users == 'a'", "request.user"].map(str::to_owned);
        let errors = MatchConditions::compile(&sources, "authorizers[0].").unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "authorizers[0].matchConditions[0].expression: Required value");
        assert_eq!(texts[1], r#"authorizers[0].matchConditions[2].expression: Duplicate value: "true""#);
        assert!(
            texts[2].contains("compilation failed: ERROR: <input>:1:8: undefined field 'users'"),
            "{}",
            texts[2]
        );
        assert_eq!(
            texts[3],
            r#"authorizers[0].matchConditions[4].expression: Invalid value: "request.user": must evaluate to bool but got string"#
        );
        let many = vec![String::new(); 65];
        assert_eq!(
            MatchConditions::compile(&many, "").unwrap_err()[0].to_string(),
            "matchConditions: Too many: 65: must have at most 64 items"
        );
    }
}
