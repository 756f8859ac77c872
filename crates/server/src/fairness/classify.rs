//! Classification: which FlowSchema matches a request, and the flow distinguisher within it. Pure.
//!
//! The matching rules are those of the `flowcontrol` API, with `ServiceAccount` subjects matched by user name and
//! non-resource URLs by prefix. The first match by precedence wins; the order is made in [`super::gate`]. The flow is
//! a hash of schema and distinguisher: a collision lets two flows share a queue and costs fairness between these two,
//! nothing else. It seeds the shuffle sharding in `shuffle`.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::config::{FlowSchema, FlowSubject, Named, PathRule, PolicyRulesWithSubjects, ResourceRule};
use crate::auth::{AuthorizerAttributes, User};

impl FlowSchema {
    /// Returns true if the schema matches a request.
    pub(super) fn takes(&self, user: &User, request: &AuthorizerAttributes<'_>) -> bool {
        self.spec.rules.iter().any(|rule| rule.takes(user, request))
    }

    /// A hash of the flow within the schema that a request belongs to.
    pub(super) fn flow(&self, user: &User, request: &AuthorizerAttributes<'_>) -> u64 {
        let kind = self.spec.distinguisher_method.as_ref().map(|method| method.kind.as_str());
        let distinguisher = match kind {
            Some("ByUser") => user.name.as_str(),
            Some("ByNamespace") => request.namespace,
            _ => "",
        };
        let mut hasher = DefaultHasher::new();
        (&self.metadata.name, distinguisher).hash(&mut hasher);
        hasher.finish()
    }
}

impl PolicyRulesWithSubjects {
    /// True if a request of this user is among those of the rule.
    fn takes(&self, user: &User, request: &AuthorizerAttributes<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.is(user))
            && match request.resource.is_empty() {
                true => self.non_resource_rules.iter().any(|rule| rule.takes(request)),
                false => self.resource_rules.iter().any(|rule| rule.takes(request)),
            }
    }
}

impl FlowSubject {
    /// True if the subject names the user, one of its groups, or its service account.
    fn is(&self, user: &User) -> bool {
        let named = |named: &Option<Named>, test: &dyn Fn(&Named) -> bool| named.as_ref().is_some_and(test);
        match self.kind.as_str() {
            "User" => named(&self.user, &|wanted| wanted.name == "*" || wanted.name == user.name),
            "Group" => named(&self.group, &|wanted| wanted.name == "*" || user.is_in(&wanted.name)),
            "ServiceAccount" => named(&self.service_account, &|wanted| {
                let account =
                    user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                account.is_some_and(|(namespace, name)| {
                    namespace == wanted.namespace && (wanted.name == "*" || wanted.name == name)
                })
            }),
            _ => false,
        }
    }
}

impl ResourceRule {
    /// True if the rule is about the resource, the verb and the namespace of a request.
    fn takes(&self, request: &AuthorizerAttributes<'_>) -> bool {
        lists(&self.verbs, request.verb)
            && (is_any(&self.resources) || self.resources.iter().any(|wanted| names(wanted, request)))
            && lists(&self.api_groups, request.group)
            && if request.namespace.is_empty() {
                self.cluster_scope
            } else {
                lists(&self.namespaces, request.namespace)
            }
    }
}

/// Returns true if `pods` or `pods/status` names the requested resource.
fn names(wanted: &str, request: &AuthorizerAttributes<'_>) -> bool {
    match wanted.split_once('/') {
        None => request.subresource.is_empty() && wanted == request.resource,
        Some((resource, subresource)) => resource == request.resource && subresource == request.subresource,
    }
}

impl PathRule {
    fn takes(&self, request: &AuthorizerAttributes<'_>) -> bool {
        lists(&self.verbs, request.verb) && self.urls.iter().any(|url| covers(url, request.path))
    }
}

/// A path covers itself and what is below it.
fn covers(url: &str, path: &str) -> bool {
    if url == "*" || url == path {
        return true;
    }
    let prefix = url.strip_suffix('*').unwrap_or(url);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

fn is_any(list: &[String]) -> bool {
    matches!(list, [only] if only == "*")
}

fn lists(list: &[String], wanted: &str) -> bool {
    is_any(list) || list.iter().any(|one| one == wanted)
}

#[cfg(test)]
mod tests {
    use super::super::bootstrap;
    use super::*;

    fn schemas() -> Vec<FlowSchema> {
        let mut all: Vec<FlowSchema> =
            bootstrap::flow_schemas().iter().map(|object| object.to_type().unwrap()).collect();
        all.sort_by_key(|schema| schema.spec.matching_precedence);
        all
    }

    fn schema_of(user: (&str, &[&str]), request: AuthorizerAttributes<'_>) -> String {
        let groups = user.1.iter().map(|&group| group.to_owned()).collect();
        let user = User { name: user.0.to_owned(), groups, ..User::default() };
        let found = schemas().into_iter().find(|schema| schema.takes(&user, &request));
        found.map(|schema| schema.metadata.name).unwrap_or_default()
    }

    #[test]
    fn requests_are_classified_as_in_kube_apiserver() {
        let get = |resource| AuthorizerAttributes {
            verb: "get",
            resource,
            namespace: "n",
            ..AuthorizerAttributes::default()
        };
        let lease = AuthorizerAttributes { group: "coordination.k8s.io", ..get("leases") };
        let path = |path| AuthorizerAttributes { verb: "get", path, ..AuthorizerAttributes::default() };
        const AUTHENTICATED: &str = "system:authenticated";
        let account = ("system:serviceaccount:n:a", &["system:serviceaccounts", AUTHENTICATED][..]);
        let system = ("system:serviceaccount:kube-system:a", &["system:serviceaccounts", AUTHENTICATED][..]);
        let node = ("system:node:a", &["system:nodes", AUTHENTICATED][..]);
        for (user, request, expected) in [
            (("root", &["system:masters", AUTHENTICATED][..]), get("pods"), "exempt"),
            (("alice", &[AUTHENTICATED][..]), get("pods"), "global-default"),
            (("alice", &[AUTHENTICATED][..]), path("/livez/ping"), "probes"),
            (("alice", &[AUTHENTICATED][..]), path("/livezz"), "global-default"),
            (("system:anonymous", &["system:unauthenticated"][..]), path("/readyz"), "probes"),
            (account, get("pods"), "service-accounts"),
            (system, get("pods"), "kube-system-service-accounts"),
            (system, lease, "system-leader-election"),
            (node, AuthorizerAttributes { namespace: "", ..get("nodes") }, "system-node-high"),
            (
                node,
                AuthorizerAttributes { namespace: "", subresource: "status", ..get("nodes") },
                "system-node-high",
            ),
            (node, get("pods"), "system-nodes"),
            (("system:kube-scheduler", &[AUTHENTICATED][..]), get("pods"), "kube-scheduler"),
            (("nobody", &[][..]), get("pods"), ""),
        ] {
            assert_eq!(schema_of(user, request), expected, "{} {:?}", user.0, request);
        }
    }

    #[test]
    fn flows_are_distinguished_by_the_method_of_the_schema() {
        let all = schemas();
        let named = |name: &str| all.iter().find(|schema| schema.metadata.name == name).unwrap();
        let user = |name: &str| User { name: name.to_owned(), ..User::default() };
        let request = |namespace| AuthorizerAttributes { namespace, ..AuthorizerAttributes::default() };
        let by_user = named("global-default");
        assert_ne!(by_user.flow(&user("a"), &request("n")), by_user.flow(&user("b"), &request("n")));
        assert_eq!(by_user.flow(&user("a"), &request("n")), by_user.flow(&user("a"), &request("m")));
        let by_namespace = named("kube-scheduler");
        assert_eq!(
            by_namespace.flow(&user("a"), &request("n")),
            by_namespace.flow(&user("b"), &request("n"))
        );
        assert_ne!(
            by_namespace.flow(&user("a"), &request("n")),
            by_namespace.flow(&user("a"), &request("m"))
        );
    }
}
