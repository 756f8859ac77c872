//! [`ResourceKind`]: group, version, resource and kind of a collection, and the form in which its objects are read.
//!
//! The kind is kept beside the resource because items of a list carry no `kind` and because an event of another kind
//! must be refused. Scope is known only for static types; for kinds found by discovery it is unknown and a wrong
//! namespace is reported by the server. kube-rs calls the run-time form `ApiResource`.

use kube::core::ApiResource;
use listwatch_wire::gvk::{GroupVersion, GroupVersionKind, GroupVersionResource};

/// True if objects of the type have no namespace. By the name of the scope's type, which needs no bound on it: the same type
/// has the same name.
pub(crate) fn is_cluster_scoped<K: kube::Resource>() -> bool {
    std::any::type_name::<K::Scope>() == std::any::type_name::<kube::core::ClusterResourceScope>()
}

/// A kind, its place in the API, and the form in which its objects are requested.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use listwatch::kube::ResourceKind;
///
/// let deployments = ResourceKind::of::<Deployment>();
/// assert_eq!(deployments, ResourceKind::of::<Deployment>());
/// // Metadata only is another form of the same collection, and so another informer.
/// assert_ne!(deployments.clone().metadata_only(), deployments);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "ApiResource")]
#[doc(alias = "GroupVersionResource")]
pub struct ResourceKind {
    pub(crate) resource: GroupVersionResource,
    pub(crate) kind: GroupVersionKind,
    pub(crate) metadata_only: bool,
    /// Its objects are known to have no namespace.
    pub(crate) cluster_scoped: bool,
}

impl ResourceKind {
    /// The collection of a static type: one of `k8s-openapi`, one that derives `CustomResource`, or a
    /// `PartialObjectMeta` of such a type for metadata only.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self {
        let named = Self::named(&K::group(&()), &K::version(&()), &K::plural(&()), &K::kind(&()));
        Self { metadata_only: K::metadata_api(), cluster_scoped: is_cluster_scoped::<K>(), ..named }
    }

    /// The collection that discovery, or the user, has named.
    #[must_use]
    pub fn dynamic(resource: &ApiResource) -> Self {
        Self::named(&resource.group, &resource.version, &resource.plural, &resource.kind)
    }

    /// Namespaces, for their labels and for the identity of the server.
    pub(crate) fn namespaces() -> Self {
        Self { cluster_scoped: true, ..Self::named("", "v1", "namespaces", "Namespace") }
    }

    /// A namespaced resource with all of its fields.
    fn named(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        let group_version =
            GroupVersion { group: group.to_owned().into(), version: version.to_owned().into() };
        Self {
            resource: group_version.with_resource(plural.to_owned()),
            kind: group_version.with_kind(kind.to_owned()),
            metadata_only: false,
            cluster_scoped: false,
        }
    }

    /// Only the metadata of the objects: the server leaves the rest out.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The `kind` of the objects on the wire.
    pub(super) fn wire_kind(&self) -> &str {
        if self.metadata_only { "PartialObjectMetadata" } else { &self.kind.kind }
    }
}
