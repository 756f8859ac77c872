//! [`NodeGraph`]: the objects that each node needs because of the Pods that run on it. Pure.
//!
//! The Node authorizer asks it for every request of a kubelet, so a lookup must not walk Pods: references are counted
//! per node and object. A change costs as much as what that object refers to, however many others there are.
//! PersistentVolumes and their Secrets are resolved at lookup, through the claim they are bound to, because a volume
//! may be bound before or after its Pod is placed. `follow.rs` keeps the graph in step with the cache.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Hashed with a random key: names come from users.
type NodeMap<K, V> = HashMap<K, V, RandomState>;

/// The kinds of objects that are looked up by the node they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NodeObjectKind {
    ConfigMap,
    Secret,
    ServiceAccount,
    PersistentVolumeClaim,
    ResourceClaim,
    Pod,
    VolumeAttachment,
    ResourceSlice,
    PodCertificateRequest,
}

/// An object by its name; the namespace is empty for cluster-scoped ones.
/// Not by uid: a kubelet asks by name, and an object that is replaced under the same name is needed just as much.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Vertex {
    pub(super) kind: NodeObjectKind,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

impl Vertex {
    /// Copies the names, which outlive the object they come from.
    pub(super) fn new(kind: NodeObjectKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// A PersistentVolume: the claim that it is bound to, and the Secrets that a kubelet needs to mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) claim: Vertex,
    pub(super) secrets: Vec<Vertex>,
}

/// The objects that each node needs because of the Pods on it, with reference counts: several Pods of a node may use
/// one Secret.
#[doc(alias = "NodeAuthorizerGraph")]
#[derive(Debug, Default)]
pub(super) struct NodeGraph {
    /// The nodes that need an object, each with the number of those that refer to it there.
    needed: NodeMap<Vertex, NodeMap<Arc<str>, u32>>,
    /// The node of a Pod or another object that belongs to one, and what it refers to.
    placed: NodeMap<Vertex, (Arc<str>, Vec<Vertex>)>,
    /// Bound PersistentVolumes by name.
    volumes: NodeMap<Box<str>, Volume>,
    /// The volumes that need a Secret.
    volumes_of: NodeMap<Vertex, HashSet<Box<str>, RandomState>>,
}

impl NodeGraph {
    /// Records an object on a node, with all that it refers to, in place of its former entry.
    ///
    /// The object itself is counted among its references, which is how a kubelet may read its own Pods.
    pub(super) fn place(&mut self, object: Vertex, node: &str, mut references: Vec<Vertex>) {
        self.remove(&object);
        if node.is_empty() {
            return;
        }
        let node: Arc<str> = node.into();
        references.push(object.clone());
        for vertex in &references {
            let nodes = self.needed.entry(vertex.clone()).or_default();
            let count = nodes.entry(Arc::clone(&node)).or_default();
            *count = count.saturating_add(1);
        }
        self.placed.insert(object, (node, references));
    }

    /// Removes an object and its references.
    pub(super) fn remove(&mut self, object: &Vertex) {
        let Some((node, references)) = self.placed.remove(object) else { return };
        for vertex in &references {
            let Some(nodes) = self.needed.get_mut(vertex) else { continue };
            match nodes.get_mut(&node) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                self.needed.remove(vertex);
            }
        }
    }

    /// Adds a PersistentVolume that is bound to a claim, or removes one that is not.
    ///
    /// No node is stored with it: the claim leads to the nodes at lookup, so binding a volume touches no Pod.
    pub(super) fn set_volume(&mut self, name: &str, volume: Option<Volume>) {
        if let Some(before) = self.volumes.remove(name) {
            before.secrets.iter().for_each(|secret| self.unlink(secret, name));
        }
        let Some(volume) = volume else { return };
        for secret in &volume.secrets {
            self.volumes_of.entry(secret.clone()).or_default().insert(name.into());
        }
        self.volumes.insert(name.into(), volume);
    }

    /// Removes the reference of a volume to a Secret.
    fn unlink(&mut self, secret: &Vertex, volume: &str) {
        let Some(volumes) = self.volumes_of.get_mut(secret) else { return };
        volumes.remove(volume);
        if volumes.is_empty() {
            self.volumes_of.remove(secret);
        }
    }

    /// Returns true if the node needs the object.
    ///
    /// One or two hash lookups; for the Secret of a volume also one per volume that needs it.
    pub(super) fn needs(&self, node: &str, object: &Vertex) -> bool {
        self.refers(node, object)
            || self
                .volumes_of
                .get(object)
                .is_some_and(|volumes| volumes.iter().any(|volume| self.needs_volume(node, volume)))
    }

    /// Returns true if the node needs the PersistentVolume.
    pub(super) fn needs_volume(&self, node: &str, volume: &str) -> bool {
        self.volumes.get(volume).is_some_and(|volume| self.refers(node, &volume.claim))
    }

    /// True if a Pod on the node refers to the object by itself.
    fn refers(&self, node: &str, object: &Vertex) -> bool {
        self.needed.get(object).is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Returns true if the graph is empty.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let Self { needed, placed, volumes, volumes_of } = self;
        needed.is_empty() && placed.is_empty() && volumes.is_empty() && volumes_of.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Vertex {
        Vertex::new(NodeObjectKind::Pod, "a", name)
    }

    fn secret(name: &str) -> Vertex {
        Vertex::new(NodeObjectKind::Secret, "a", name)
    }

    fn claim(name: &str) -> Vertex {
        Vertex::new(NodeObjectKind::PersistentVolumeClaim, "a", name)
    }

    #[test]
    fn a_secret_is_needed_until_the_last_pod_of_the_node_goes() {
        let mut graph = NodeGraph::default();
        graph.place(pod("p"), "one", vec![secret("s"), secret("s")]);
        graph.place(pod("q"), "one", vec![secret("s")]);
        graph.place(pod("r"), "two", vec![secret("t")]);
        assert!(graph.needs("one", &secret("s")) && graph.needs("one", &pod("p")));
        assert!(!graph.needs("two", &secret("s")) && !graph.needs("two", &pod("p")));
        graph.remove(&pod("p"));
        assert!(graph.needs("one", &secret("s")));
        graph.remove(&pod("q"));
        assert!(!graph.needs("one", &secret("s")));
        graph.remove(&pod("r"));
        assert!(graph.is_empty());
    }

    #[test]
    fn volumes_are_needed_through_their_claims_in_any_order() {
        let mut graph = NodeGraph::default();
        let volume = Volume { claim: claim("c"), secrets: vec![secret("key")] };
        graph.set_volume("v", Some(volume.clone()));
        assert!(!graph.needs_volume("one", "v") && !graph.needs("one", &secret("key")));
        graph.place(pod("p"), "one", vec![claim("c")]);
        assert!(graph.needs_volume("one", "v") && graph.needs("one", &secret("key")));
        assert!(!graph.needs_volume("two", "v") && !graph.needs("two", &secret("key")));
        graph.set_volume("v", Some(Volume { claim: claim("other"), ..volume }));
        assert!(!graph.needs_volume("one", "v") && !graph.needs("one", &secret("key")));
        graph.set_volume("v", None);
        graph.remove(&pod("p"));
        assert!(graph.is_empty());
    }

    #[test]
    fn an_object_that_moves_leaves_its_node() {
        let mut graph = NodeGraph::default();
        let attachment = Vertex::new(NodeObjectKind::VolumeAttachment, "", "x");
        graph.place(attachment.clone(), "one", Vec::new());
        graph.place(attachment.clone(), "two", Vec::new());
        assert!(!graph.needs("one", &attachment) && graph.needs("two", &attachment));
        graph.place(attachment, "", Vec::new());
        assert!(graph.is_empty());
    }
}
