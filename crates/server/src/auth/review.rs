//! Questions about rights and identities, answered in the object that asks: access reviews and token reviews.
//!
//! None of these is stored. `subresources` hands them over once their body is decoded.

use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::status::FieldError;

use crate::auth::{Attributes, Authenticator, Authorizer, Decision, ISSUER, User};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whether objects of this resource are questions rather than things to store.
#[must_use]
pub fn is_review(group: &str, plural: &str) -> bool {
    matches!(group, AUTHORIZATION | AUTHENTICATION) && plural.ends_with("reviews")
}

/// Who asks, and whom to ask.
#[derive(Clone, Copy, Debug)]
pub struct Reviewer<'a> {
    /// Knows the rights.
    pub authorizer: &'a dyn Authorizer,
    /// Knows the identities.
    pub authenticator: &'a Authenticator,
    /// Who asks.
    pub user: &'a User,
}

impl Reviewer<'_> {
    /// Puts the answer into the question's `status`.
    ///
    /// # Errors
    /// 422 for a question that asks nothing, or two things at once.
    pub fn answer(&self, plural: &str, namespace: Option<&str>, review: &mut Value) -> Result<(), Status> {
        let spec = review.get("spec").cloned().unwrap_or_default();
        check_metadata(plural, review.get("metadata").unwrap_or(&Value::Null))?;
        let status = match plural {
            "selfsubjectaccessreviews" => self.access(self.user, &spec)?,
            "subjectaccessreviews" => self.access(&subject(&spec)?, &spec)?,
            "localsubjectaccessreviews" => {
                local(&spec, namespace.unwrap_or_default())?;
                self.access(&subject(&spec)?, &spec)?
            }
            "selfsubjectrulesreviews" => self.rules(&spec)?,
            "selfsubjectreviews" => json!({"userInfo": user_info(self.user)}),
            "tokenreviews" => self.token(&spec)?,
            _ => return Err(Status::method_not_allowed()),
        };
        if let Some(review) = review.as_object_mut() {
            review.insert("status".to_owned(), status);
            review.entry("metadata").or_insert_with(|| json!({}));
            if plural == "selfsubjectrulesreviews" {
                // Of this question the reference forgets what it was about.
                review.insert("spec".to_owned(), json!({}));
            }
        }
        Ok(())
    }

    fn access(&self, user: &User, spec: &Value) -> Result<Value, Status> {
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let decision = match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
            (Some(asked), None) => {
                let field = |name| text(asked, name);
                let (verb, group, version) = (field("verb"), field("group"), field("version"));
                let (resource, subresource) = (field("resource"), field("subresource"));
                let (namespace, name) = (field("namespace"), field("name"));
                // A question about no resource in particular is one about all of them, not about a path.
                let resource = if resource.is_empty() { "*".to_owned() } else { resource };
                self.authorizer.authorize(
                    user,
                    &Attributes {
                        verb: &verb,
                        group: &group,
                        version: &version,
                        resource: &resource,
                        subresource: &subresource,
                        namespace: &namespace,
                        name: &name,
                        path: "",
                    },
                )
            }
            (None, Some(asked)) => {
                let (verb, path) = (text(asked, "verb"), text(asked, "path"));
                self.authorizer
                    .authorize(user, &Attributes { verb: &verb, path: &path, ..Attributes::default() })
            }
            _ => {
                let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                return Err(invalid(FieldError::invalid("spec", Value::Null, detail)));
            }
        };
        Ok(match decision {
            Decision::Allow => json!({"allowed": true}),
            Decision::NoOpinion(reason) if reason.is_empty() => json!({"allowed": false}),
            Decision::NoOpinion(reason) => json!({"allowed": false, "reason": reason}),
        })
    }

    fn rules(&self, spec: &Value) -> Result<Value, Status> {
        let namespace = spec.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (paths, resources): (Vec<_>, Vec<_>) = self
            .authorizer
            .rules(self.user, namespace)
            .into_iter()
            .partition(|rule| rule.resources.is_empty());
        Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
    }

    fn token(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = spec.get("audiences").and_then(Value::as_array).into_iter().flatten();
        let mut audiences: Vec<&str> = audiences.filter_map(Value::as_str).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER);
        }
        Ok(match self.authenticator.user_for(token, &audiences) {
            Some((user, meant)) => {
                json!({"authenticated": true, "user": user_info(&user), "audiences": meant})
            }
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }
}

fn subject(spec: &Value) -> Result<User, Status> {
    let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let groups = spec.get("groups").and_then(Value::as_array).into_iter().flatten();
    let groups: Vec<String> = groups.filter_map(Value::as_str).map(str::to_owned).collect();
    if text("user").is_empty() && groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        return Err(invalid(FieldError::invalid("spec.user", "", detail)));
    }
    Ok(User { name: text("user"), uid: text("uid"), groups, ..User::default() })
}

/// A local review speaks of its own namespace only.
fn local(spec: &Value, namespace: &str) -> Result<(), Status> {
    if let Some(asked) = spec.get("nonResourceAttributes") {
        let detail = "disallowed on this kind of request";
        return Err(invalid(FieldError::invalid("spec.nonResourceAttributes", asked.clone(), detail)));
    }
    let asked = spec.pointer("/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or_default();
    if asked == namespace {
        return Ok(());
    }
    let detail = "must match metadata.namespace";
    Err(invalid(FieldError::invalid("spec.resourceAttributes.namespace", asked, detail)))
}

/// A question about rights has no identity of its own.
fn check_metadata(plural: &str, metadata: &Value) -> Result<(), Status> {
    let (allowed, detail): (&[&str], _) = match plural {
        "localsubjectaccessreviews" => {
            (&["managedFields", "namespace"], "must be empty except for namespace")
        }
        "selfsubjectaccessreviews" | "subjectaccessreviews" => (&["managedFields"], "must be empty"),
        _ => return Ok(()),
    };
    match metadata.as_object() {
        Some(fields) if fields.keys().any(|key| !allowed.contains(&key.as_str())) => {
            Err(invalid(FieldError::invalid("metadata", metadata.clone(), detail)))
        }
        _ => Ok(()),
    }
}

fn invalid(error: FieldError) -> Status {
    Status::invalid(AUTHORIZATION, "", "", &[error])
}

fn user_info(user: &User) -> Value {
    let mut info = listwatch_wire::json::Map::new();
    info.insert("username", user.name.as_str().into());
    info.insert("groups", user.groups.clone().into());
    if !user.uid.is_empty() {
        info.insert("uid", user.uid.as_str().into());
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.as_str(), Value::from(values.clone())));
        info.insert("extra", Value::Object(extra.collect()));
    }
    info.into()
}
