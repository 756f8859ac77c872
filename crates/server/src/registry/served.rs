//! [`Registry`]: the resources that are served, by group, version and plural.
//!
//! Each request looks its resource up once, so reading takes no lock: a whole new [`Served`] is published when a
//! CustomResourceDefinition changes, and a request keeps the one it has seen. Writers are serialised. The order of
//! `resources` is that of discovery, which kubectl uses to resolve ambiguous names. Groups of extension API servers
//! are kept beside it ([`super::extension`]) because their resources are not known here.
//!
//! Custom resources are published by `lifecycle/definitions.rs`. Indexes of the cache are chosen here, since they
//! must exist before objects are loaded.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use listwatch_kinds::Kind;
use parking_lot::Mutex;

use crate::cache::{Cache, IndexedField};
use crate::registry::extension::ExtensionServers;
use crate::registry::resource::Resource;

/// All resources served now. Reading takes no lock; custom resources are added and removed by publishing another map.
///
/// kube-apiserver builds a mux of handlers per group and version; here a path is looked up as data.
#[doc(alias = "APIGroupInfo")]
#[doc(alias = "crdHandler")]
#[derive(Debug)]
pub struct Registry {
    /// The present state, replaced as a whole.
    served: ArcSwap<Served>,
    /// Groups and versions that extension API servers serve.
    pub(crate) remotes: ExtensionServers,
    /// Group and version of everything that definitions serve. The controller of APIServices receives them from that of
    /// definitions.
    pub(crate) custom_versions: tokio::sync::watch::Sender<BTreeSet<(String, String)>>,
    /// Serialises writers, so that none publishes over another.
    change: Mutex<()>,
}

/// One state of the registry: immutable, shared by the requests that began with it. A request that has begun is
/// answered by the definition that it began with, even if that is deleted in the meantime.
#[derive(Clone, Debug, Default)]
pub struct Served {
    resources: HashMap<ResourcePath, Arc<Resource>, RandomState>,
    /// In the order of discovery.
    order: Vec<Arc<Resource>>,
}

/// Group, version, plural.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ResourcePath(Arc<str>, Arc<str>, Arc<str>);

/// A borrowed [`ResourcePath`], so that a lookup allocates nothing: admission makes a dozen for each write.
#[derive(Hash)]
struct BorrowedPath<'a>(&'a str, &'a str, &'a str);

impl Equivalent<ResourcePath> for BorrowedPath<'_> {
    fn equivalent(&self, path: &ResourcePath) -> bool {
        self.2 == &*path.2 && self.0 == &*path.0 && self.1 == &*path.1
    }
}

impl Registry {
    /// Makes a registry of the built-in kinds, and their collections in the cache. To be called before
    /// [`Cache::start`], so that indexed collections are loaded with their indexes.
    #[must_use]
    pub fn builtin(cache: &Cache) -> Self {
        let mut served = Served::default();
        for kind in listwatch_kinds::all() {
            let collection = cache.collection(&storage_name(kind), &indexes(kind));
            served.insert(Arc::new(Resource::builtin(kind, collection)));
        }
        Self {
            served: ArcSwap::from_pointee(served),
            remotes: ExtensionServers::default(),
            custom_versions: tokio::sync::watch::Sender::default(),
            change: Mutex::default(),
        }
    }

    /// Returns the resource that is served at this group, version and plural; `None` also for those of extension API
    /// servers.
    ///
    /// One hash lookup without a lock and without an allocation.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.served.load().find(group, version, plural)
    }

    /// Returns the resource of a kind. It looks through all resources: for owner references and parameters of
    /// policies, not for every request.
    #[must_use]
    pub(crate) fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let served = self.served.load();
        served
            .order
            .iter()
            .find(|r| &*r.group == group && &*r.version == version && &*r.kind == kind)
            .cloned()
    }

    /// Returns the present state, for callers that must look twice at the same one.
    #[must_use]
    pub fn served(&self) -> Arc<Served> {
        self.served.load_full()
    }

    /// Stops serving the resources for which `gone` holds and serves `added`, also in place of resources with the
    /// same path, in one step: no request sees a state in between.
    ///
    /// Copies the map, some hundred pointers; definitions change rarely.
    pub fn replace(&self, gone: impl Fn(&Resource) -> bool, added: Vec<Arc<Resource>>) {
        let _one_at_a_time = self.change.lock();
        let mut served = Served::clone(&self.served.load());
        served.remove(gone);
        added.into_iter().for_each(|resource| served.insert(resource));
        self.served.store(Arc::new(served));
    }
}

impl Served {
    /// All resources in the order of discovery.
    #[must_use]
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.order
    }

    /// The resource served there.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources.get(&BorrowedPath(group, version, plural)).cloned()
    }

    /// Returns true if anything is served under the group.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.order.iter().any(|r| &*r.group == group)
    }

    /// Returns true if the group has built-in kinds.
    #[must_use]
    pub(crate) fn has_builtin_group(&self, group: &str) -> bool {
        self.order.iter().any(|r| &*r.group == group && !r.is_custom())
    }

    /// Returns true if the group and version has kinds that were not defined at run time.
    #[must_use]
    pub(crate) fn has_builtin_version(&self, group: &str, version: &str) -> bool {
        self.order.iter().any(|r| &*r.group == group && &*r.version == version && !r.is_custom())
    }

    /// Returns true if anything is served under the group and version.
    #[must_use]
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.order.iter().any(|r| &*r.group == group && &*r.version == version)
    }

    /// Adds a resource under its path, its kind and in the order of discovery. A built-in kind keeps its path.
    fn insert(&mut self, resource: Arc<Resource>) {
        let before = self.find(&resource.group, &resource.version, &resource.plural);
        if resource.is_custom() && before.is_some_and(|before| !before.is_custom()) {
            return;
        }
        let part = Arc::<str>::clone;
        let path = ResourcePath(part(&resource.group), part(&resource.version), part(&resource.plural));
        if self.resources.insert(path, Arc::clone(&resource)).is_some() {
            self.order.retain(|r| !same_path(r, &resource));
        }
        self.order.push(resource);
    }

    fn remove(&mut self, gone: impl Fn(&Resource) -> bool) {
        self.resources.retain(|_, resource| !gone(resource));
        self.order.retain(|resource| !gone(resource));
    }
}

/// Returns true if a definition of this name would share paths or stored objects with a built-in kind: it is never
/// served, and its deletion deletes nothing. Otherwise, users who may write definitions could write roles and bindings
/// past every check.
pub(crate) fn is_builtin(definition: &str) -> bool {
    listwatch_kinds::all().iter().any(|kind| {
        storage_name(kind) == definition || definition.split_once('.') == Some((kind.plural, kind.group))
    })
}

/// Two definitions cannot be served at one path.
fn same_path(a: &Resource, b: &Resource) -> bool {
    a.group == b.group && a.version == b.version && a.plural == b.plural
}

/// `plural` or `plural.group`, of the version whose form is stored.
fn storage_name(kind: &Kind) -> String {
    let group = kind.stored_as.map_or(kind.group, |(group, _)| group);
    if group.is_empty() { kind.plural.to_owned() } else { format!("{}.{group}", kind.plural) }
}

/// The fields that are selected most often: every kubelet watches the Pods of its node, and addresses of Services must be
/// unique. An index costs memory for each object, so other fields are matched by a scan.
const INDEXED: &[(&str, &str, &str)] =
    &[("", "pods", "spec.nodeName"), ("", "services", "spec.clusterIP"), ("", "services", "spec.type")];

/// The fields that the watch cache keeps an index of.
fn indexes(kind: &Kind) -> Vec<IndexedField> {
    let wanted = INDEXED.iter().filter(|(group, plural, _)| *group == kind.group && *plural == kind.plural);
    wanted.map(|(_, _, path)| IndexedField { label: (*path).into(), path: (*path).into() }).collect()
}
