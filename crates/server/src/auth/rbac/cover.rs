//! Rule covering: finds what is missing when permissions are granted, for privilege-escalation checks. Pure.
//!
//! A rule is covered if one held rule covers it whole, or if each of its smallest parts (one verb, group, resource
//! and name) is covered by some held rule. The parts are a product of lists, so their number is bounded: a Role of 3
//! MiB could have billions. The output format of [`describe`] is kube-apiserver's 403. The caller is
//! [`crate::auth::grant`].

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::auth::rbac::rule::{PolicyRule, path_matches};

/// Combinations of verb, group, resource and name that are compared one by one. Roles of real clusters stay below a
/// thousand; a body of 3 MiB could have billions. Beyond it the grant is refused.
const MAX_ATOMS: usize = 1 << 16;

/// Comparisons of a wanted rule or combination with a held rule: a second of a processor. Beyond it the grant is refused.
const MAX_COMPARISONS: usize = 1 << 24;

/// Returns the part of `wanted` that no rule of `held` covers: empty if everything may be granted. `None` if `wanted`
/// has more combinations than [`MAX_ATOMS`], or takes more than [`MAX_COMPARISONS`].
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
    let mut held = HeldRules { rules: held.iter().map(HeldRule::new).collect(), left: MAX_COMPARISONS };
    let mut missing = Vec::new();
    let mut left = MAX_ATOMS;
    for rule in wanted {
        // Most granted rules are covered by a single rule that the user holds, without being taken apart.
        if held.cover(rule)? {
            continue;
        }
        left = left.checked_sub(count(rule))?;
        for atom in breakdown(rule) {
            if !held.cover(&atom)? {
                missing.push(atom);
            }
        }
    }
    Some(missing)
}

/// The rules that a user holds, and the comparisons with them that are left.
struct HeldRules<'a> {
    rules: Vec<HeldRule<'a>>,
    left: usize,
}

impl HeldRules<'_> {
    /// Returns true if one rule covers another whole; `None` if no comparisons are left.
    fn cover(&mut self, want: &PolicyRule) -> Option<bool> {
        for have in &self.rules {
            self.left = self.left.checked_sub(1)?;
            if have.covers(want) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// A rule whose lists are sets: they may have a hundred thousand values, and so may those of a rule that is granted.
struct HeldRule<'a> {
    verbs: HashSet<&'a str>,
    api_groups: HashSet<&'a str>,
    resources: HashSet<&'a str>,
    resource_names: HashSet<&'a str>,
    non_resource_urls: &'a [String],
}

impl<'a> HeldRule<'a> {
    fn new(rule: &'a PolicyRule) -> Self {
        let set = |list: &'a [String]| list.iter().map(String::as_str).collect();
        Self {
            verbs: set(&rule.verbs),
            api_groups: set(&rule.api_groups),
            resources: set(&rule.resources),
            resource_names: set(&rule.resource_names),
            non_resource_urls: &rule.non_resource_urls,
        }
    }

    /// Returns true if the rule allows everything that another does.
    fn covers(&self, want: &PolicyRule) -> bool {
        has_all_or_star(&self.verbs, &want.verbs)
            && has_all_or_star(&self.api_groups, &want.api_groups)
            && want.resources.iter().all(|resource| self.covers_resource(resource))
            && want
                .non_resource_urls
                .iter()
                .all(|path| self.non_resource_urls.iter().any(|rule| path_matches(rule, path)))
            && self.covers_names(&want.resource_names)
    }

    /// A rule without names covers one with names, never the reverse.
    fn covers_names(&self, want: &[String]) -> bool {
        self.resource_names.is_empty() || (!want.is_empty() && has_all(&self.resource_names, want))
    }

    /// `*/scale` covers the subresource of every resource.
    fn covers_resource(&self, want: &str) -> bool {
        let of_any = || want.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        self.resources.contains("*")
            || self.resources.contains(want)
            || of_any().is_some_and(|of_any| self.resources.contains(&*of_any))
    }
}

fn has_all(have: &HashSet<&str>, want: &[String]) -> bool {
    want.iter().all(|value| have.contains(value.as_str()))
}

/// A star covers everything, and only a star covers a star.
fn has_all_or_star(have: &HashSet<&str>, want: &[String]) -> bool {
    have.contains("*") || has_all(have, want)
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

    /// 60,000 names on both sides took 5 s, and one more that is not held 10 s.
    #[test]
    fn long_lists_are_compared_in_linear_time() {
        let names: Vec<String> = (0..MAX_ATOMS - 1).map(|n| format!("name-{n}")).collect();
        let of = |names: Vec<String>| PolicyRule {
            resource_names: names,
            ..PolicyRule::resources("", &["pods"], &["get"])
        };
        let held = [of(names.clone())];
        let begin = std::time::Instant::now();
        assert!(missing(&held, &[of(names.iter().rev().cloned().collect())]).is_empty());
        let one_more = of(names.into_iter().rev().chain(["other".to_owned()]).collect());
        assert_eq!(missing(&held, &[one_more]), [of(vec!["other".to_owned()])]);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    #[test]
    fn comparisons_of_many_rules_with_many_are_bounded() {
        let rules = |verb: &str| vec![PolicyRule::resources("", &["pods"], &[verb]); 5000];
        assert_eq!(uncovered(&rules("get"), &rules("list")), None);
        assert_eq!(uncovered(&rules("get"), &rules("get")), Some(Vec::new()));
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
