//! DefaultTolerationSeconds: Pods tolerate `not-ready` and `unreachable` nodes for 300 seconds unless they say
//! otherwise.
//!
//! Without it a Pod would be evicted the moment its node has a hiccup. A toleration with the same key, or with an
//! empty key (all taints), and a matching effect prevents the default. The list is replaced only if something is
//! added, so an update that changes nothing still compares equal to the stored object.

use std::sync::LazyLock;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// The taints that the node controller puts on a node which does not answer.
const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// The default of `--default-not-ready-toleration-seconds` and its sibling in kube-apiserver. There is no flag for it
/// here.
const SECONDS: i64 = 300;

/// The tolerations that are added. All Pods share them.
static TOLERATIONS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    KEYS.map(
        |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
    )
});

/// Mutating, on creations and updates: a Pod whose toleration was removed gets the default again.
#[derive(Debug)]
pub(super) struct DefaultTolerationSeconds;

#[async_trait]
impl Plugin for DefaultTolerationSeconds {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, _request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        add_tolerations(pod);
        Ok(())
    }
}

/// Adds the tolerations that are missing. `spec.tolerations` is touched only if there are any, so that an unchanged
/// update stays equal to the stored Pod.
fn add_tolerations(pod: &mut Value) {
    let given = pod.at("spec").list("tolerations");
    let tolerated = |key: &str| {
        given.iter().any(|toleration| {
            matches!(toleration.text("key"), named if named.is_empty() || named == key)
                && matches!(toleration.text("effect"), "" | "NoExecute")
        })
    };
    let missing = TOLERATIONS.iter().filter(|toleration| !tolerated(toleration.text("key")));
    let added: Vec<Value> = missing.cloned().collect();
    // An update keeps what it shares with the stored object.
    if !added.is_empty() {
        let all = [given, &added].concat();
        if let Some(spec) = pod.inner_or_new("spec") {
            spec.put("tolerations", all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_tolerates_only_what_it_does_not_mention() {
        for (given, expected) in [
            (json!([]), vec![KEYS[0], KEYS[1]]),
            (json!([{"operator": "Exists"}]), vec![""]),
            (json!([{"key": KEYS[0], "operator": "Exists", "effect": "NoExecute"}]), vec![KEYS[0], KEYS[1]]),
            (
                json!([{"key": KEYS[0], "operator": "Exists", "effect": "NoSchedule"}]),
                vec![KEYS[0], KEYS[0], KEYS[1]],
            ),
        ] {
            let mut pod = json!({"spec": {"tolerations": given}});
            add_tolerations(&mut pod);
            let keys: Vec<&str> =
                pod.at("spec").list("tolerations").iter().map(|one| one.text("key")).collect();
            assert_eq!(keys, expected);
        }
    }
}
