//! [`NamespacePolicy`]: the Pod Security Standards that the labels `pod-security.kubernetes.io/*` of a namespace
//! name.
//!
//! A label that cannot be read fails safe: enforcement becomes `restricted`, while audit and warn are switched off.
//! Without a `warn` label, warnings follow the enforced level, so that users learn of it when they create a
//! Deployment and not from missing Pods. What the levels forbid is [`super::checks`].

use std::fmt;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use listwatch_wire::status::FieldError;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The level of a Pod security standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StandardLevel {
    Privileged,
    Baseline,
    Restricted,
}

/// The release whose form of a standard is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StandardVersion {
    /// `v1.x`.
    Minor(u32),
    Latest,
}

/// A level in the form of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standard {
    pub(super) level: StandardLevel,
    pub(super) version: StandardVersion,
}

/// The standards of a namespace: one to enforce, one to audit, one to warn of.
#[doc(alias = "LevelVersion")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespacePolicy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl Default for NamespacePolicy {
    fn default() -> Self {
        let open = Standard { level: StandardLevel::Privileged, version: StandardVersion::Latest };
        Self { enforce: open, audit: open, warn: open }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            StandardLevel::Privileged => "privileged",
            StandardLevel::Baseline => "baseline",
            StandardLevel::Restricted => "restricted",
        };
        match self.version {
            StandardVersion::Latest => write!(f, "{level}:latest"),
            StandardVersion::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// An unknown level is an error of the label, and counts as restricted.
pub(super) fn level(text: &str) -> Result<StandardLevel, &'static str> {
    match text {
        "privileged" => Ok(StandardLevel::Privileged),
        "baseline" => Ok(StandardLevel::Baseline),
        "restricted" => Ok(StandardLevel::Restricted),
        _ => Err("must be one of privileged, baseline, restricted"),
    }
}

/// `latest` or `v1.N`.
pub(super) fn version(text: &str) -> Result<StandardVersion, &'static str> {
    if text == "latest" {
        return Ok(StandardVersion::Latest);
    }
    let minor = text.strip_prefix("v1.").unwrap_or_default();
    let plain = minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
    let minor = minor.parse().ok().filter(|_| plain);
    minor.map(StandardVersion::Minor).ok_or("must be \"latest\" or \"v1.x\"")
}

impl NamespacePolicy {
    /// Reads the labels; where there are none, the defaults hold. What cannot be read is enforced strictly, and neither audited nor warned of.
    pub(super) fn of(labels: &Value, defaults: Self) -> (Self, Vec<FieldError>) {
        let mut policy = defaults;
        let mut errors = Vec::new();
        let mut named = [false; 3];
        let standards = [&mut policy.enforce, &mut policy.audit, &mut policy.warn];
        for ((mode, standard), named) in ["enforce", "audit", "warn"].iter().zip(standards).zip(&mut named) {
            let fallback =
                if *mode == "enforce" { StandardLevel::Restricted } else { StandardLevel::Privileged };
            let key = format!("{PREFIX}{mode}");
            if let Some(text) = labels.at(&key).as_str() {
                let read = level(text);
                *named = *mode != "enforce" || read.is_ok();
                standard.level = read.unwrap_or_else(|why| note(&mut errors, &key, text, why, fallback));
            }
            let key = format!("{key}-version");
            if let Some(text) = labels.at(&key).as_str() {
                let read = version(text);
                standard.version =
                    read.unwrap_or_else(|why| note(&mut errors, &key, text, why, StandardVersion::Latest));
            }
        }
        let [enforce_named, _, warn_named] = named;
        if enforce_named && !warn_named && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !labels.has(&format!("{PREFIX}warn-version")) {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// The modes that labels name, except for privileged ones, as a warning shows them.
    pub(super) fn named(&self, labels: &Value) -> Vec<String> {
        let modes = [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)];
        let named = modes.into_iter().filter(|(mode, standard)| {
            let key = format!("{PREFIX}{mode}");
            standard.level != StandardLevel::Privileged
                && (labels.has(&key) || labels.has(&format!("{key}-version")))
        });
        named.map(|(mode, standard)| format!("{mode}={standard}")).collect()
    }

    /// Returns true if nothing is checked at all.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|standard| standard.level == StandardLevel::Privileged)
    }
}

/// Records an invalid label and returns the fallback value.
fn note<T>(errors: &mut Vec<FieldError>, key: &str, text: &str, why: &str, fallback: T) -> T {
    errors.push(FieldError::invalid(format!("metadata.labels[{key}]"), text, why));
    fallback
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn an_enforced_level_is_warned_of_unless_the_labels_say_otherwise() {
        let policy = |labels: Value| NamespacePolicy::of(&labels, NamespacePolicy::default()).0;
        let enforced = policy(
            json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.20"}),
        );
        assert_eq!(enforced.warn.to_string(), "baseline:v1.20");
        assert_eq!(enforced.audit.to_string(), "privileged:latest");
        let quiet = policy(
            json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "privileged"}),
        );
        assert_eq!(quiet.warn.to_string(), "privileged:latest");
    }

    #[test]
    fn wrong_labels_are_errors_and_enforce_strictly() {
        for (text, fits) in [
            ("latest", true),
            ("v1.0", true),
            ("v1.99", true),
            ("v1.01", false),
            ("1.20", false),
            ("v2.0", false),
            ("v1.", false),
            ("v1.+1", false),
        ] {
            assert_eq!(version(text).is_ok(), fits, "{text}");
        }
        let (policy, errors) = NamespacePolicy::of(
            &json!({"pod-security.kubernetes.io/enforce": "high"}),
            NamespacePolicy::default(),
        );
        assert_eq!(errors.len(), 1);
        assert_eq!(policy.enforce.level, StandardLevel::Restricted);
        assert_eq!(policy.warn.level, StandardLevel::Privileged);
    }
}
