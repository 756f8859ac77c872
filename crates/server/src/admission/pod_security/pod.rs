//! [`Pod`]: the parts of a Pod that checks look at, and the words of violations that they share.
//!
//! Templates of workloads are read the same way, since their Pods would be refused later. Nothing is checked here:
//! `baseline` and `restricted` have the controls. The words are those of kube-apiserver, which users match on.

use std::collections::BTreeSet;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

/// A Pod or the template of one.
pub(super) struct Pod<'a> {
    pub(super) annotations: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// The Pod in an object: a Pod itself, or a Pod template, which has metadata and spec at the same places.
    pub(super) fn new(object: &'a Value) -> Self {
        Self { annotations: object.at("metadata").at("annotations"), spec: object.at("spec") }
    }

    /// The security context of the Pod, which containers inherit some fields of.
    pub(super) fn context(&self) -> &'a Value {
        self.spec.at("securityContext")
    }

    /// All containers: init containers first, ephemeral ones last, the order in which kube-apiserver names them.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|key| self.spec.list(key).iter())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The names of the containers whose security context violates the check.
    pub(super) fn bad(&self, mut is_bad: impl FnMut(&Value) -> bool) -> Vec<String> {
        let bad = self.containers().filter(|container| is_bad(container.at("securityContext")));
        bad.map(|container| container.text("name").to_owned()).collect()
    }

    /// The types of the profiles in a field of security contexts that are not allowed, and the setters of them.
    pub(super) fn forbidden_profiles(&self, field: &str) -> (Vec<String>, BTreeSet<String>) {
        let mut values = BTreeSet::new();
        let mut is_bad = |context: &Value| {
            let profile = context.at(field);
            let kind = profile.text("type");
            let bad = !profile.is_null() && !matches!(kind, "RuntimeDefault" | "Localhost");
            if bad {
                values.insert(kind.to_owned());
            }
            bad
        };
        let own = is_bad(self.context());
        let containers = self.bad(is_bad);
        (setters(own, &containers), values)
    }

    /// Windows has no counterpart of most controls; the restricted level skips them since version 1.25.
    pub(super) fn is_windows(&self) -> bool {
        self.spec.at("os").text("name") == "windows"
    }

    /// Pods in a user namespace are root only in there.
    pub(super) fn has_user_namespace(&self) -> bool {
        self.spec.at("hostUsers").as_bool() == Some(false)
    }
}

/// The form of a word for a count.
pub(super) fn plural<'t>(one: &'t str, many: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { many }
}

/// Values between quotes, with commas.
pub(super) fn quoted(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn named(containers: &[String]) -> String {
    format!("{} {}", plural("container", "containers", containers.len()), quoted(containers))
}

/// `pod and containers "a", "b"`, of those that violate the check.
pub(super) fn setters(pod: bool, containers: &[String]) -> Vec<String> {
    let containers = (!containers.is_empty()).then(|| named(containers));
    pod.then(|| "pod".to_owned()).into_iter().chain(containers).collect()
}

/// The strings of a list.
pub(super) fn texts<'v>(values: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    values.list(key).iter().filter_map(Value::as_str)
}
