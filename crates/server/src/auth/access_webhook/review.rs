//! [`AccessReview`]: the SubjectAccessReview that an authorization webhook receives, and its answer. Pure.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Map, Value, encode, json};
use listwatch_wire::selector::{FieldSelector, LabelSelector, Operator};
use sha2::{Digest as _, Sha256};

use crate::auth::answers::{CachedVerdict, Digest};
use crate::auth::{AuthorizerAttributes, Decision, Refusal, ReviewVersion, User};

const GROUP: &str = "authorization.k8s.io";
const KIND: &str = "SubjectAccessReview";
/// Bytes of the attributes that the requester chooses, above which a verdict is not cached, as in kube-apiserver.
const CACHED_ATTRIBUTES: usize = 10_000;
/// Bytes of a reason that are kept.
const REASON_BYTES: usize = 4 << 10;

/// A question to a webhook.
#[derive(Debug)]
pub(super) struct AccessReview {
    /// The document that is sent.
    pub(super) body: Vec<u8>,
    /// Identifies the question.
    pub(super) digest: Digest,
    /// False for a question that is too long to be kept: the requester could fill the cache.
    pub(super) is_cached: bool,
}

impl AccessReview {
    /// The review of a specification that [`spec`] made.
    pub(super) fn new(version: ReviewVersion, spec: Value, wanted: &AuthorizerAttributes<'_>) -> Self {
        let review = json!({
            "kind": KIND, "apiVersion": version.of(GROUP), "metadata": {}, "spec": spec,
            "status": {"allowed": false},
        });
        let body = encode(&review);
        Self {
            digest: Sha256::digest(&body).into(),
            body,
            is_cached: chosen_bytes(wanted) < CACHED_ATTRIBUTES,
        }
    }
}

/// The bytes of a request's attributes that the requester chooses.
fn chosen_bytes(wanted: &AuthorizerAttributes<'_>) -> usize {
    let AuthorizerAttributes { verb, group, version, resource, subresource, namespace, name, path, .. } =
        wanted;
    [verb, group, version, resource, subresource, namespace, name, path].iter().map(|text| text.len()).sum()
}

/// The `spec` of a review. `v1beta1` has another name for the groups.
pub(super) fn spec(version: ReviewVersion, user: &User, wanted: &AuthorizerAttributes<'_>) -> Value {
    let mut spec = Map::new();
    if wanted.is_resource() {
        spec.insert("resourceAttributes", resource_attributes(wanted, false));
    } else {
        let texts = [("path", wanted.path), ("verb", wanted.verb)];
        spec.insert("nonResourceAttributes", texts_of(&texts, false).into());
    }
    let groups = if version == ReviewVersion::V1 { "groups" } else { "group" };
    if !user.name.is_empty() {
        spec.insert("user", user.name.as_str().into());
    }
    if !user.groups.is_empty() {
        spec.insert(groups, user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        spec.insert("extra", extra(user));
    }
    if !user.uid.is_empty() {
        spec.insert("uid", user.uid.as_str().into());
    }
    spec.into()
}

/// The variable `request` of match conditions: a `v1` specification that has its texts even where they are empty.
pub(super) fn condition_request(user: &User, wanted: &AuthorizerAttributes<'_>) -> Value {
    let mut spec = Map::new();
    spec.insert("user", user.name.as_str().into());
    spec.insert("groups", user.groups.clone().into());
    spec.insert("uid", user.uid.as_str().into());
    spec.insert("extra", extra(user));
    if wanted.is_resource() {
        spec.insert("resourceAttributes", resource_attributes(wanted, true));
    } else {
        let texts = [("verb", wanted.verb), ("path", wanted.path)];
        spec.insert("nonResourceAttributes", texts_of(&texts, true).into());
    }
    spec.into()
}

fn extra(user: &User) -> Value {
    let extra = user.extra.iter().map(|(key, values)| (key.as_str(), Value::from(values.clone())));
    Value::Object(extra.collect())
}

fn resource_attributes(wanted: &AuthorizerAttributes<'_>, with_empty: bool) -> Value {
    let texts = [
        ("namespace", wanted.namespace),
        ("verb", wanted.verb),
        ("group", wanted.group),
        ("version", wanted.version),
        ("resource", wanted.resource),
        ("subresource", wanted.subresource),
        ("name", wanted.name),
    ];
    let mut attributes = texts_of(&texts, with_empty);
    let selectors =
        [("fieldSelector", wanted.fields.map(fields)), ("labelSelector", wanted.labels.map(labels))];
    for (key, requirements) in selectors {
        if let Some(requirements) = requirements.filter(|requirements| !requirements.is_empty()) {
            attributes.insert(key, json!({"requirements": requirements}));
        }
    }
    attributes.into()
}

fn texts_of(texts: &[(&str, &str)], with_empty: bool) -> Map {
    let mut map = Map::new();
    for (key, text) in texts.iter().filter(|(_, text)| with_empty || !text.is_empty()) {
        map.insert(*key, (*text).into());
    }
    map
}

/// The requirements of a field selector.
fn fields(selector: &FieldSelector) -> Vec<Value> {
    let requirement = |term: &listwatch_wire::selector::FieldTerm| {
        let operator = if term.negated { "NotIn" } else { "In" };
        json!({"key": term.field.as_str(), "operator": operator, "values": [term.value.as_str()]})
    };
    selector.terms().iter().map(requirement).collect()
}

/// The requirements of a label selector; those that a review cannot express are left out, which makes the question broader. One that
/// cannot be parsed has none, and the request is rejected after authorization.
fn labels(selector: &str) -> Vec<Value> {
    let Ok(selector) = selector.parse::<LabelSelector>() else { return Vec::new() };
    let requirements = selector.requirements().iter().filter_map(|requirement| {
        let operator = match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        Some(match requirement.values() {
            [] => json!({"key": requirement.key(), "operator": operator}),
            values => json!({"key": requirement.key(), "operator": operator, "values": values.to_vec()}),
        })
    });
    requirements.collect()
}

/// The verdict of a webhook, as its answer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessVerdict {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl AccessVerdict {
    /// Reads the answer to a review. Without a kind, an answer is a review, as in kube-apiserver.
    ///
    /// # Errors
    /// The answer is no SubjectAccessReview: the call failed, which is not a verdict.
    pub(super) fn read(answer: &[u8]) -> Result<Self, String> {
        let no_review = |why: &str| format!("the answer of the webhook is no {KIND}: {why}");
        let answer = Value::read(answer).map_err(|_| no_review("it is no JSON"))?;
        let known = ["", "authorization.k8s.io/v1", "authorization.k8s.io/v1beta1"];
        let (version, kind) = (answer.text("apiVersion"), answer.text("kind"));
        if !known.contains(&version) || !["", KIND].contains(&kind) || !answer.is_object() {
            return Err(no_review("it has another kind"));
        }
        let status = answer.at("status");
        let flag = |key: &str| match status.at(key) {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            _ => Err(no_review("its verdict has another type")),
        };
        if !status.is_object() && !status.is_null() {
            return Err(no_review("its status has another type"));
        }
        let mut reason = status.text("reason").to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES));
        reason.shrink_to_fit();
        Ok(Self { allowed: flag("allowed")?, denied: flag("denied")?, reason })
    }

    /// The decision that the verdict means.
    pub(super) fn decision(&self) -> Decision {
        match (self.denied, self.allowed) {
            (true, true) => {
                let error = "webhook subject access review returned both allow and deny response";
                Decision::Deny(Refusal { reason: self.reason.clone(), error: Some(error.to_owned()) })
            }
            (true, false) => Decision::Deny(self.reason.clone().into()),
            (false, true) => Decision::Allow,
            (false, false) => Decision::no_opinion(self.reason.as_str()),
        }
    }

    /// The reason that the webhook gave.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }
}

impl CachedVerdict for AccessVerdict {
    fn is_positive(&self) -> bool {
        self.allowed
    }

    fn bytes(&self) -> usize {
        self.reason.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A text of JSON with its names in the order of [`encode`].
    fn ordered(text: &str) -> String {
        String::from_utf8(encode(&Value::read(text.as_bytes()).unwrap())).unwrap()
    }

    fn text(value: &Value) -> String {
        String::from_utf8(encode(value)).unwrap()
    }

    #[test]
    fn a_request_becomes_the_review_of_kube_apiserver() {
        let jane = User {
            name: "jane".to_owned(),
            uid: "1".to_owned(),
            groups: vec!["devs".to_owned()],
            extra: BTreeMap::from([("scopes".to_owned(), vec!["a".to_owned()])]),
        };
        let fields: FieldSelector = "spec.nodeName=n,metadata.name!=m".parse().unwrap();
        let wanted = AuthorizerAttributes {
            verb: "list",
            version: "v1",
            resource: "pods",
            path: "/api/v1/pods",
            fields: Some(&fields),
            labels: Some("a=b,c notin (d,e),f,!g,h>1"),
            ..AuthorizerAttributes::default()
        };
        assert_eq!(
            text(&spec(ReviewVersion::V1, &jane, &wanted)),
            ordered(concat!(
                r#"{"resourceAttributes":{"verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":["#,
                r#"{"key":"metadata.name","operator":"NotIn","values":["m"]},{"key":"spec.nodeName","operator":"In","values":["n"]}]},"#,
                r#""labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},"#,
                r#"{"key":"c","operator":"NotIn","values":["d","e"]},{"key":"f","operator":"Exists"},{"key":"g","operator":"DoesNotExist"}]}},"#,
                r#""user":"jane","groups":["devs"],"extra":{"scopes":["a"]},"uid":"1"}"#
            ))
        );
        let path = AuthorizerAttributes { verb: "get", path: "/version", ..AuthorizerAttributes::default() };
        let anonymous = User { name: "a".to_owned(), groups: vec!["b".to_owned()], ..User::default() };
        assert_eq!(
            text(&spec(ReviewVersion::V1beta1, &anonymous, &path)),
            ordered(r#"{"nonResourceAttributes":{"path":"/version","verb":"get"},"user":"a","group":["b"]}"#)
        );
    }

    #[test]
    fn an_answer_is_a_verdict_or_a_failure() {
        let decided = |status: &str| {
            AccessVerdict::read(format!(r#"{{"status":{status}}}"#).as_bytes())
                .map(|verdict| verdict.decision())
        };
        assert_eq!(decided(r#"{"allowed":true,"reason":"x"}"#), Ok(Decision::Allow));
        assert_eq!(decided(r#"{"denied":true,"reason":"x"}"#), Ok(Decision::Deny("x".to_owned().into())));
        assert_eq!(decided("{}"), Ok(Decision::no_opinion("")));
        let both = decided(r#"{"denied":true,"allowed":true}"#).unwrap().refusal().unwrap();
        assert!(both.error.is_some(), "{both:?}");
        for wrong in [r#"{"allowed":"true"}"#, "[]", "1"] {
            assert!(decided(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["<html>", "", r#"{"kind":"TokenReview"}"#, r#"{"apiVersion":"v1","kind":"SubjectAccessReview"}"#]
        {
            assert!(AccessVerdict::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let long = format!(r#"{{"status":{{"reason":"{}"}}}}"#, "é".repeat(REASON_BYTES));
        assert_eq!(AccessVerdict::read(long.as_bytes()).unwrap().reason.len(), REASON_BYTES);
    }

    #[test]
    fn a_long_question_is_not_kept() {
        let name = "x".repeat(CACHED_ATTRIBUTES);
        let wanted = AuthorizerAttributes { name: &name, ..AuthorizerAttributes::default() };
        assert!(!AccessReview::new(ReviewVersion::V1, Value::Null, &wanted).is_cached);
        assert!(
            AccessReview::new(ReviewVersion::V1, Value::Null, &AuthorizerAttributes::default()).is_cached
        );
    }
}
