//! Pods: search paths, and the profiles of containers in annotations and fields.
//!
//! Rules of one container are in `container` and `resources`, volumes in `volume`, changes in `pod_change`, the
//! status in `pod_status`; this file has the rest of a Pod that no row can express. Most rules hold for templates as
//! well, which name the same checks.

use listwatch_wire::json::Value;

use super::container;
use crate::field::Errors;
use crate::prepare::{APPARMOR, profile_of};
use crate::rules::{self, At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![search_list_is_short, annotated_profiles_are_valid, profiles_agree, host_processes_agree];

const MAX_SEARCH_LIST: usize = 2048;

/// Each path counts with a space before it, except for the first: that is the line in `resolv.conf`.
fn search_list_is_short(at: &At<'_>, errors: &mut Errors) {
    let list = at.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let letters: usize = list.iter().filter_map(Value::as_str).map(|path| path.len() + 1).sum();
    if letters > MAX_SEARCH_LIST + 1 {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LIST} characters (including spaces) in the search list"
        );
        errors.invalid(at.path, at.value.clone(), detail);
    }
}

/// Containers that run as processes of a Windows host do so all together, and in its network.
fn host_processes_agree(at: &At<'_>, errors: &mut Errors) {
    let spec = at.value;
    let said = |part: &Value| part.below("securityContext.windowsOptions.hostProcess").as_bool();
    let (of_pod, mut all, mut on_host) = (said(spec), 0, 0);
    container::each(spec, &container::LISTS, at.path, |_, item, path| {
        let own = said(item);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&path.child("securityContext.windowsOptions.hostProcess"), own, detail);
        }
        all += 1;
        on_host += i32::from(own.or(of_pod) == Some(true));
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at.path, "", detail);
    }
    if !spec.flag("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&at.path.child("hostNetwork"), false, detail);
    }
}

/// Annotations that name the profiles of containers, from before there were fields for them.
fn annotated_profiles_are_valid(at: &At<'_>, errors: &mut Errors) {
    const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    for (key, value) in at.value.as_object().into_iter().flatten() {
        let profile = value.as_str().unwrap_or_default();
        let wrong = |form| rules::form_errors(form, profile);
        if key == SECCOMP || key.starts_with(SECCOMP_CONTAINER) {
            errors.invalid_all(&at.path.child(key), profile, wrong("seccomp-annotation"));
        } else if let Some(name) = key.strip_prefix(APPARMOR) {
            let mut containers = container::LISTS.iter().flat_map(|list| at.top.at("spec").list(list));
            if !containers.any(|container| container.text("name") == name) {
                errors.invalid(&at.path.key(key), name, "container not found");
            }
            errors.invalid_all(&at.path.key(key), profile, wrong("apparmor-annotation"));
        }
    }
}

/// An annotation and the field that replaces it must be equal.
///
/// The field takes precedence at run time, so a different annotation would have no effect.
fn profiles_agree(at: &At<'_>, errors: &mut Errors) {
    let (spec, annotations) = (at.value.at("spec"), at.value.at("metadata").at("annotations"));
    container::each(spec, &container::LISTS, &at.path.child("spec"), |_, item, path| {
        let name = item.text("name");
        if !annotations.has(&format!("{APPARMOR}{name}")) {
            return;
        }
        let (own, general) = (item.at("securityContext"), spec.at("securityContext"));
        let profile = if own.has("appArmorProfile") { own } else { general }.at("appArmorProfile");
        let named = profile_of(annotations, name).unwrap_or_default();
        let path = path.child("securityContext.appArmorProfile");
        if profile.text("type") != named.text("type") {
            errors.forbidden(&path.child("type"), "apparmor type in annotation and field must match");
        } else if profile.text("localhostProfile") != named.text("localhostProfile") {
            let detail = "apparmor profile in annotation and field must match";
            errors.forbidden(&path.child("localhostProfile"), detail);
        }
    });
}
