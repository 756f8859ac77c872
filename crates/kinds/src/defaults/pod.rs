//! Defaults of Pods, and of the Pod templates inside other kinds.
//!
//! A template gets fewer defaults than a Pod: requests are derived from limits, service links enabled and host ports
//! filled only once there is a Pod, so that a template stays as its author wrote it. Zero of a probe's numbers counts
//! as absent. The pull policy depends on the tag of the image, by the rules of image references. Fields with an old and
//! a new name (`serviceAccount`) are kept in step.

use listwatch_wire::json::{Map, Value, json};

use super::{empty, port_protocols};
use crate::tree::Tree;

/// File modes of projected volumes: 0644.
const MODE: i64 = 420;

/// A Pod: a template's defaults and those that only make sense once it runs.
pub(crate) fn pod(object: &mut Map) {
    let Some(spec) = object.inner_or_new("spec") else { return };
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.put("terminationGracePeriodSeconds", 1);
    }
    for key in ["containers", "initContainers"] {
        for container in spec.each(key) {
            limits_as_requests(container);
        }
    }
    spec.fill("enableServiceLinks", true);
    pod_spec(spec);
    if spec.flag("hostNetwork") {
        for key in ["containers", "initContainers"] {
            spec.each(key).for_each(host_ports);
        }
    }
}

/// A Pod in the network of its node has the ports of the node.
fn host_ports(container: &mut Map) {
    for port in container.each("ports") {
        let number = port.at("containerPort").clone();
        port.fill("hostPort", number);
    }
}

/// The `template` of a workload.
///
/// Used by every workload, so a Deployment and its Pods have the same defaults where both have them.
pub(crate) fn template(owner: &mut Map) {
    let Some(template) = owner.inner_or_new("template") else { return };
    template.fill("metadata", empty());
    if let Some(spec) = template.inner_or_new("spec") {
        pod_spec(spec);
    }
}

/// A request that is not written equals the limit. Only names that have a limit are concerned.
fn limits_as_requests(container: &mut Map) {
    let Some(resources) = container.inner("resources") else { return };
    let limits = resources.at("limits").as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    if let Some(requests) = resources.inner_or_new("requests") {
        for (name, limit) in limits {
            requests.fill(&name, limit);
        }
    }
}

/// Defaults that Pods and templates share.
fn pod_spec(spec: &mut Map) {
    spec.fill_text("restartPolicy", "Always");
    spec.fill_text("dnsPolicy", "ClusterFirst");
    spec.fill_text("schedulerName", "default-scheduler");
    spec.fill("terminationGracePeriodSeconds", 30);
    spec.fill("securityContext", empty());
    service_account(spec);
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        spec.each(key).for_each(container);
    }
    for item in spec.each("volumes") {
        volume(item);
    }
}

/// The old name of the field is kept in step with the new one.
fn service_account(spec: &mut Map) {
    let name = match (spec.text("serviceAccountName"), spec.text("serviceAccount")) {
        ("", "") => return,
        ("", old) => old.to_owned(),
        (new, _) => new.to_owned(),
    };
    spec.put("serviceAccountName", name.clone());
    spec.put("serviceAccount", name);
}

/// Ephemeral containers get the same ones, although some make no sense for them, as in kube-apiserver.
fn container(container: &mut Map) {
    let policy = pull_policy(container.text("image"));
    container.fill_text("imagePullPolicy", policy);
    container.fill_text("terminationMessagePath", "/dev/termination-log");
    container.fill_text("terminationMessagePolicy", "File");
    container.fill("resources", empty());
    port_protocols(container);
    for probe_name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.inner(probe_name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = container.inner("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(found) = lifecycle.inner(hook) {
                http_get(found);
            }
        }
    }
    for variable in container.each("env") {
        if let Some(source) = variable.inner("valueFrom") {
            field_source(source);
        }
    }
}

/// A tag that moves is pulled every time.
///
/// A tag other than `latest` or a digest is `IfNotPresent`; so is text that is not an image reference.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let (tagged, digest) = name.split_once('@').map_or((name, false), |(tagged, _)| (tagged, true));
    let fixed = match tagged.rsplit_once(':') {
        Some((_, tag)) => tag != "latest",
        None => digest,
    };
    let whole = image.split('@').next().unwrap_or(image);
    if fixed || !is_reference(whole) { "IfNotPresent" } else { "Always" }
}

/// True for a valid image reference. Any other text has no tag.
fn is_reference(image: &str) -> bool {
    let (path, tag) = match image.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        _ => (image, "latest"),
    };
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        part.bytes().next().is_some_and(edge)
            && part.bytes().last().is_some_and(edge)
            && part.bytes().all(|byte| edge(byte) || matches!(byte, b'.' | b'_' | b'-'))
    };
    let (host, rest) = path.split_once('/').unwrap_or(("", path));
    let is_host = host.contains(['.', ':']) || host == "localhost";
    let mut names = if is_host { rest } else { path }.split('/');
    let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    path.len() <= 255 && names.all(part) && !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(is_tag)
}

/// Zero counts as absent, because the fields are not pointers in Go.
fn probe(probe: &mut Map) {
    for (key, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.int(key).unwrap_or(0) == 0 {
            probe.put(key, value);
        }
    }
    http_get(probe);
    if let Some(grpc) = probe.inner("grpc") {
        grpc.fill("service", "");
    }
}

/// Defaults of an HTTP probe or hook.
fn http_get(handler: &mut Map) {
    if let Some(get) = handler.inner("httpGet") {
        get.fill_text("path", "/");
        get.fill_text("scheme", "HTTP");
    }
}

/// A divisor of zero means one, and is written so that the field is never empty.
fn field_source(source: &mut Map) {
    if let Some(field) = source.inner("fieldRef") {
        field.fill_text("apiVersion", "v1");
    }
    if let Some(resource) = source.inner("resourceFieldRef") {
        resource.fill("divisor", "0");
    }
    if let Some(file) = source.inner("fileKeyRef") {
        file.fill("optional", false);
    }
}

/// A volume without any source is an `emptyDir`; other sources get file modes and API versions.
fn volume(volume: &mut Map) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.put("emptyDir", empty());
    }
    if let Some(image) = volume.inner("image") {
        let policy = pull_policy(image.text("reference"));
        image.fill_text("pullPolicy", policy);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(found) = volume.inner(source) {
            found.fill("defaultMode", MODE);
        }
    }
    if let Some(host) = volume.inner("hostPath") {
        host.fill("type", "");
    }
    if let Some(down) = volume.inner("downwardAPI") {
        downward(down);
    }
    if let Some(projected) = volume.inner("projected") {
        for source in projected.each("sources") {
            if let Some(token) = source.inner("serviceAccountToken") {
                token.fill("expirationSeconds", 3600);
            }
            if let Some(down) = source.inner("downwardAPI") {
                downward(down);
            }
        }
    }
    if let Some(template) = volume.inner("ephemeral").and_then(|source| source.inner("volumeClaimTemplate")) {
        template.fill("metadata", empty());
        if let Some(spec) = template.inner_or_new("spec") {
            spec.fill("volumeMode", "Filesystem");
        }
    }
    legacy_source(volume);
}

fn downward(source: &mut Map) {
    for item in source.each("items") {
        field_source(item);
    }
}

/// Sources served by drivers outside of the tree today; their fields still have defaults.
pub(super) fn legacy_source(volume: &mut Map) {
    let known = [
        ("iscsi", json!({"iscsiInterface": "default"})),
        ("rbd", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        (
            "azureDisk",
            json!({"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": false}),
        ),
        ("scaleIO", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
    ];
    for (name, defaults) in known {
        let (Some(source), Value::Object(defaults)) = (volume.inner(name), defaults) else { continue };
        for (key, value) in defaults {
            source.fill(&key, value);
        }
    }
}
