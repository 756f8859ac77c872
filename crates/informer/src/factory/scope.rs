//! [`Scope`]: the selection of objects that an informer of a factory caches.
//!
//! It is the identity of an informer in its factory. Selectors are kept as text, in the normal form that a selector prints, so
//! that two that were written differently and mean the same are equal.

use listwatch_wire::selector::{FieldSelector, LabelSelector};

use crate::kube::{KubeSource, ResourceKind, SharedStream};
use crate::lister_watcher::Sources;
use crate::object::Keep;

/// The selection of objects that an informer caches. Equal scopes share an informer.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use listwatch::factory::Scope;
///
/// let web = Scope::of::<Pod>().namespace("shop").labels(&"app=web,tier!=db".parse()?);
/// // Order does not matter: selectors and namespaces have a normal form.
/// assert_eq!(web, Scope::of::<Pod>().labels(&"tier!=db, app=web".parse()?).namespace("shop"));
/// assert_ne!(web, Scope::of::<Pod>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    pub(super) resource: ResourceKind,
    /// Sorted; empty for all.
    namespaces: Vec<String>,
    /// Of the namespaces themselves; none if they are named, or all.
    namespace_labels: Option<String>,
    labels: String,
    fields: String,
}

impl Scope {
    /// Returns the scope of all objects of the kind, in all namespaces.
    #[must_use]
    pub fn new(resource: ResourceKind) -> Self {
        Self {
            resource,
            namespaces: Vec::new(),
            namespace_labels: None,
            labels: String::new(),
            fields: String::new(),
        }
    }

    /// Returns the scope of all objects of a static type.
    #[must_use]
    pub fn of<K: ::kube::Resource<DynamicType = ()>>() -> Self {
        Self::new(ResourceKind::of::<K>())
    }

    /// Limits it to this namespace, beside those that were named before. A scope that names none has all.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self.namespaces.sort();
        self.namespaces.dedup();
        self
    }

    /// Limits it to namespaces with such labels; the set follows the labels of Namespaces. Replaces named namespaces.
    #[must_use]
    pub fn namespaces_labelled(mut self, selector: &LabelSelector) -> Self {
        self.namespace_labels = Some(selector.to_string());
        self
    }

    /// Limits it to objects whose labels match. A different selector makes a different informer with its own watch.
    /// Where parts of a program need different labels of one kind, one informer without a selector and an index may
    /// cost less.
    #[must_use]
    pub fn labels(mut self, selector: &LabelSelector) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Limits it to objects whose fields match. The server decides which fields can be selected; of Pods,
    /// `spec.nodeName` and `status.phase` among others.
    #[must_use]
    pub fn fields(mut self, selector: &FieldSelector) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// The sources of a scope: one, or one per namespace.
    pub(super) fn sources(
        &self,
        client: &::kube::Client,
        keep: Keep,
        stream: Option<SharedStream>,
    ) -> Sources {
        let mut source = KubeSource::new(client.clone(), self.resource.clone()).keep(keep).stream(stream);
        // Selectors were parsed before they were printed.
        source = source.labels(self.labels.parse().unwrap_or_default());
        source = source.fields(self.fields.parse().unwrap_or_default());
        if let Some(labels) = &self.namespace_labels {
            return source.namespaces_labelled(labels.parse().unwrap_or_default()).into();
        }
        match self.namespaces.as_slice() {
            [] => source.into(),
            [one] => source.namespace(one).into(),
            several => source.namespaces(several.iter().cloned()).into(),
        }
    }

    /// The name in metrics: resource and group, and the selectors that distinguish informers.
    pub(super) fn name(&self) -> String {
        let mut name = self.resource.resource.resource.to_string();
        if !self.resource.resource.group.is_empty() {
            name = format!("{name}.{}", self.resource.resource.group);
        }
        let namespaces = self.namespace_labels.clone().unwrap_or_else(|| self.namespaces.join(","));
        for part in [namespaces, self.labels.clone(), self.fields.clone()] {
            if !part.is_empty() {
                name = format!("{name}/{part}");
            }
        }
        name
    }
}
