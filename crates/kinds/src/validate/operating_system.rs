//! Fields of a Pod that fit one operating system only.

use listwatch_wire::json::Value;

use super::{checks, container};
use crate::field::{Errors, Path};
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![
    operating_system_is_known,
    fields_fit_the_operating_system,
    windows_credential_is_valid,
    windows_user_is_valid,
];

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const POD_CONTEXT: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const POD: [&str; 4] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
const CONTAINER_CONTEXT: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn operating_system_is_known(at: &At<'_>, errors: &mut Errors) {
    match at.value.text("name") {
        _ if at.value.is_null() => {}
        "" => errors.required(&at.path.child("name"), ""),
        name => errors.one_of(at.path, name, &["linux", "windows"]),
    }
}

fn fields_fit_the_operating_system(at: &At<'_>, errors: &mut Errors) {
    match at.value.at("os").text("name") {
        "linux" => contexts(at.value, at.path, &["windowsOptions"], &["windowsOptions"], errors),
        "windows" => {
            contexts(at.value, at.path, &POD_CONTEXT, &CONTAINER_CONTEXT, errors);
            forbid(at.value, &POD, at.path, errors);
            forbid(at.value, &["resources"], at.path, errors);
        }
        _ => {}
    }
}

fn contexts(spec: &Value, path: &Path<'_>, of_pod: &[&str], of_container: &[&str], errors: &mut Errors) {
    forbid(spec.at("securityContext"), of_pod, &path.child("securityContext"), errors);
    container::each(spec, &container::LISTS, path, |_, item, path| {
        forbid(item.at("securityContext"), of_container, &path.child("securityContext"), errors);
    });
}

fn forbid(object: &Value, keys: &[&str], path: &Path<'_>, errors: &mut Errors) {
    for key in keys.iter().filter(|key| object.has(key) && object.at(key) != &Value::Bool(false)) {
        let detail = match *key {
            "windowsOptions" => "windows options cannot be set for a linux pod",
            _ => NOT_ON_WINDOWS,
        };
        errors.forbidden(&path.child(key), detail);
    }
}

/// The longest credential specification, in bytes.
const MAX_CREDENTIAL: usize = 64 * 1024;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

fn windows_credential_is_valid(at: &At<'_>, errors: &mut Errors) {
    match at.value.as_str().map(str::len) {
        Some(0) => errors.invalid(at.path, "", "gmsaCredentialSpec cannot be an empty string"),
        Some(size) if size > MAX_CREDENTIAL => {
            errors.invalid(at.path, at.value.clone(), "gmsaCredentialSpec size must be under 64 KiB");
        }
        _ => {}
    }
}

/// `DOMAIN\\USER`, or a user alone.
fn windows_user_is_valid(at: &At<'_>, errors: &mut Errors) {
    let Some(name) = at.value.as_str() else { return };
    let mut wrong = |detail: &str| errors.invalid(at.path, name, format!("runAsUserName{detail}"));
    if name.is_empty() {
        return wrong(" cannot be an empty string");
    }
    if name.chars().any(|letter| letter.is_ascii_control()) {
        return wrong(" cannot contain control characters");
    }
    let (domain, user) = name.split_once('\\').map_or((None, name), |(domain, user)| (Some(domain), user));
    if user.contains('\\') {
        return wrong(" cannot contain more than one backslash");
    }
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN) {
        wrong("'s Domain length must be under 256 characters");
    }
    if domain
        .is_some_and(|domain| domain.is_empty() || domain.contains(['/', ':', '*', '?', '"', '<', '>', '|']))
    {
        wrong("'s Domain doesn't match the NetBios nor the DNS format");
    }
    match user.len() {
        0 => wrong("'s User cannot be empty"),
        size if size > MAX_USER => wrong("'s User length must not be longer than 104 characters"),
        _ => {}
    }
    if !user.is_empty() && user.chars().all(|letter| matches!(letter, '.' | ' ')) {
        wrong("'s User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        wrong("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}
