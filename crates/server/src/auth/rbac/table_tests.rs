//! Written cases: what kube-apiserver 1.37 answered to SubjectAccessReviews, rule by rule.
//!
//! In `cases.txt` a line with `=` is a role (its kind, the namespace of the binding or `-`, its rules, the subjects), and each
//! line below it a question: allowed (`+`) or not (`-`), user, groups, verb, and either group, resource, namespace and name
//! or a path.

use listwatch_wire::json::{Value, json};

use super::Policy;
use crate::auth::{AuthorizerAttributes, User};

const CASES: &str = include_str!("cases.txt");

/// The policy of one role and one binding.
fn policy(line: &str) -> Policy {
    let (kind, rest) = line.split_once(' ').unwrap();
    let (namespace, rest) = rest.split_once(' ').unwrap();
    let (rules, subjects) = rest.split_once("] [").unwrap();
    let rules = Value::read(format!("{rules}]").as_bytes()).unwrap();
    let subjects = Value::read(format!("[{subjects}").as_bytes()).unwrap();
    let namespace = dash(namespace);
    let mut policy = Policy::default();
    let role = json!({"metadata": {"name": "r", "namespace": namespace}, "rules": rules});
    match kind {
        "ClusterRole" => policy.set_cluster_role(role.to_type().unwrap()),
        _ => policy.set_role(role.to_type().unwrap()),
    }
    let binding = json!({"metadata": {"name": "b", "namespace": namespace}, "subjects": subjects,
        "roleRef": {"kind": kind, "name": "r"}});
    policy.set_binding(binding.to_type().unwrap());
    policy
}

fn dash(text: &str) -> &str {
    if text == "-" { "" } else { text }
}

fn allows(policy: &Policy, question: &[&str]) -> bool {
    let [user, groups, verb, what @ ..] = question else { panic!("{question:?}") };
    let groups = dash(groups).split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
    let user = User { name: (*user).to_owned(), groups, ..User::default() };
    let wanted = match what {
        [path] => AuthorizerAttributes { verb, path, ..AuthorizerAttributes::default() },
        [group, resource, namespace, name] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (group, namespace, name) = (dash(group), dash(namespace), dash(name));
            AuthorizerAttributes {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
                ..AuthorizerAttributes::default()
            }
        }
        _ => panic!("{question:?}"),
    };
    policy.decide(&user, &wanted).is_ok()
}

#[test]
fn every_recorded_answer_is_ours() {
    let (mut current, mut asked) = (Policy::default(), 0);
    for (number, line) in CASES.lines().enumerate() {
        match line.split_once(' ') {
            Some(("=", role)) => current = policy(role),
            Some((sign, question)) => {
                let question: Vec<&str> = question.split(' ').collect();
                assert_eq!(allows(&current, &question), sign == "+", "line {}: {line}", number + 1);
                asked += 1;
            }
            None => {}
        }
    }
    assert!(asked >= 300, "{asked} cases");
}
