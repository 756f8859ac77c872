//! The Pod Security Standards as a table of checks: level, the versions in which each holds, and its function.
//!
//! A namespace may pin an older version of a standard, so checks are never changed: a new form is a new row and the
//! old one ends before it. `replaced` marks baseline checks that the restricted level has a stricter form of; only
//! one of them is reported. Texts and their order are those of kube-apiserver's `pod-security-admission`, which users
//! compare in tests.
//!
//! A check sees a Pod or a Pod template and returns at most one violation. The functions are in [`super::baseline`] and
//! [`super::restricted`], by the level that has them first; labels are [`super::policy`], the effects [`super`].

use super::baseline::{
    app_armor, baseline_capabilities, host_namespaces, host_path_volumes, host_ports, hosts_of_probes,
    privileged, proc_mount, se_linux, seccomp, seccomp_annotations, sysctls, windows_host_process,
};
use super::pod::Pod;
use super::policy::{Standard, StandardLevel, StandardVersion};
use super::restricted::{
    privilege_escalation, required_seccomp, restricted_capabilities, restricted_volumes, run_as_non_root,
    run_as_user,
};

/// A reason and its detail.
pub(super) type PodViolation = (&'static str, String);
/// Returns the violation, if there is one.
type PodCheck = fn(&Pod<'_>) -> Option<PodViolation>;

/// The violations of a standard, in the order of its checks.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<PodViolation>);

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons alone, as warnings about existing Pods group by them.
    pub(super) fn reasons(&self) -> String {
        self.0.iter().map(|(reason, _)| *reason).collect::<Vec<_>>().join(", ")
    }

    /// Each reason with its detail in parentheses, as rejections and audit annotations show them.
    pub(super) fn detail(&self) -> String {
        self.0.iter().map(|(reason, detail)| format!("{reason} ({detail})")).collect::<Vec<_>>().join(", ")
    }
}

/// A check from one version up to another.
struct PodCheckRow {
    level: StandardLevel,
    since: u32,
    before: u32,
    check: PodCheck,
    /// The restricted level has a stricter form since this version.
    replaced: u32,
    /// Pods that the check is not about.
    exempt: fn(&Pod<'_>) -> bool,
}

impl PodCheckRow {
    /// Limits a check to Pods that are not exempt.
    const fn unless(mut self, exempt: fn(&Pod<'_>) -> bool) -> Self {
        self.exempt = exempt;
        self
    }
}

/// For checks that no later one replaces.
const NEVER: u32 = u32::MAX;
/// The newest version in which a check changed: what `latest` means.
const NEWEST: u32 = 37;

/// A check of the baseline level, for versions from `since` and before `before`.
const fn baseline(since: u32, before: u32, check: PodCheck) -> PodCheckRow {
    PodCheckRow { level: StandardLevel::Baseline, since, before, check, replaced: NEVER, exempt: |_| false }
}

/// A baseline check with a stricter form at the restricted level.
const fn replaced(since: u32, before: u32, replaced: u32, check: PodCheck) -> PodCheckRow {
    PodCheckRow { level: StandardLevel::Baseline, since, before, check, replaced, exempt: |_| false }
}

/// A check of the restricted level.
const fn restricted(since: u32, before: u32, check: PodCheck) -> PodCheckRow {
    PodCheckRow { level: StandardLevel::Restricted, since, before, check, replaced: NEVER, exempt: |_| false }
}

/// Baseline checks first, each level in the order of the check's names in kube-apiserver.
const CHECKS: &[PodCheckRow] = &[
    baseline(0, NEVER, app_armor),
    replaced(0, NEVER, 22, baseline_capabilities),
    baseline(0, NEVER, host_namespaces),
    replaced(0, NEVER, 0, host_path_volumes),
    baseline(0, NEVER, host_ports),
    baseline(34, NEVER, hosts_of_probes),
    baseline(0, NEVER, privileged),
    baseline(0, 35, proc_mount),
    replaced(35, NEVER, 35, proc_mount).unless(|pod| pod.has_user_namespace()),
    baseline(0, 31, |pod| se_linux(pod, &["", "container_t", "container_init_t", "container_kvm_t"])),
    baseline(31, NEVER, |pod| {
        se_linux(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
    }),
    replaced(0, 19, 19, seccomp_annotations),
    replaced(19, NEVER, 19, seccomp),
    baseline(0, 27, |pod| sysctls(pod, 5)),
    baseline(27, 29, |pod| sysctls(pod, 6)),
    baseline(29, 32, |pod| sysctls(pod, 10)),
    baseline(32, 37, |pod| sysctls(pod, 12)),
    baseline(37, NEVER, |pod| sysctls(pod, 14)),
    baseline(0, NEVER, windows_host_process),
    restricted(8, 25, privilege_escalation),
    restricted(25, NEVER, privilege_escalation).unless(|pod| pod.is_windows()),
    restricted(22, 25, restricted_capabilities),
    restricted(25, NEVER, restricted_capabilities).unless(|pod| pod.is_windows()),
    restricted(35, NEVER, proc_mount),
    restricted(0, NEVER, restricted_volumes),
    restricted(0, 35, run_as_non_root),
    restricted(35, NEVER, run_as_non_root).unless(|pod| pod.has_user_namespace()),
    restricted(23, 35, run_as_user),
    restricted(35, NEVER, run_as_user).unless(|pod| pod.has_user_namespace()),
    restricted(19, 25, required_seccomp),
    restricted(25, NEVER, required_seccomp).unless(|pod| pod.is_windows()),
];

/// Returns what a Pod violates of a standard.
pub(super) fn evaluate(standard: Standard, pod: &Pod<'_>) -> Violations {
    let version = match standard.version {
        StandardVersion::Latest => NEWEST,
        StandardVersion::Minor(minor) => minor.min(NEWEST),
    };
    let applies = |row: &&PodCheckRow| {
        let overridden = standard.level == StandardLevel::Restricted && version >= row.replaced;
        row.level <= standard.level && (row.since..row.before).contains(&version) && !overridden
    };
    Violations(
        CHECKS
            .iter()
            .filter(applies)
            .filter(|row| !(row.exempt)(pod))
            .filter_map(|row| (row.check)(pod))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::{Value, json};

    use super::*;

    fn violated(level: StandardLevel, minor: u32, spec: Value) -> String {
        let pod = json!({"metadata": {}, "spec": spec});
        evaluate(Standard { level, version: StandardVersion::Minor(minor) }, &Pod::new(&pod)).detail()
    }

    #[test]
    fn the_restricted_level_replaces_checks_of_the_baseline() {
        let spec = || json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
        assert_eq!(violated(StandardLevel::Baseline, 37, spec()), "hostPath volumes (volume \"v\")");
        assert_eq!(
            violated(StandardLevel::Restricted, 37, spec()),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")"
        );
    }

    #[test]
    fn a_version_has_the_checks_of_its_time() {
        let spec = || json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}});
        assert_eq!(violated(StandardLevel::Baseline, 31, spec()), "forbidden sysctls (net.ipv4.tcp_rmem)");
        assert_eq!(violated(StandardLevel::Baseline, 32, spec()), "");
        assert_eq!(violated(StandardLevel::Baseline, 99, spec()), "");
    }

    #[test]
    fn the_restricted_level_rejects_a_pod_without_settings() {
        let good = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]});
        assert_eq!(violated(StandardLevel::Restricted, 37, good), "");
        let plain = json!({"containers": [{"name": "c"}]});
        assert_eq!(violated(StandardLevel::Restricted, 37, plain).matches("container \"c\"").count(), 4);
    }
}
