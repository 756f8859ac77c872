//! The checks of the baseline level: known ways to gain privileges on the node.
//!
//! Each function is one control of the Pod Security Standards and returns its violation, worded as kube-apiserver's Pod
//! Security admission does: the reason first, then the containers and values. A field that is absent is never a
//! violation here; the restricted level (`restricted`) asks for fields. The versions of the standards that a check
//! belongs to are in `checks`, the parts of a Pod in `pod`.

use std::collections::BTreeSet;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::checks::PodViolation;
use super::pod::{Pod, named, plural, quoted, setters, texts};

/// Profiles other than `RuntimeDefault` and `Localhost`, in fields or in the annotations from before there were fields.
///
/// Without a profile the runtime applies its own, so only an explicit `Unconfined` weakens the Pod.
pub(super) fn app_armor(pod: &Pod<'_>) -> Option<PodViolation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let (mut setters, values) = pod.forbidden_profiles("appArmorProfile");
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

/// The capabilities that container runtimes grant by default: adding one of them again changes nothing.
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
pub(super) fn added_capabilities(pod: &Pod<'_>, allowed: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let mut added = BTreeSet::new();
    let containers = pod.bad(|context| {
        let bad: Vec<&str> =
            texts(context.at("capabilities"), "add").filter(|added| !allowed.contains(added)).collect();
        added.extend(bad.iter().map(|&capability| capability.to_owned()));
        !bad.is_empty()
    });
    (containers, added)
}

/// The wording that both levels share; capabilities are sorted, as in kube-apiserver.
pub(super) fn added_detail(containers: &[String], added: &BTreeSet<String>) -> String {
    format!("{} must not include {} in securityContext.capabilities.add", named(containers), quoted(added))
}

/// Capabilities beyond the defaults of the runtimes, such as `SYS_ADMIN`, are ways to the node.
pub(super) fn baseline_capabilities(pod: &Pod<'_>) -> Option<PodViolation> {
    let (containers, added) = added_capabilities(pod, &DEFAULT_CAPABILITIES);
    (!containers.is_empty()).then(|| ("non-default capabilities", added_detail(&containers, &added)))
}

/// The network, process and IPC namespaces of the node show and reach what other Pods do there.
pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<PodViolation> {
    let used = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| pod.spec.flag(key));
    let used: Vec<String> = used.map(|key| format!("{key}=true")).collect();
    (!used.is_empty()).then(|| ("host namespaces", used.join(", ")))
}

/// A host path can break out of the container despite all other restrictions of the Pod.
pub(super) fn host_path_volumes(pod: &Pod<'_>) -> Option<PodViolation> {
    let volumes = pod.spec.list("volumes").iter().filter(|volume| volume.has("hostPath"));
    let names: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    let detail = || format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names));
    (!names.is_empty()).then(|| ("hostPath volumes", detail()))
}

/// Ports of the node. Zero means none and is not a violation.
pub(super) fn host_ports(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// Hosts in probes and lifecycle hooks: the kubelet connects to them from the node, past network policies.
///
/// An empty host is the Pod itself. The check exists since version 1.34 of the standards.
pub(super) fn hosts_of_probes(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// A privileged container has every device and capability of the node.
pub(super) fn privileged(pod: &Pod<'_>) -> Option<PodViolation> {
    let containers = pod.bad(|context| context.flag("privileged"));
    let detail = || format!("{} must not set securityContext.privileged=true", named(&containers));
    (!containers.is_empty()).then(|| ("privileged", detail()))
}

/// Mounts of `/proc` other than `Default`, which shows parts of the node that are otherwise masked.
///
/// Pods in a user namespace may have it: the caller decides.
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// Types beyond `allowed`, which grew over the versions of the standards, and any user or role of SELinux.
pub(super) fn se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<PodViolation> {
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

/// The annotations that named profiles before Kubernetes 1.19. They count for versions of the standards up to that one.
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// Profiles other than `RuntimeDefault` and `Localhost`. No profile at all is allowed here and a violation of the
/// restricted level.
pub(super) fn seccomp(pod: &Pod<'_>) -> Option<PodViolation> {
    let (setters, values) = pod.forbidden_profiles("seccompProfile");
    let detail = || {
        let (setters, values) = (setters.join(" and "), quoted(&values));
        format!("{setters} must not set securityContext.seccompProfile.type to {values}")
    };
    (!setters.is_empty()).then(|| ("seccompProfile", detail()))
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

/// Kernel parameters outside the first `safe` of the list. A version of the standards refuses those that were added
/// later.
pub(super) fn sysctls(pod: &Pod<'_>, safe: usize) -> Option<PodViolation> {
    let names = pod.context().list("sysctls").iter().map(|sysctl| sysctl.text("name"));
    let forbidden: Vec<&str> = names.filter(|name| !SYSCTLS.iter().take(safe).any(|s| s == name)).collect();
    (!forbidden.is_empty()).then(|| ("forbidden sysctls", forbidden.join(", ")))
}

/// Containers that run as processes of a Windows node have all its rights.
pub(super) fn windows_host_process(pod: &Pod<'_>) -> Option<PodViolation> {
    let is_bad = |context: &Value| context.at("windowsOptions").flag("hostProcess");
    let setters = setters(is_bad(pod.context()), &pod.bad(is_bad));
    let detail =
        || format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and "));
    (!setters.is_empty()).then(|| ("hostProcess", detail()))
}
