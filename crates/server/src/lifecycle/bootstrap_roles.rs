//! The roles every cluster has, as data.
//!
//! `cluster-admin`, `admin`, `edit` and `view` are for people, the `system:` ones for what anybody may know. Roles of components
//! this server does not have are left to whoever brings the components.

use listwatch_wire::json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// A group and some of its resources.
type Part = (&'static str, &'static [&'static str]);

const VIEWED: &[Part] = &[
    (
        "",
        &[
            "bindings",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
];

const EDITED: &[Part] = &[
    (
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    (
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("coordination.k8s.io", &["leases"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
];

fn rules(parts: &[Part], verbs: &[&str]) -> Vec<Value> {
    parts
        .iter()
        .map(|(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}))
        .collect()
}

fn role(name: &str, rules: Vec<Value>) -> Value {
    json!({"metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}, "rules": rules})
}

fn edit() -> Vec<Value> {
    let mut all = rules(VIEWED, READ);
    all.extend(rules(EDITED, WRITE));
    all.extend([
        json!({"apiGroups": [""], "resources": ["secrets", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"], "verbs": READ}),
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": READ}),
        json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}),
        json!({"apiGroups": [""], "resources": ["pods/eviction", "serviceaccounts/token"], "verbs": ["create"]}),
    ]);
    all
}

fn admin() -> Vec<Value> {
    let mut all = edit();
    all.extend([
        json!({"apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"], "verbs": ["create"]}),
        json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings", "roles"], "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]}),
    ]);
    all
}

/// The cluster roles.
pub(super) fn roles() -> Vec<Value> {
    let paths = |urls: &[&str]| vec![json!({"nonResourceURLs": urls, "verbs": ["get"]})];
    vec![
        role(
            "cluster-admin",
            vec![
                json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
                json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
            ],
        ),
        role("admin", admin()),
        role("edit", edit()),
        role("view", rules(VIEWED, READ)),
        role(
            "system:discovery",
            paths(&[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ]),
        ),
        role("system:public-info-viewer", paths(&["/healthz", "/livez", "/readyz", "/version", "/version/"])),
        role(
            "system:basic-user",
            vec![
                json!({"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]}),
                json!({"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}),
            ],
        ),
    ]
}

/// Who has the cluster roles.
pub(super) fn bindings() -> Vec<Value> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let binding = |role: &str, groups: &[&str]| {
        let subjects: Vec<_> =
            groups.iter().map(|group| json!({"kind": "Group", "apiGroup": RBAC, "name": group})).collect();
        json!({
            "metadata": {"name": role, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": subjects
        })
    };
    vec![
        binding("cluster-admin", &["system:masters"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        binding("system:basic-user", &["system:authenticated"]),
    ]
}

#[cfg(test)]
mod tests {
    use listwatch_kinds::{by_kind, validate};

    use super::*;

    #[test]
    fn all_are_valid() {
        for (kind, objects) in [("ClusterRole", roles()), ("ClusterRoleBinding", bindings())] {
            let kind = by_kind("rbac.authorization.k8s.io", "v1", kind).unwrap();
            for object in objects {
                assert_eq!(validate::create(kind, &object), [], "{object}");
            }
        }
    }
}
