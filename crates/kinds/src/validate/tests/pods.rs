//! Changes of Pods: their annotations, ephemeral containers, resizes and mounts.

use super::*;

/// A user with permission to write a Pod or its status could turn it into a mirror Pod, and its kubelet lost access to
/// what the Pod needs.
#[test]
fn the_annotations_that_decide_about_a_pod_stay() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |annotations: Value| {
        let mut pod = json!({
            "metadata": {"name": "x", "namespace": "n", "resourceVersion": "1", "annotations": annotations},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        });
        defaults::apply(kind, &mut pod);
        pod
    };
    let mirror = |value: &str| json!({"kubernetes.io/config.mirror": value});
    let profile = |value: &str| json!({"container.apparmor.security.beta.kubernetes.io/c": value});
    for (old, new, expected) in [
        (
            json!({}),
            mirror("h"),
            "[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
        ),
        (
            mirror("h"),
            json!({}),
            "[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
        ),
        (
            mirror("h"),
            mirror("i"),
            "[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
        ),
        (mirror("h"), mirror("h"), ""),
        (json!({}), json!({"other": "o"}), ""),
        (
            json!({}),
            profile("unconfined"),
            "[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not add AppArmor annotations",
        ),
        (
            profile("runtime/default"),
            profile("unconfined"),
            "[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: may not remove or update AppArmor annotations",
        ),
    ] {
        let (old, new) = (pod(old), pod(new));
        for errors in [update(kind, &new, &old), status_update(kind, &new, &old)] {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = [expected]
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| format!("metadata.annotations{text}"))
                .collect();
            assert_eq!(errors, expected);
        }
    }
}

#[test]
fn ephemeral_containers_cannot_be_removed() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |ephemeral: Value| {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i"}], "ephemeralContainers": ephemeral}});
        defaults::apply(kind, &mut pod);
        pod
    };
    let old = pod(json!([{"name": "d", "image": "i"}]));
    for (ephemeral, expected) in [
        (json!([{"name": "d", "image": "i"}, {"name": "e", "image": "i"}]), vec![]),
        (json!([{"name": "d", "image": "j"}]), vec!["spec.ephemeralContainers"]),
        (json!([]), vec!["spec.ephemeralContainers"]),
    ] {
        let fields: Vec<_> = ephemeral_update(kind, &pod(ephemeral.clone()), &old)
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(fields, expected, "{ephemeral}");
    }
}

#[test]
fn a_resized_pod_keeps_its_quality_of_service() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |resources: Value| {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources}]}});
        defaults::apply(kind, &mut pod);
        pod
    };
    let old = pod(json!({"requests": {"cpu": "1"}}));
    assert_eq!(resize_update(kind, &pod(json!({"requests": {"cpu": "2"}})), &old), []);
    let mut windows = old.clone();
    windows["spec"]["os"] = json!({"name": "windows"});
    let errors = resize_update(kind, &windows, &windows);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["[]: Forbidden: windows pods cannot be resized"]);
    let errors = resize_update(kind, &pod(json!({})), &old);
    let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
    assert_eq!(fields, ["spec", "spec.containers[0].resources.requests"]);
}

/// A resize could take away limits, claim disk and change the policy of restarts.
#[test]
fn a_resize_changes_amounts_of_cpu_and_memory_only() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let pod = |resources: Value, policy: &str| {
        let policy = json!([{"resourceName": "cpu", "restartPolicy": policy}, {"resourceName": "memory", "restartPolicy": "NotRequired"}]);
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i", "resources": resources, "resizePolicy": policy}]}});
        defaults::apply(kind, &mut pod);
        pod
    };
    let old = pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), "NotRequired");
    for (resources, policy, expected) in [
        (json!({"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}}), "NotRequired", vec![]),
        (json!({"requests": {"cpu": "1"}}), "NotRequired", vec!["spec.containers[0].resources.limits"]),
        (
            json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "2"}}),
            "NotRequired",
            vec!["spec"],
        ),
        (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), "RestartContainer", vec!["spec"]),
    ] {
        let errors = resize_update(kind, &pod(resources, policy), &old);
        assert_eq!(errors.iter().map(|error| &*error.field).collect::<Vec<_>>(), expected);
    }
    let mut two = old.clone();
    two["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "b", "image": "i"}));
    let errors = resize_update(kind, &two, &old);
    assert!(errors.iter().any(|error| error.field == "spec.containers"), "{errors:?}");
}

/// The security contexts of a Windows Pod were not checked, nor that all its containers run on the host.
#[test]
fn a_windows_pod_has_no_settings_of_linux() {
    let kind = by_kind("", "v1", "Pod").unwrap();
    let errors = |spec: Value| -> Vec<String> {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        defaults::apply(kind, &mut pod);
        create(kind, &pod).into_iter().map(|error| error.field).collect()
    };
    let container = |security: Value| json!([{"name": "a", "image": "i", "securityContext": security}]);
    let own = json!({"privileged": false, "capabilities": {"drop": ["ALL"]}});
    let fields = errors(json!({"os": {"name": "windows"}, "containers": container(own)}));
    let expected =
        ["capabilities", "privileged"].map(|key| format!("spec.containers[0].securityContext.{key}"));
    assert_eq!(fields, expected);
    let plain = json!([{"name": "a", "image": "i"}]);
    let users = errors(json!({"os": {"name": "windows"}, "hostUsers": false, "containers": plain}));
    assert_eq!(users, ["spec.hostUsers"]);
    let host = json!({"windowsOptions": {"hostProcess": true}});
    assert_eq!(errors(json!({"containers": container(host.clone())})), ["spec.hostNetwork"]);
    let mut both = json!({"hostNetwork": true, "containers": container(host)});
    both["containers"].as_array_mut().unwrap().push(json!({"name": "b", "image": "i"}));
    assert_eq!(errors(both), ["spec"]);
}

#[test]
fn the_image_of_a_running_container_may_change() {
    let mut old = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let kind = by_kind("", "v1", "Pod").unwrap();
    defaults::apply(kind, &mut old);
    let mut new = old.clone();
    *new.pointer_mut("/spec/containers/0/image").unwrap() = json!("j");
    assert_eq!(update(kind, &new, &old), []);
}

/// StatefulSets whose containers mount a claim template were refused.
#[test]
fn containers_may_mount_the_claims_of_a_stateful_set() {
    let set = |mounted: &str| {
        json!({"metadata": {"name": "db"}, "spec": {
            "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "containers": [
                {"name": "c", "image": "i", "volumeMounts": [{"name": mounted, "mountPath": "/d"}]},
            ]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        }})
    };
    let kind = by_kind("apps", "v1", "StatefulSet").unwrap();
    let missing = |set: Value| {
        create(kind, &set).into_iter().filter(|error| error.field.contains("volumeMounts")).count()
    };
    assert_eq!((missing(set("data")), missing(set("other"))), (0, 1));
}
