//! Keeps the [`NodeGraph`] of the Node authorizer in step with the watch cache.
//!
//! Followers run in the task that feeds the cache, so they must be cheap: most updates of a Pod change its status,
//! and are recognised by comparing raw bytes of the parts that hold references, without parsing. Pods without a node
//! are left out. As the graph is updated before watchers see the event, a kubelet that learns of a Pod can read its
//! Secrets at once.
//!
//! The graph is [`super::graph`], reading references [`super::references`], decisions [`super::NodeAuthorizer`].

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;

use super::NodeAuthorizer;
use super::graph::{NodeGraph, NodeObjectKind, Vertex};
use super::references;
use crate::cache::{
    Cache, CacheEvent, CachedObject, Collection, CollectionSnapshot, Filter, Follower, RecentTrees,
};

/// The objects that the graph is made of.
#[derive(Clone, Copy, Debug)]
enum GraphSource {
    Pod,
    Volume,
    /// An object that belongs to the node in its `spec.nodeName`, and refers to nothing.
    Placed(NodeObjectKind),
}

/// The collections that the graph is made of.
const SOURCES: [(&str, GraphSource); 5] = [
    ("pods", GraphSource::Pod),
    ("persistentvolumes", GraphSource::Volume),
    ("volumeattachments.storage.k8s.io", GraphSource::Placed(NodeObjectKind::VolumeAttachment)),
    ("resourceslices.resource.k8s.io", GraphSource::Placed(NodeObjectKind::ResourceSlice)),
    (
        "podcertificaterequests.certificates.k8s.io",
        GraphSource::Placed(NodeObjectKind::PodCertificateRequest),
    ),
];

/// The parts of a Pod that its references are read from. Most changes of a Pod touch none of them.
const POD_PARTS: [&str; 4] =
    ["spec", "metadata.annotations", "status.resourceClaimStatuses", "status.extendedResourceClaimStatus"];

/// The follower of one collection. It takes the write lock per event, not per batch, so that a kubelet's request
/// waits for one object at most; only a reload holds it for a whole collection.
#[derive(Debug)]
struct GraphFeed {
    source: GraphSource,
    authorizer: Arc<NodeAuthorizer>,
    trees: Arc<RecentTrees>,
}

/// Registers a follower for each collection that the graph is made of.
pub(super) fn start(cache: &Cache, authorizer: &Arc<NodeAuthorizer>) {
    for (name, source) in SOURCES {
        let (authorizer, trees) = (Arc::clone(authorizer), Arc::clone(&cache.trees));
        let feed = GraphFeed { source, authorizer, trees };
        cache.collection(name, &[]).follow(Arc::new(feed));
    }
}

impl Follower for GraphFeed {
    fn loaded(&self, collection: &Collection, before: &CollectionSnapshot, now: &CollectionSnapshot) {
        let mut graph = self.authorizer.graph.write();
        let all = collection.walk(&Filter::default(), None);
        before.range(&all).for_each(|object| self.source.remove(&mut graph, object));
        now.range(&all).for_each(|object| self.source.put(&mut graph, object, &self.trees));
    }

    fn changed(&self, events: &[Arc<CacheEvent>]) {
        for event in events {
            match (&event.object, &event.previous) {
                (Some(object), Some(previous)) if self.source.is_same(previous, object, &self.trees) => {}
                (Some(object), _) => {
                    self.source.put(&mut self.authorizer.graph.write(), object, &self.trees);
                }
                (None, Some(previous)) => {
                    self.source.remove(&mut self.authorizer.graph.write(), previous);
                }
                (None, None) => {}
            }
        }
    }
}

impl GraphSource {
    /// Returns true if the change makes no difference to the graph.
    fn is_same(self, previous: &CachedObject, object: &CachedObject, trees: &RecentTrees) -> bool {
        match self {
            // Only Pods with a node are in the graph, so without one before and after nothing changes.
            Self::Pod => match (has_node(previous, None), has_node(object, trees.peek(object))) {
                (true, true) => POD_PARTS.iter().all(|path| previous.raw(path) == object.raw(path)),
                (before, after) => before == after,
            },
            Self::Volume => previous.raw("spec") == object.raw("spec"),
            Self::Placed(_) => previous.field("spec.nodeName") == object.field("spec.nodeName"),
        }
    }

    /// Pods whose trees are not known are parsed here, at most once per change of one of [`POD_PARTS`]. A Pod without a node is
    /// removed, which matters for an object that was replaced by another of the same name.
    fn put(self, graph: &mut NodeGraph, object: &CachedObject, trees: &RecentTrees) {
        match self {
            Self::Pod => {
                let known = trees.peek(object);
                if !has_node(object, known.clone()) {
                    return graph.remove(&self.vertex(object));
                }
                let pod = known.unwrap_or_else(|| tree(object, trees));
                graph.place(self.vertex(object), pod.at("spec").text("nodeName"), references::of_pod(&pod));
            }
            Self::Volume => {
                graph.set_volume(object.name(), references::of_volume(&tree(object, trees)));
            }
            Self::Placed(_) => {
                let node = object.field("spec.nodeName").unwrap_or_default();
                graph.place(self.vertex(object), node, Vec::new());
            }
        }
    }

    /// A volume is removed by its name, since claims refer to it by that.
    fn remove(self, graph: &mut NodeGraph, object: &CachedObject) {
        match self {
            Self::Volume => graph.set_volume(object.name(), None),
            _ => graph.remove(&self.vertex(object)),
        }
    }

    /// The identity in the graph. Volumes are kept apart by name (`set_volume`) and never reach the arm that they
    /// share with Pods.
    fn vertex(self, object: &CachedObject) -> Vertex {
        let kind = match self {
            Self::Placed(kind) => kind,
            Self::Pod | Self::Volume => NodeObjectKind::Pod,
        };
        Vertex::new(kind, object.namespace(), object.name())
    }
}

/// Returns true if a Pod has a node, by its tree if that is known: finding a field in the bytes costs a walk over what is before it.
fn has_node(object: &CachedObject, tree: Option<Value>) -> bool {
    match tree {
        Some(tree) => !tree.at("spec").text("nodeName").is_empty(),
        None => !object.field("spec.nodeName").is_none_or(str::is_empty),
    }
}

/// The tree of an object; null for one that cannot be read, which refers to nothing.
fn tree(object: &CachedObject, trees: &RecentTrees) -> Value {
    let value = trees.peek(object).or_else(|| Value::read(object.stored()).ok()).unwrap_or_default();
    debug_assert_eq!(value.at("metadata").text("name"), object.name());
    value
}
