//! The Pod Security Standards as a table of checks: level, the versions in which each holds, and its function.
//!
//! A namespace may pin an older version of a standard, so checks are never changed: a new form is a new row and the
//! old one ends before it. `replaced` marks baseline checks that the restricted level has a stricter form of; only
//! one of them is reported. Texts and their order are those of kube-apiserver's `pod-security-admission`, which users
//! compare in tests.
//!
//! A check sees a Pod or a Pod template and returns at most one violation. Labels are [`super::policy`], the effects
//! [`super`].

use std::collections::BTreeSet;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::policy::{Standard, StandardLevel, StandardVersion};

/// A Pod or the template of one.
pub(super) struct Pod<'a> {
    annotations: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// The Pod in an object: a Pod itself, or a Pod template, which has metadata and spec at the same places.
    pub(super) fn new(object: &'a Value) -> Self {
        Self { annotations: object.at("metadata").at("annotations"), spec: object.at("spec") }
    }

    fn context(&self) -> &'a Value {
        self.spec.at("securityContext")
    }

    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|key| self.spec.list(key).iter())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The names of the containers whose security context is bad.
    fn bad(&self, mut is_bad: impl FnMut(&Value) -> bool) -> Vec<String> {
        let bad = self.containers().filter(|container| is_bad(container.at("securityContext")));
        bad.map(|container| container.text("name").to_owned()).collect()
    }

    fn is_windows(&self) -> bool {
        self.spec.at("os").text("name") == "windows"
    }

    /// Pods in a user namespace are root only in there.
    fn has_user_namespace(&self) -> bool {
        self.spec.at("hostUsers").as_bool() == Some(false)
    }
}

/// A reason and its detail.
type PodViolation = (&'static str, String);
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
}

const NEVER: u32 = u32::MAX;
/// The newest version in which a check changed: what `latest` means.
const NEWEST: u32 = 37;

const fn baseline(since: u32, before: u32, check: PodCheck) -> PodCheckRow {
    PodCheckRow { level: StandardLevel::Baseline, since, before, check, replaced: NEVER }
}

/// A baseline check with a stricter form at the restricted level.
const fn replaced(since: u32, before: u32, replaced: u32, check: PodCheck) -> PodCheckRow {
    PodCheckRow { level: StandardLevel::Baseline, since, before, check, replaced }
}

const fn restricted(since: u32, before: u32, check: PodCheck) -> PodCheckRow {
    PodCheckRow { level: StandardLevel::Restricted, since, before, check, replaced: NEVER }
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
    replaced(35, NEVER, 35, |pod| if pod.has_user_namespace() { None } else { proc_mount(pod) }),
    baseline(0, 31, |pod| se_linux(pod, &["", "container_t", "container_init_t", "container_kvm_t"])),
    baseline(31, NEVER, |pod| {
        se_linux(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
    }),
    replaced(0, 19, 19, seccomp_annotations),
    replaced(19, NEVER, 19, |pod| seccomp(pod, false)),
    baseline(0, 27, |pod| sysctls(pod, 5)),
    baseline(27, 29, |pod| sysctls(pod, 6)),
    baseline(29, 32, |pod| sysctls(pod, 10)),
    baseline(32, 37, |pod| sysctls(pod, 12)),
    baseline(37, NEVER, |pod| sysctls(pod, 14)),
    baseline(0, NEVER, windows_host_process),
    restricted(8, 25, privilege_escalation),
    restricted(25, NEVER, |pod| if pod.is_windows() { None } else { privilege_escalation(pod) }),
    restricted(22, 25, restricted_capabilities),
    restricted(25, NEVER, |pod| if pod.is_windows() { None } else { restricted_capabilities(pod) }),
    restricted(35, NEVER, proc_mount),
    restricted(0, NEVER, restricted_volumes),
    restricted(0, 35, run_as_non_root),
    restricted(35, NEVER, |pod| if pod.has_user_namespace() { None } else { run_as_non_root(pod) }),
    restricted(23, 35, run_as_user),
    restricted(35, NEVER, |pod| if pod.has_user_namespace() { None } else { run_as_user(pod) }),
    restricted(19, 25, |pod| seccomp(pod, true)),
    restricted(25, NEVER, |pod| if pod.is_windows() { None } else { seccomp(pod, true) }),
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
    Violations(CHECKS.iter().filter(applies).filter_map(|row| (row.check)(pod)).collect())
}

fn plural<'t>(one: &'t str, many: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { many }
}

fn quoted(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

fn named(containers: &[String]) -> String {
    format!("{} {}", plural("container", "containers", containers.len()), quoted(containers))
}

/// `pod and containers "a", "b"`, of those that set something bad.
fn setters(pod: bool, containers: &[String]) -> Vec<String> {
    let containers = (!containers.is_empty()).then(|| named(containers));
    pod.then(|| "pod".to_owned()).into_iter().chain(containers).collect()
}

fn texts<'v>(values: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    values.list(key).iter().filter_map(Value::as_str)
}

fn app_armor(pod: &Pod<'_>) -> Option<PodViolation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let profile = context.at("appArmorProfile");
        let kind = profile.text("type");
        let bad = !profile.is_null() && !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind.to_owned());
        }
        bad
    };
    let own = is_bad(pod.context());
    let containers = pod.bad(is_bad);
    let mut setters = setters(own, &containers);
    let mut annotations: Vec<String> = pod
        .annotations
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .filter(|(key, value)| {
            let allowed = matches!(*value, "" | "runtime/default") || value.starts_with("localhost/");
            key.starts_with(PREFIX) && !allowed
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    annotations.sort();
    let mut values: Vec<String> = values.into_iter().collect();
    if !annotations.is_empty() {
        setters.push(plural("annotation", "annotations", annotations.len()).to_owned());
        values.append(&mut annotations);
    }
    if setters.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    Some((
        reason,
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(values)),
    ))
}

const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The containers that add capabilities beyond those allowed, and which.
fn added_capabilities(pod: &Pod<'_>, allowed: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let mut added = BTreeSet::new();
    let containers = pod.bad(|context| {
        let bad: Vec<&str> =
            texts(context.at("capabilities"), "add").filter(|added| !allowed.contains(added)).collect();
        added.extend(bad.iter().map(|&capability| capability.to_owned()));
        !bad.is_empty()
    });
    (containers, added)
}

fn added_detail(containers: &[String], added: &BTreeSet<String>) -> String {
    format!("{} must not include {} in securityContext.capabilities.add", named(containers), quoted(added))
}

fn baseline_capabilities(pod: &Pod<'_>) -> Option<PodViolation> {
    let (containers, added) = added_capabilities(pod, &DEFAULT_CAPABILITIES);
    (!containers.is_empty()).then(|| ("non-default capabilities", added_detail(&containers, &added)))
}

fn restricted_capabilities(pod: &Pod<'_>) -> Option<PodViolation> {
    let keeping = pod.bad(|context| !texts(context.at("capabilities"), "drop").any(|drop| drop == "ALL"));
    let (adding, added) = added_capabilities(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !adding.is_empty() {
        details.push(added_detail(&adding, &added));
    }
    (!details.is_empty()).then(|| ("unrestricted capabilities", details.join("; ")))
}

fn host_namespaces(pod: &Pod<'_>) -> Option<PodViolation> {
    let used = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| pod.spec.flag(key));
    let used: Vec<String> = used.map(|key| format!("{key}=true")).collect();
    (!used.is_empty()).then(|| ("host namespaces", used.join(", ")))
}

fn host_path_volumes(pod: &Pod<'_>) -> Option<PodViolation> {
    let volumes = pod.spec.list("volumes").iter().filter(|volume| volume.has("hostPath"));
    let names: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    let detail = || format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names));
    (!names.is_empty()).then(|| ("hostPath volumes", detail()))
}

fn host_ports(pod: &Pod<'_>) -> Option<PodViolation> {
    let (mut containers, mut ports) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let used = container.list("ports").iter().filter_map(|port| port.int("hostPort"));
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        if !used.is_empty() {
            containers.push(container.text("name").to_owned());
            ports.extend(used);
        }
    }
    if containers.is_empty() {
        return None;
    }
    let (uses, count) = (plural("uses", "use", containers.len()), ports.len());
    let list = ports.into_iter().collect::<Vec<_>>().join(", ");
    Some((
        "hostPort",
        format!("{} {uses} {} {list}", named(&containers), plural("hostPort", "hostPorts", count)),
    ))
}

fn hosts_of_probes(pod: &Pod<'_>) -> Option<PodViolation> {
    let (mut containers, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        let lifecycle = container.at("lifecycle");
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|key| container.at(key));
        let handlers = ["postStart", "preStop"].map(|key| lifecycle.at(key));
        for handler in probes.into_iter().chain(handlers) {
            for host in ["httpGet", "tcpSocket"].map(|key| handler.at(key).text("host")) {
                if !host.is_empty() {
                    containers.insert(container.text("name").to_owned());
                    hosts.insert(host.to_owned());
                }
            }
        }
    }
    if containers.is_empty() {
        return None;
    }
    let containers: Vec<String> = containers.into_iter().collect();
    let uses = plural("uses", "use", containers.len());
    let what = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    Some(("probe or lifecycle host", format!("{} {uses} {what} {}", named(&containers), quoted(hosts))))
}

fn privileged(pod: &Pod<'_>) -> Option<PodViolation> {
    let containers = pod.bad(|context| context.flag("privileged"));
    let detail = || format!("{} must not set securityContext.privileged=true", named(&containers));
    (!containers.is_empty()).then(|| ("privileged", detail()))
}

fn proc_mount(pod: &Pod<'_>) -> Option<PodViolation> {
    let mut kinds = BTreeSet::new();
    let containers = pod.bad(|context| {
        let kind = context.text("procMount");
        let bad = !matches!(kind, "" | "Default");
        if bad {
            kinds.insert(kind.to_owned());
        }
        bad
    });
    let detail =
        || format!("{} must not set securityContext.procMount to {}", named(&containers), quoted(&kinds));
    (!containers.is_empty()).then(|| ("procMount", detail()))
}

fn se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<PodViolation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut is_bad = |context: &Value| {
        let options = context.at("seLinuxOptions");
        let kind = options.text("type");
        let bad_type = !allowed.contains(&kind);
        if bad_type {
            types.insert(kind.to_owned());
        }
        let (sets_user, sets_role) = (!options.text("user").is_empty(), !options.text("role").is_empty());
        user |= sets_user;
        role |= sets_role;
        bad_type || sets_user || sets_role
    };
    let own = is_bad(pod.context());
    let containers = pod.bad(is_bad);
    let setters = setters(own, &containers);
    if setters.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    if user {
        data.push("user may not be set".to_owned());
    }
    if role {
        data.push("role may not be set".to_owned());
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.join(" and "),
        data.join("; ")
    );
    Some(("seLinuxOptions", detail))
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<PodViolation> {
    let names = pod.containers().map(|container| container.text("name"));
    let keys = names.map(|name| format!("container.seccomp.security.alpha.kubernetes.io/{name}"));
    let mut forbidden = BTreeSet::new();
    for key in ["seccomp.security.alpha.kubernetes.io/pod".to_owned()].into_iter().chain(keys) {
        let Some(value) = pod.annotations.at(&key).as_str() else { continue };
        if !matches!(value, "runtime/default" | "docker/default") && !value.starts_with("localhost/") {
            forbidden.insert(format!("{key}={value:?}"));
        }
    }
    let word = plural("annotation", "annotations", forbidden.len());
    let list = || forbidden.iter().cloned().collect::<Vec<_>>().join(", ");
    (!forbidden.is_empty()).then(|| ("seccompProfile", format!("forbidden {word} {}", list())))
}

/// At the restricted level a profile is also required.
fn seccomp(pod: &Pod<'_>, required: bool) -> Option<PodViolation> {
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let profile = context.at("seccompProfile");
        let kind = profile.text("type");
        let bad = !profile.is_null() && !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind.to_owned());
        }
        bad
    };
    let own = is_bad(pod.context());
    let containers = pod.bad(is_bad);
    let setters = setters(own, &containers);
    if !setters.is_empty() {
        let (setters, values) = (setters.join(" and "), quoted(values));
        let detail = format!("{setters} must not set securityContext.seccompProfile.type to {values}");
        return Some(("seccompProfile", detail));
    }
    if !required || pod.context().has("seccompProfile") {
        return None;
    }
    let unset = pod.bad(|context| !context.has("seccompProfile"));
    let detail = || {
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            named(&unset)
        )
    };
    (!unset.is_empty()).then(|| ("seccompProfile", detail()))
}

/// Sysctls that are safe, in the order they became so.
const SYSCTLS: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

fn sysctls(pod: &Pod<'_>, safe: usize) -> Option<PodViolation> {
    let names = pod.context().list("sysctls").iter().map(|sysctl| sysctl.text("name"));
    let forbidden: Vec<&str> = names.filter(|name| !SYSCTLS.iter().take(safe).any(|s| s == name)).collect();
    (!forbidden.is_empty()).then(|| ("forbidden sysctls", forbidden.join(", ")))
}

fn windows_host_process(pod: &Pod<'_>) -> Option<PodViolation> {
    let is_bad = |context: &Value| context.at("windowsOptions").flag("hostProcess");
    let setters = setters(is_bad(pod.context()), &pod.bad(is_bad));
    let detail =
        || format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and "));
    (!setters.is_empty()).then(|| ("hostProcess", detail()))
}

fn privilege_escalation(pod: &Pod<'_>) -> Option<PodViolation> {
    let containers = pod.bad(|context| context.at("allowPrivilegeEscalation").as_bool() != Some(false));
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&containers));
    (!containers.is_empty()).then(|| ("allowPrivilegeEscalation != false", detail()))
}

const SAFE_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn restricted_volumes(pod: &Pod<'_>) -> Option<PodViolation> {
    let (mut names, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in pod.spec.list("volumes") {
        if SAFE_VOLUMES.iter().any(|kind| volume.has(kind)) {
            continue;
        }
        names.push(volume.text("name"));
        let kind = volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        kinds.insert(kind.filter(|key| *key != "name").min().unwrap_or("unknown").to_owned());
    }
    if names.is_empty() {
        return None;
    }
    let (volumes, uses) = (plural("volume", "volumes", names.len()), plural("uses", "use", names.len()));
    let what = plural("restricted volume type", "restricted volume types", kinds.len());
    let detail = format!("{volumes} {} {uses} {what} {}", quoted(&names), quoted(kinds));
    Some(("restricted volume types", detail))
}

fn run_as_non_root(pod: &Pod<'_>) -> Option<PodViolation> {
    const REASON: &str = "runAsNonRoot != true";
    let setting = |context: &Value| context.at("runAsNonRoot").as_bool();
    let setters =
        setters(setting(pod.context()) == Some(false), &pod.bad(|context| setting(context) == Some(false)));
    if !setters.is_empty() {
        let detail = format!("{} must not set securityContext.runAsNonRoot=false", setters.join(" and "));
        return Some((REASON, detail));
    }
    let by_pod = setting(pod.context()) == Some(true);
    let unset = pod.bad(|context| setting(context).is_none() && !by_pod);
    let detail = || format!("pod or {} must set securityContext.runAsNonRoot=true", named(&unset));
    (!unset.is_empty()).then(|| (REASON, detail()))
}

fn run_as_user(pod: &Pod<'_>) -> Option<PodViolation> {
    let is_root = |context: &Value| context.int("runAsUser") == Some(0);
    let setters = setters(is_root(pod.context()), &pod.bad(is_root));
    (!setters.is_empty())
        .then(|| ("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and "))))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

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
    fn a_good_pod_passes_and_a_plain_one_does_not() {
        let good = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]});
        assert_eq!(violated(StandardLevel::Restricted, 37, good), "");
        let plain = json!({"containers": [{"name": "c"}]});
        assert_eq!(violated(StandardLevel::Restricted, 37, plain).matches("container \"c\"").count(), 4);
    }
}
