//! [`PodSecurityOptions`]: the standards of namespaces without labels, and exemptions, from a PodSecurityConfiguration.
//!
//! Labels of a namespace have priority over these defaults (`mod.rs`).

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::names::{label_errors, subdomain_errors};
use listwatch_wire::status::FieldError;

use super::policy::{NamespacePolicy, Standard, level, version};
use crate::admission::configuration::{all_of, check_fields, check_kind};

/// The configuration of the plugin PodSecurity. By default no standard is applied to namespaces without labels, and nothing is
/// exempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecurityOptions {
    pub(super) defaults: NamespacePolicy,
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

/// The versions of the configuration.
const VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

impl PodSecurityOptions {
    /// Reads a PodSecurityConfiguration.
    ///
    /// # Errors
    /// All problems with it, in kube-apiserver's words.
    pub(in crate::admission) fn read(tree: &Value) -> Result<Self, String> {
        check_kind(tree, &VERSIONS, "PodSecurityConfiguration")?;
        check_fields(tree, "", &["apiVersion", "kind", "defaults", "exemptions"])?;
        let (defaults, exemptions) = (tree.at("defaults"), tree.at("exemptions"));
        let modes = ["enforce", "enforce-version", "warn", "warn-version", "audit", "audit-version"];
        check_fields(defaults, "defaults.", &modes)?;
        check_fields(exemptions, "exemptions.", &["usernames", "namespaces", "runtimeClasses"])?;
        let mut errors = Vec::new();
        let mut policy = NamespacePolicy::default();
        let standards =
            [("enforce", &mut policy.enforce), ("warn", &mut policy.warn), ("audit", &mut policy.audit)];
        for (mode, standard) in standards {
            default_standard(defaults, mode, standard, &mut errors);
        }
        let mut names =
            |list: &str, check: &dyn Fn(&str) -> Vec<String>| exempted(exemptions, list, check, &mut errors);
        let options = Self {
            defaults: policy,
            namespaces: names("namespaces", &label_errors),
            runtime_classes: names("runtimeClasses", &subdomain_errors),
            usernames: names("usernames", &|name| match name {
                "" => vec!["username must not be empty".to_owned()],
                _ => Vec::new(),
            }),
        };
        all_of(&errors).map(|()| options)
    }

    /// The reason why an object of this user in this namespace is exempt.
    pub(super) fn exemption(&self, namespace: &str, user: &str) -> Option<&'static str> {
        let has = |list: &[String], name: &str| list.iter().any(|exempt| exempt == name);
        match () {
            () if has(&self.namespaces, namespace) => Some("namespace"),
            () if has(&self.usernames, user) => Some("user"),
            () => None,
        }
    }

    /// Returns true if a Pod with this specification is exempt.
    pub(super) fn exempts_pod(&self, spec: &Value) -> bool {
        let class = spec.text("runtimeClassName");
        !class.is_empty() && self.runtime_classes.iter().any(|exempt| exempt == class)
    }

    /// The warning about labels of an exempt namespace.
    pub(super) fn ignored(
        &self,
        namespace: &str,
        policy: &NamespacePolicy,
        labels: &Value,
    ) -> Option<String> {
        if !self.namespaces.iter().any(|exempt| exempt == namespace)
            || policy.is_privileged()
            || *policy == self.defaults
        {
            return None;
        }
        let named = policy.named(labels).join(", ");
        Some(format!(
            "namespace {namespace:?} is exempt from Pod Security, and the policy ({named}) will be ignored"
        ))
    }
}

/// Reads the level and the version of a mode; empty ones stay as they are.
fn default_standard(defaults: &Value, mode: &str, standard: &mut Standard, errors: &mut Vec<FieldError>) {
    let versions = format!("{mode}-version");
    let wrong =
        |field: &str, text: &str, why: &str| FieldError::invalid(format!("defaults.{field}"), text, why);
    match defaults.text(mode) {
        "" => {}
        text => match level(text) {
            Ok(read) => standard.level = read,
            Err(why) => errors.push(wrong(mode, text, why)),
        },
    }
    match defaults.text(&versions) {
        "" => {}
        text => match version(text) {
            Ok(read) => standard.version = read,
            Err(why) => errors.push(wrong(&versions, text, why)),
        },
    }
}

/// Reads the names of a list, which must be valid and different.
fn exempted(
    exemptions: &Value,
    list: &str,
    check: &dyn Fn(&str) -> Vec<String>,
    errors: &mut Vec<FieldError>,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, name) in exemptions.list(list).iter().enumerate() {
        let (path, name) = (format!("exemptions.{list}[{index}]"), name.as_str().unwrap_or_default());
        let wrong = check(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(path, name, wrong.join(", ")));
        } else if names.iter().any(|known| known == name) {
            errors.push(FieldError::duplicate(path, name));
        } else {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn read(defaults: Value, exemptions: Value) -> Result<PodSecurityOptions, String> {
        PodSecurityOptions::read(&json!({
            "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
            "defaults": defaults, "exemptions": exemptions,
        }))
    }

    #[test]
    fn defaults_and_exemptions_are_read() {
        let options = read(
            json!({"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"}),
            json!({"usernames": ["a"], "namespaces": ["n"], "runtimeClasses": ["r"]}),
        );
        let options = options.unwrap();
        assert_eq!(options.defaults.enforce.to_string(), "baseline:v1.30");
        assert_eq!(options.defaults.warn.to_string(), "restricted:latest");
        assert_eq!(options.defaults.audit.to_string(), "privileged:latest");
        assert_eq!(options.exemption("n", "a"), Some("namespace"));
        assert_eq!(options.exemption("m", "a"), Some("user"));
        assert_eq!(options.exemption("m", "b"), None);
        assert!(options.exempts_pod(&json!({"runtimeClassName": "r"})) && !options.exempts_pod(&json!({})));
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let policy = NamespacePolicy::of(&labels, options.defaults).0;
        assert_eq!(
            options.ignored("n", &policy, &labels).as_deref(),
            Some(
                r#"namespace "n" is exempt from Pod Security, and the policy (enforce=restricted:v1.30) will be ignored"#
            )
        );
        assert_eq!(options.ignored("m", &policy, &labels), None);
    }

    #[test]
    fn errors_are_those_of_kube_apiserver() {
        let wrong = read(
            json!({"enforce": "high", "warn-version": "1.30"}),
            json!({"usernames": [""], "namespaces": ["n", "n"], "runtimeClasses": ["R"]}),
        );
        let text = wrong.unwrap_err();
        for expected in [
            r#"defaults.enforce: Invalid value: "high": must be one of privileged, baseline, restricted"#,
            r#"defaults.warn-version: Invalid value: "1.30": must be "latest" or "v1.x""#,
            r#"exemptions.usernames[0]: Invalid value: "": username must not be empty"#,
            r#"exemptions.namespaces[1]: Duplicate value: "n""#,
            r#"exemptions.runtimeClasses[0]: Invalid value: "R": "#,
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert_eq!(
            read(json!({"enforced": "x"}), json!({})).unwrap_err(),
            r#"strict decoding error: unknown field "defaults.enforced""#
        );
    }
}
