//! The checks of the restricted level: hardening that well-behaved Pods can be asked for.
//!
//! Unlike those of `baseline`, these find fault with fields that are absent, because the defaults of Kubernetes are not
//! restricted. A setting of the Pod counts for its containers where Kubernetes says so. Which checks hold in which
//! version, and the exemptions of Windows and of user namespaces, are in `checks`.

use std::collections::BTreeSet;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::baseline::{added_capabilities, added_detail, seccomp};
use super::checks::PodViolation;
use super::pod::{Pod, named, plural, quoted, setters, texts};

/// All capabilities are dropped, and at most `NET_BIND_SERVICE` is added again. Both halves are reported together.
pub(super) fn restricted_capabilities(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// `allowPrivilegeEscalation` must be false in each container: the default of the field is true.
pub(super) fn privilege_escalation(pod: &Pod<'_>) -> Option<PodViolation> {
    let containers = pod.bad(|context| context.at("allowPrivilegeEscalation").as_bool() != Some(false));
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&containers));
    (!containers.is_empty()).then(|| ("allowPrivilegeEscalation != false", detail()))
}

/// Volumes whose content comes from the API or from a driver. `hostPath` and the in-tree drivers of networks are none
/// of them.
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

/// Volumes of other types. A volume without any known type is reported as `unknown`: it may be of a newer release.
pub(super) fn restricted_volumes(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// `runAsNonRoot` must be true, in the Pod or in each container. An explicit false is reported alone, since setting the
/// Pod's would not help.
pub(super) fn run_as_non_root(pod: &Pod<'_>) -> Option<PodViolation> {
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

/// User 0 by number. A Pod in a user namespace is exempt: the caller decides.
pub(super) fn run_as_user(pod: &Pod<'_>) -> Option<PodViolation> {
    let is_root = |context: &Value| context.int("runAsUser") == Some(0);
    let setters = setters(is_root(pod.context()), &pod.bad(is_root));
    (!setters.is_empty())
        .then(|| ("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and "))))
}

/// A profile is required, of the Pod or of each container.
pub(super) fn required_seccomp(pod: &Pod<'_>) -> Option<PodViolation> {
    let forbidden = seccomp(pod);
    if forbidden.is_some() || pod.context().has("seccompProfile") {
        return forbidden;
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
