//! [`Matcher`]: decides which requests a webhook or an admission policy is called for.
//!
//! Rules (operation, group, version, resource, scope), `namespaceSelector`, `objectSelector` and, for policies,
//! exclusions and names. With `matchPolicy: Equivalent` a rule for another version of the same resource matches too,
//! and the request is shown converted ([`MatchForm`]): otherwise a client could avoid a webhook by writing through
//! another version. [`is_exempt`] keeps webhooks away from their own configuration, so that a broken one can be
//! deleted.
//!
//! The callers are [`super::webhook`] and [`super::policy`].

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_kinds::validate::selector_matches;
use listwatch_wire::json::Value;

use super::{Attributes, Operation};
use crate::registry::Resource;

/// The requests that a webhook or a policy is about.
#[doc(alias = "rules.Matcher")]
#[doc(alias = "matchConditions")]
#[derive(Debug)]
pub(super) struct Matcher {
    rules: Vec<MatchRule>,
    /// Rules of exclusions, which only policies have.
    excluded: Vec<MatchRule>,
    /// Other versions of a resource count, too.
    equivalent: bool,
    /// The selector of namespaces; empty for all.
    ///
    /// Kept as JSON and read at each match; most are empty, which is tested first.
    namespaces: Value,
    /// The selector of objects, old or new.
    objects: Value,
}

/// The version of the object that a webhook or policy is shown.
#[derive(Clone, Debug)]
pub(super) enum MatchForm {
    /// In the version of the request.
    Sent,
    /// In another version of its resource.
    Converted(Arc<Resource>),
}

impl MatchForm {
    /// The resource in the version that is shown.
    pub(super) fn resource<'a>(&'a self, request: &Attributes<'a>) -> &'a Resource {
        match self {
            Self::Sent => request.resource,
            Self::Converted(resource) => resource,
        }
    }
}

impl Matcher {
    /// Reads the rules and selectors of a webhook. Webhooks have no exclusions.
    pub(super) fn of_webhook(hook: &Value) -> Self {
        Self {
            rules: hook.list("rules").iter().map(MatchRule::read).collect(),
            excluded: Vec::new(),
            equivalent: hook.text("matchPolicy") != "Exact",
            namespaces: hook.at("namespaceSelector").clone(),
            objects: hook.at("objectSelector").clone(),
        }
    }

    /// The matcher of a policy's `matchConstraints`, or of a binding's `matchResources`.
    pub(super) fn of_policy(resources: &Value) -> Self {
        Self {
            rules: resources.list("resourceRules").iter().map(MatchRule::read).collect(),
            excluded: resources.list("excludeResourceRules").iter().map(MatchRule::read).collect(),
            equivalent: resources.text("matchPolicy") != "Exact",
            namespaces: resources.at("namespaceSelector").clone(),
            objects: resources.at("objectSelector").clone(),
        }
    }

    /// Returns true if it has no rules: then a binding matches what its policy matches.
    pub(super) fn has_no_rules(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the form in which the request matches, if it does. `object` is null for a deletion.
    ///
    /// Rules come before selectors: they compare a few texts, while the selector of namespaces may need the Namespace
    /// from the cache.
    pub(super) fn matches(&self, request: &Attributes<'_>, object: &Value) -> Option<MatchForm> {
        let form = self.rule(&self.rules, request)?;
        (self.selects(request, object) && self.rule(&self.excluded, request).is_none()).then_some(form)
    }

    /// Returns true if the selectors match.
    pub(super) fn selects(&self, request: &Attributes<'_>, object: &Value) -> bool {
        self.selects_object(request, object) && self.selects_namespace(request, object)
    }

    /// Returns true if an exclusion matches.
    pub(super) fn excludes(&self, request: &Attributes<'_>) -> bool {
        self.rule(&self.excluded, request).is_some()
    }

    /// The version of the request is preferred. Other versions are looked up only for `Equivalent`, and only if no
    /// rule matched directly; the first rule that names one of them decides which.
    fn rule(&self, rules: &[MatchRule], request: &Attributes<'_>) -> Option<MatchForm> {
        if rules.iter().any(|rule| rule.matches(request, request.resource)) {
            return Some(MatchForm::Sent);
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = equivalents(request);
        let first = rules.iter().find_map(|rule| others.iter().find(|other| rule.matches(request, other)));
        first.map(|other| MatchForm::Converted(Arc::clone(other)))
    }

    /// Matches the new or the old object, so that removing a label is not a way around a webhook.
    fn selects_object(&self, request: &Attributes<'_>, object: &Value) -> bool {
        // The object of a CONNECT request is its options, which have no labels and match no selector.
        let fits = |object: &Value| {
            !object.is_null()
                && request.operation != Operation::Connect
                && selector_matches(&self.objects, object.at("metadata").at("labels"))
        };
        is_empty(&self.objects) || fits(object) || request.old.is_some_and(fits)
    }

    /// Matches the labels of the namespace of the request. Cluster-scoped objects always match; a Namespace is
    /// matched by its own labels, the new ones on create and update.
    fn selects_namespace(&self, request: &Attributes<'_>, object: &Value) -> bool {
        if is_empty(&self.namespaces) || request.namespace.is_empty() {
            return true;
        }
        let fits =
            |namespace: &Value| selector_matches(&self.namespaces, namespace.at("metadata").at("labels"));
        match (request.is("", "namespaces"), request.operation) {
            (true, Operation::Create | Operation::Update) if request.subresource.is_empty() => fits(object),
            (true, _) => request.old.is_some_and(fits),
            (false, _) => request.namespace_object().is_some_and(|namespace| fits(&namespace)),
        }
    }
}

/// Absent and `{}` both select everything.
fn is_empty(selector: &Value) -> bool {
    selector.count("matchLabels") == 0 && selector.count("matchExpressions") == 0
}

/// The other versions of the resource of a request.
/// Resources that share a collection are versions, or group aliases, of one another. Visits all served resources; the
/// caller avoids it where it can.
fn equivalents(request: &Attributes<'_>) -> Vec<Arc<Resource>> {
    let own = request.resource;
    let served = request.api.registry.served();
    let same = |other: &&Arc<Resource>| {
        Arc::ptr_eq(&other.collection, &own.collection)
            && (&other.group, &other.version) != (&own.group, &own.version)
    };
    served.resources().iter().filter(same).cloned().collect()
}

/// One rule: operations, and resources by group, version and name. `*` matches everything in every list but `names`. An
/// empty list matches nothing, except for `names`.
#[derive(Debug)]
struct MatchRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource; `*` for any.
    resources: Vec<(String, String)>,
    names: Vec<String>,
    scope: String,
}

impl MatchRule {
    /// A rule of a webhook or policy. Absent lists match nothing; validation requires them.
    fn read(rule: &Value) -> Self {
        let texts = |key: &str| -> Vec<String> {
            rule.list(key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let split = |text: String| match text.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (text, String::new()),
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources").into_iter().map(split).collect(),
            names: texts("resourceNames"),
            scope: rule.text("scope").to_owned(),
        }
    }

    /// True if the request meets every condition of the rule; an empty list of names sets none.
    fn matches(&self, request: &Attributes<'_>, resource: &Resource) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        any(&self.operations, request.operation.name())
            && any(&self.groups, &resource.group)
            && any(&self.versions, &resource.version)
            && self.has_resource(&resource.plural, request.subresource)
            && self.has_scope(request)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }

    /// `pods` means the resource without subresources, `pods/*` all of its subresources and the resource itself,
    /// `*/*` everything.
    fn has_resource(&self, plural: &str, subresource: &str) -> bool {
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        self.resources.iter().any(|(own, sub)| fits(own, plural) && fits(sub, subresource))
    }

    /// A namespace itself is cluster-scoped.
    fn has_scope(&self, request: &Attributes<'_>) -> bool {
        let namespaced = !request.is("", "namespaces") && !request.namespace.is_empty();
        match self.scope.as_str() {
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => true,
        }
    }
}

/// Resources that no policy is evaluated for: policies, bindings and reviews. Configurations of webhooks have policies.
pub(super) fn is_exempt_from_policies(resource: &Resource) -> bool {
    is_exempt(resource) && !resource.plural.ends_with("webhookconfigurations")
}

/// Resources that no webhook is called for: the configuration of admission, so that a broken one can always be
/// deleted, and access and token reviews.
///
/// A webhook that rejects everything therefore cannot lock out the requests that repair it. kube-apiserver exempts
/// reviews from policies only, and calls webhooks for them.
pub(super) fn is_exempt(resource: &Resource) -> bool {
    let plural = &*resource.plural;
    match &*resource.group {
        "admissionregistration.k8s.io" => true,
        "authentication.k8s.io" => matches!(plural, "tokenreviews" | "selfsubjectreviews"),
        "authorization.k8s.io" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_rule_names_resources_and_subresources_apart() {
        let rule = |resources: Value| MatchRule::read(&json!({"resources": resources}));
        for (resources, plural, subresource, fits) in [
            (json!(["pods"]), "pods", "", true),
            (json!(["pods"]), "pods", "status", false),
            (json!(["pods/*"]), "pods", "status", true),
            (json!(["pods/*"]), "pods", "", true),
            (json!(["*"]), "pods", "status", false),
            (json!(["*/*"]), "pods", "status", true),
            (json!(["*/scale"]), "deployments", "scale", true),
        ] {
            assert_eq!(
                rule(resources.clone()).has_resource(plural, subresource),
                fits,
                "{resources} {subresource}"
            );
        }
    }
}
