//! PodNodeSelector: merges the node selector in an annotation of the namespace into new Pods, and rejects Pods that
//! contradict it. Off by default.
//!
//! It confines the Pods of a namespace to a set of nodes. Of kube-apiserver's plugin only the annotation
//! `scheduler.alpha.kubernetes.io/node-selector` is implemented; the configuration file with cluster-wide defaults
//! and allowed selectors is not read.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// Mutating, on creations. A Namespace that the cache does not have restricts nothing; NamespaceLifecycle rejects
/// such a Pod anyway.
#[derive(Debug)]
#[doc(alias = "podnodeselector.Plugin")]
pub(super) struct PodNodeSelector;

/// Reads `key=value,key=value`.
fn selector(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

#[async_trait]
impl Plugin for PodNodeSelector {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        subresource.is_empty() && operation == Operation::Create
    }

    async fn admit(&self, request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        let Some(namespace) = request.namespace_object() else { return Ok(()) };
        let wanted = selector(namespace.at("metadata").at("annotations").text(ANNOTATION));
        let own = pod.at("spec").at("nodeSelector").clone();
        if wanted.iter().any(|(key, value)| own.has(key) && own.text(key) != value) {
            return Err(request
                .forbidden(pod, "pod node label selector conflicts with its namespace node label selector"));
        }
        let target = pod.inner_or_new("spec").filter(|_| !wanted.is_empty());
        if let Some(target) = target.and_then(|spec| spec.inner_or_new("nodeSelector")) {
            wanted.into_iter().for_each(|(key, value)| target.put(&key, value));
        }
        Ok(())
    }
}
