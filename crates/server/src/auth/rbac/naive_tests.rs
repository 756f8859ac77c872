//! The model that [`super::policy`] is tested against: RBAC written straight from its description, without any index.
//!
//! Random roles, bindings, aggregations, users and requests must get the same decision from both. It is slow and
//! simple on purpose; a change of the rules is made here first, then in the indexed policy.

use std::collections::BTreeSet;

use listwatch_wire::json::{Value, json};
use proptest::prelude::*;

use crate::auth::rbac::{Policy, PolicyRule};
use crate::auth::{AuthorizerAttributes, User};

/// Everything there is, as objects.
#[derive(Clone, Debug, Default)]
struct World {
    cluster_roles: Vec<Value>,
    roles: Vec<Value>,
    cluster_bindings: Vec<Value>,
    bindings: Vec<Value>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn has(list: &[Value], wanted: &str) -> bool {
    list.iter().any(|value| value.as_str() == Some(wanted))
}

impl World {
    fn allows(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> bool {
        let everywhere = self.cluster_bindings.iter().map(|binding| (binding, ""));
        let here = self.bindings.iter().map(|binding| (binding, text(binding, "/metadata/namespace")));
        everywhere
            .chain(here.filter(|(_, namespace)| *namespace == wanted.namespace))
            .filter(|(binding, namespace)| list(binding, "/subjects").iter().any(|s| is(s, user, namespace)))
            .any(|(binding, namespace)| {
                self.rules_of(binding, namespace).iter().any(|rule| rule_allows(rule, wanted))
            })
    }

    fn rules_of(&self, binding: &Value, namespace: &str) -> Vec<Value> {
        let name = text(binding, "/roleRef/name");
        if text(binding, "/roleRef/kind") == "ClusterRole" {
            let mut names = BTreeSet::from([name.to_owned()]);
            // Every round adds what the roles so far take, until a round adds none.
            loop {
                let before = names.len();
                for taker in &self.cluster_roles {
                    if names.contains(text(taker, "/metadata/name")) {
                        names.extend(self.cluster_roles.iter().filter(|r| takes(taker, r)).map(named));
                    }
                }
                if names.len() == before {
                    break;
                }
            }
            let roles = self.cluster_roles.iter().filter(|role| names.contains(text(role, "/metadata/name")));
            return roles.flat_map(|role| list(role, "/rules").to_vec()).collect();
        }
        let role = self.roles.iter().find(|role| {
            text(role, "/metadata/name") == name && text(role, "/metadata/namespace") == namespace
        });
        role.map(|role| list(role, "/rules").to_vec()).unwrap_or_default()
    }

    fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        self.cluster_roles.iter().for_each(|role| policy.set_cluster_role(role.to_type().unwrap()));
        self.roles.iter().for_each(|role| policy.set_role(role.to_type().unwrap()));
        let bindings = self.cluster_bindings.iter().chain(&self.bindings);
        bindings.for_each(|binding| policy.set_binding(binding.to_type().unwrap()));
        policy
    }
}

fn named(role: &Value) -> String {
    text(role, "/metadata/name").to_owned()
}

fn takes(taker: &Value, role: &Value) -> bool {
    let label = |key: &str| {
        role.pointer("/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str)
    };
    named(taker) != named(role)
        && list(taker, "/aggregationRule/clusterRoleSelectors").iter().any(|selector| {
            let exact = selector
                .get("matchLabels")
                .and_then(Value::as_object)
                .is_none_or(|labels| labels.iter().all(|(key, value)| label(key) == value.as_str()));
            exact
                && list(selector, "/matchExpressions").iter().all(|expression| {
                    let value = label(text(expression, "/key"));
                    let listed = value.is_some_and(|value| has(list(expression, "/values"), value));
                    match text(expression, "/operator") {
                        "In" => listed,
                        "NotIn" => !listed,
                        "Exists" => value.is_some(),
                        _ => value.is_none(),
                    }
                })
        })
}

fn is(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let own = text(subject, "/namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

fn rule_allows(rule: &Value, wanted: &AuthorizerAttributes<'_>) -> bool {
    let one_of = |key: &str, value: &str| has(list(rule, key), "*") || has(list(rule, key), value);
    if wanted.resource.is_empty() && !wanted.path.is_empty() {
        return one_of("/verbs", wanted.verb)
            && list(rule, "/nonResourceURLs").iter().filter_map(Value::as_str).any(|url| {
                url == "*"
                    || url == wanted.path
                    || (url.ends_with('*') && wanted.path.starts_with(url.trim_end_matches('*')))
            });
    }
    let resources = list(rule, "/resources");
    let resource = match wanted.subresource {
        "" => has(resources, wanted.resource),
        sub => has(resources, &format!("{}/{sub}", wanted.resource)) || has(resources, &format!("*/{sub}")),
    };
    one_of("/verbs", wanted.verb)
        && one_of("/apiGroups", wanted.group)
        && (resource || has(resources, "*"))
        && (list(rule, "/resourceNames").is_empty() || has(list(rule, "/resourceNames"), wanted.name))
}

fn some(of: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(of)
}

fn few(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(some(of), 1..3)
}

const NAMES: &[&str] = &["a", "b", "c", "d"];
const NAMESPACES: &[&str] = &["n1", "n2"];
const USERS: &[&str] = &["alice", "bob", "system:serviceaccount:n1:a", "system:serviceaccount:n2:b"];
const GROUPS: &[&str] = &["g1", "g2", "system:authenticated"];
const VERBS: &[&str] = &["get", "list", "*"];
const API: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "secrets", "*", "*/*"];

fn rule() -> impl Strategy<Value = Value> {
    let resources = (few(VERBS), few(API), few(RESOURCES), prop::option::of(few(NAMES)));
    let resources = resources.prop_map(|(verbs, groups, resources, names)| {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
    });
    let paths = (few(VERBS), few(&["/healthz", "/api/*", "/a**", "*", "/x"]));
    prop_oneof![4 => resources, 1 => paths.prop_map(|(verbs, urls)| json!({"verbs": verbs, "nonResourceURLs": urls}))]
}

fn selector() -> impl Strategy<Value = Value> {
    let labels = prop::option::of((some(&["l1", "l2"]), some(&["x", "y"])));
    let operators = some(&["In", "NotIn", "Exists", "DoesNotExist"]);
    let expression = prop::option::of((some(&["l1", "l2"]), operators, some(&["x", "y"])));
    (labels, expression).prop_map(|(labels, expression)| {
        let mut selector = json!({});
        if let Some((key, value)) = labels {
            selector = json!({"matchLabels": {key: value}});
        }
        if let Some((key, operator, value)) = expression {
            let values = if operator.ends_with("In") { json!([value]) } else { Value::Null };
            let map = selector.as_object_mut().unwrap();
            map.insert("matchExpressions", json!([{"key": key, "operator": operator, "values": values}]));
        }
        selector
    })
}

fn role(namespaced: bool) -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map(some(&["l1", "l2"]), some(&["x", "y"]), 0..3);
    let aggregation = prop::option::weighted(0.4, prop::collection::vec(selector(), 1..3));
    let rules = prop::option::of(prop::collection::vec(rule(), 0..3));
    (some(NAMES), some(NAMESPACES), labels, aggregation, rules).prop_map(
        move |(name, namespace, labels, aggregation, rules)| {
            let labels: Value = labels.into_iter().map(|(k, v)| (k, Value::from(v))).collect::<listwatch_wire::json::Map>().into();
            if namespaced {
                return json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules});
            }
            let aggregation = aggregation.map(|selectors| json!({"clusterRoleSelectors": selectors}));
            json!({"metadata": {"name": name, "labels": labels}, "rules": rules, "aggregationRule": aggregation})
        },
    )
}

fn binding(namespaced: bool) -> impl Strategy<Value = Value> {
    let user = some(USERS).prop_map(|name| json!({"kind": "User", "name": name}));
    let group = some(GROUPS).prop_map(|name| json!({"kind": "Group", "name": name}));
    let account = (some(NAMES), some(&["", "n1", "n2"]));
    let account =
        account.prop_map(|(name, ns)| json!({"kind": "ServiceAccount", "name": name, "namespace": ns}));
    let subjects = prop::collection::vec(prop_oneof![user, group, account], 0..4);
    let kind = some(if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] });
    (some(NAMES), some(NAMESPACES), kind, some(NAMES), subjects).prop_map(
        move |(name, namespace, kind, role, subjects)| {
            let namespace = if namespaced { namespace } else { "" };
            json!({
                "metadata": {"name": name, "namespace": namespace}, "subjects": subjects,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            })
        },
    )
}

/// A change of the objects: each step adds or removes one.
#[derive(Clone, Debug)]
enum PolicyStep {
    Put(usize, Value),
    Remove(usize, Value),
}

fn steps() -> impl Strategy<Value = Vec<PolicyStep>> {
    let object = prop_oneof![
        role(false).prop_map(|role| (0, role)),
        role(true).prop_map(|role| (1, role)),
        binding(false).prop_map(|binding| (2, binding)),
        binding(true).prop_map(|binding| (3, binding)),
    ];
    let step = (object, prop::bool::weighted(0.8)).prop_map(|((kind, object), put)| {
        if put { PolicyStep::Put(kind, object) } else { PolicyStep::Remove(kind, object) }
    });
    prop::collection::vec(step, 1..40)
}

fn same(a: &Value, b: &Value) -> bool {
    named(a) == named(b) && text(a, "/metadata/namespace") == text(b, "/metadata/namespace")
}

impl World {
    fn kind(&mut self, kind: usize) -> &mut Vec<Value> {
        match kind {
            0 => &mut self.cluster_roles,
            1 => &mut self.roles,
            2 => &mut self.cluster_bindings,
            _ => &mut self.bindings,
        }
    }

    fn take(&mut self, step: &PolicyStep) {
        let (kind, object, put) = match step {
            PolicyStep::Put(kind, object) => (*kind, object, true),
            PolicyStep::Remove(kind, object) => (*kind, object, false),
        };
        let objects = self.kind(kind);
        objects.retain(|other| !same(other, object));
        if put {
            objects.push(object.clone());
        }
    }
}

fn take(policy: &mut Policy, step: &PolicyStep) {
    match step {
        PolicyStep::Put(0, role) => policy.set_cluster_role(role.to_type().unwrap()),
        PolicyStep::Put(1, role) => policy.set_role(role.to_type().unwrap()),
        PolicyStep::Put(_, binding) => policy.set_binding(binding.to_type().unwrap()),
        PolicyStep::Remove(0, role) => policy.remove_cluster_role(&named(role)),
        PolicyStep::Remove(1, role) => policy.remove_role(text(role, "/metadata/namespace"), &named(role)),
        PolicyStep::Remove(_, binding) => {
            policy.remove_binding(text(binding, "/metadata/namespace"), &named(binding))
        }
    }
}

fn user() -> impl Strategy<Value = User> {
    (some(USERS), prop::collection::vec(some(GROUPS), 0..3)).prop_map(|(name, groups)| User {
        name: name.to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        ..User::default()
    })
}

fn wanted() -> impl Strategy<Value = AuthorizerAttributes<'static>> {
    let resource = (
        some(&["get", "list", "watch"]),
        some(&["", "apps"]),
        some(&["pods", "secrets", "pods/log"]),
        some(&["", "log", "*"]),
        some(&["", "n1", "n2"]),
        some(&["", "a", "b"]),
    );
    let resource =
        resource.prop_map(|(verb, group, resource, subresource, namespace, name)| AuthorizerAttributes {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            ..AuthorizerAttributes::default()
        });
    let path = (some(&["get", "list"]), some(&["/healthz", "/api/v1", "/api", "/a", "/", "/x"]));
    prop_oneof![5 => resource, 1 => path.prop_map(|(verb, path)| AuthorizerAttributes { verb, path, ..AuthorizerAttributes::default() })]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4000 }))]

    /// The policy is changed step by step, as in a running server, and asked after each; the second evaluator sees only what
    /// is there at that moment.
    #[test]
    fn both_evaluators_agree(
        steps in steps(),
        questions in prop::collection::vec((user(), wanted()), 1..8),
    ) {
        let (mut world, mut policy) = (World::default(), Policy::default());
        for step in &steps {
            world.take(step);
            take(&mut policy, step);
            for (user, wanted) in &questions {
                let decided = policy.decide(user, wanted).is_ok();
                prop_assert_eq!(decided, world.allows(user, wanted), "{:?} {:?}", user, wanted);
            }
        }
        // However it came about, the same objects make the same policy.
        let anew = world.policy();
        for (user, wanted) in &questions {
            let rules = |policy: &Policy| {
                let mut rules: Vec<String> =
                    policy.rules(user, wanted.namespace).map(PolicyRule::to_string).collect();
                rules.sort();
                rules.dedup();
                rules
            };
            prop_assert_eq!(rules(&policy), rules(&anew));
        }
    }
}
