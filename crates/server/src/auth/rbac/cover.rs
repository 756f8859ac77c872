//! Rule covering: finds what is missing when permissions are granted, for privilege-escalation checks. Pure.
//!
//! A rule is covered if one held rule covers it whole, or if each of its smallest parts (one verb, group, resource
//! and name) is covered by some held rule. The parts are a product of lists, so their number is bounded: a Role of 3
//! MiB could have billions. The output format of [`describe`] is kube-apiserver's 403. The caller is
//! [`crate::auth::grant`].

use std::collections::{BTreeMap, BTreeSet};

use crate::auth::rbac::rule::{PolicyRule, path_matches};

/// Combinations of verb, group, resource and name that are compared one by one. Roles of real clusters stay below a
/// thousand; a body of 3 MiB could have billions. Beyond it the grant is refused.
const MAX_ATOMS: usize = 1 << 16;

/// Returns the part of `wanted` that no rule of `held` covers: empty if everything may be granted. `None` if `wanted`
/// has more combinations than [`MAX_ATOMS`].
///
/// ```
/// use listwatch_server::auth::rbac::{PolicyRule, uncovered};
///
/// let held = [PolicyRule::resources("", &["pods"], &["get", "list"])];
/// let wanted = [PolicyRule::resources("", &["pods"], &["get", "delete"])];
/// let missing = uncovered(&held, &wanted).unwrap();
/// assert_eq!(missing, [PolicyRule::resources("", &["pods"], &["delete"])]);
/// ```
#[doc(alias = "Covers")]
#[must_use]
pub fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Option<Vec<PolicyRule>> {
    let mut missing = Vec::new();
    let mut left = MAX_ATOMS;
    // Most granted rules are covered by a single rule that the user holds, without being taken apart.
    for rule in wanted.iter().filter(|rule| !held.iter().any(|have| covers(have, rule))) {
        left = left.checked_sub(count(rule))?;
        missing.extend(breakdown(rule).filter(|atom| !held.iter().any(|have| covers(have, atom))));
    }
    Some(missing)
}

/// Rules as a refusal lists them: verbs of the same resource and name together, sorted by their text.
#[must_use]
pub fn describe(missing: &[PolicyRule]) -> String {
    let mut simple: BTreeMap<[&[String]; 3], PolicyRule> = BTreeMap::new();
    let mut texts = BTreeSet::new();
    for rule in missing {
        if !rule.non_resource_urls.is_empty() {
            texts.insert(rule.to_string());
            continue;
        }
        simple
            .entry([&rule.api_groups, &rule.resources, &rule.resource_names])
            .and_modify(|known| known.verbs.extend(rule.verbs.iter().cloned()))
            .or_insert_with(|| rule.clone());
    }
    texts.extend(simple.values().map(ToString::to_string));
    texts.into_iter().collect::<Vec<_>>().join("\n")
}

/// Returns true if one rule allows everything that the other does.
///
/// A rule without names covers one with names, never the reverse.
fn covers(have: &PolicyRule, want: &PolicyRule) -> bool {
    let names = have.resource_names.is_empty()
        || (!want.resource_names.is_empty() && has_all(&have.resource_names, &want.resource_names));
    has_all_or_star(&have.verbs, &want.verbs)
        && has_all_or_star(&have.api_groups, &want.api_groups)
        && want.resources.iter().all(|resource| covers_resource(&have.resources, resource))
        && want
            .non_resource_urls
            .iter()
            .all(|path| have.non_resource_urls.iter().any(|rule| path_matches(rule, path)))
        && names
}

fn has_all(have: &[String], want: &[String]) -> bool {
    want.iter().all(|value| have.contains(value))
}

/// A star covers everything, and only a star covers a star.
fn has_all_or_star(have: &[String], want: &[String]) -> bool {
    have.iter().any(|value| value == "*") || has_all(have, want)
}

/// `*/scale` covers the subresource of every resource.
fn covers_resource(have: &[String], want: &str) -> bool {
    let of_any = want.split_once('/').map(|(_, subresource)| subresource);
    have.iter()
        .any(|rule| rule == "*" || rule == want || (of_any.is_some() && rule.strip_prefix("*/") == of_any))
}

/// The number of single rules of a rule.
fn count(rule: &PolicyRule) -> usize {
    let resources = [rule.api_groups.len(), rule.resources.len(), rule.resource_names.len().max(1)];
    let resources = resources.iter().fold(1_usize, |product, n| product.saturating_mul(*n));
    rule.verbs.len().saturating_mul(resources.saturating_add(rule.non_resource_urls.len()))
}

/// The smallest rules this one is made of: one verb on one resource (and name), or on one path.
fn breakdown(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> + '_ {
    let paths = rule
        .non_resource_urls
        .iter()
        .flat_map(move |url| rule.verbs.iter().map(move |verb| PolicyRule::paths(&[url], &[verb])));
    resource_breakdown(rule).chain(paths)
}

/// One rule per group, resource, verb and name: each must be covered by some rule, not all by one.
fn resource_breakdown(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> + '_ {
    let pairs = rule.api_groups.iter().flat_map(move |group| rule.resources.iter().map(move |r| (group, r)));
    pairs.flat_map(move |(group, resource)| {
        rule.verbs.iter().flat_map(move |verb| {
            let whole = PolicyRule::resources(group, &[resource], &[verb]);
            let all = rule.resource_names.is_empty().then(|| whole.clone());
            let named = rule
                .resource_names
                .iter()
                .map(move |name| PolicyRule { resource_names: vec![name.clone()], ..whole.clone() });
            all.into_iter().chain(named)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
        uncovered(held, wanted).unwrap()
    }

    #[test]
    fn missing_permissions_are_named_one_by_one() {
        let held = [PolicyRule::resources("", &["pods"], &["get", "list"])];
        let wanted = [PolicyRule::resources("", &["pods", "secrets"], &["get"])];
        let shown = describe(&missing(&held, &wanted));
        assert_eq!(shown, r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#);
    }

    #[test]
    fn a_rule_for_all_names_covers_one_name_but_not_the_reverse() {
        let all = PolicyRule::resources("", &["pods"], &["get"]);
        let one = PolicyRule { resource_names: vec!["a".into()], ..all.clone() };
        assert!(missing(std::slice::from_ref(&all), std::slice::from_ref(&one)).is_empty());
        assert_eq!(missing(&[one], std::slice::from_ref(&all)), [all]);
    }

    #[test]
    fn verbs_of_one_resource_are_named_together_and_sorted() {
        let wanted = [
            PolicyRule::resources("apps", &["deployments"], &["get", "list"]),
            PolicyRule { resource_names: vec!["a".into()], ..PolicyRule::resources("", &["pods"], &["get"]) },
            PolicyRule::paths(&["/metrics"], &["get"]),
        ];
        assert_eq!(
            describe(&missing(&[], &wanted)),
            "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"deployments\"], Verbs:[\"get\" \"list\"]}\n\
             {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}"
        );
    }

    #[test]
    fn subresources_of_all_resources_cover_those_of_one() {
        let held = [PolicyRule::resources("*", &["*/scale"], &["*"])];
        assert!(
            missing(&held, &[PolicyRule::resources("apps", &["deployments/scale"], &["get"])]).is_empty()
        );
        assert!(!missing(&held, &[PolicyRule::resources("apps", &["deployments"], &["get"])]).is_empty());
    }

    /// A rule of a thousand groups, resources and verbs each has a billion single rules: it is refused, not counted through.
    #[test]
    fn a_rule_with_too_many_combinations_is_not_looked_at() {
        let many: Vec<String> = (0..1000).map(|i| format!("x{i}")).collect();
        let huge = PolicyRule {
            verbs: many.clone(),
            api_groups: many.clone(),
            resources: many,
            ..PolicyRule::default()
        };
        assert_eq!(uncovered(&[], std::slice::from_ref(&huge)), None);
        assert_eq!(uncovered(&[PolicyRule::resources("*", &["*"], &["*"])], &[huge]), Some(Vec::new()));
    }
}
