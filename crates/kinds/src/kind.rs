//! [`Kind`]: one built-in kind as a row of data.
//!
//! A [`Kind`] has everything about a resource that the write path, discovery and routing need. The fields of its objects are
//! in the schema table ([`crate::schema`]). The rows are in [`crate::table`]; their last entry is the [`KindStrategy`]. `row`
//! has the functions that rows are written with.

mod row;

use crate::strategy::KindStrategy;

/// The place of the objects of a kind: in namespaces, or in the whole cluster.
///
/// It decides the paths of a resource and its keys in the store, and never changes for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// Inside a namespace.
    Namespaced,
    /// Once per cluster.
    Cluster,
}

/// The validation of the names of a kind.
///
/// A name becomes a path segment of the API and often a label or a host name, hence the stricter forms. The checks
/// are in [`crate::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain of at most 253 characters: almost every kind.
    Subdomain,
    /// As `Subdomain`, without a check of `generateName`: kinds whose names are checked by the rules that Kubernetes declares.
    DeclaredSubdomain,
    /// RFC 1123 label of at most 63 characters.
    Label,
    /// Anything that fits into one path segment (RBAC, API services).
    PathSegment,
    /// An IP address in canonical form.
    IpAddress,
}

/// Everything yes-or-no about the life of an object of a kind.
///
/// Methods of kube-apiserver's `RESTCreateStrategy` and `RESTUpdateStrategy`, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// A PUT without resourceVersion is "last write wins" rather than an error.
    pub unconditional_update: bool,
    /// A PUT to a name that does not exist creates the object.
    ///
    /// `AllowCreateOnUpdate` in kube-apiserver.
    pub create_on_update: bool,
    /// A delete waits for a grace period (pods).
    ///
    /// The first delete sets `deletionTimestamp`, and the kubelet's second one with a period of zero removes the
    /// object.
    pub graceful_deletion: bool,
    /// A delete answers with the object that was deleted rather than with a `Status`.
    pub returns_deleted_object: bool,
    /// `metadata.generation` counts changes of the desired state.
    ///
    /// `KindStrategy` says which changes count.
    pub generation: bool,
    /// An update checks `generateName` like the metadata of a new object.
    pub rechecks_prefix: bool,
    /// Objects can be stored. Reviews and bindings are answered and not stored.
    pub stored: bool,
}

/// One subresource, as discovery shows it.
///
/// A status is a view of the object itself; others, such as `scale` or `eviction`, have a request and response type
/// of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The last path segment.
    pub name: &'static str,
    /// API group of its request and response type; empty, together with `version`, if it is the parent's.
    pub group: &'static str,
    /// API version of that type; empty if it is the parent's.
    pub version: &'static str,
    /// Kind of that type.
    pub kind: &'static str,
    /// Verbs in the order of discovery.
    pub verbs: &'static [&'static str],
}

/// A field that field selectors may name.
///
/// Selectors are compared with values of stored bytes, so a field costs nothing until it is used in a selector.
///
/// ```
/// let pods = listwatch_kinds::by_kind("", "v1", "Pod").unwrap();
/// let node = pods.selectable_fields.iter().find(|field| field.label == "spec.nodeName").unwrap();
/// // An unscheduled Pod is selected by `spec.nodeName=`.
/// assert_eq!((node.path, node.absent), ("spec.nodeName", ""));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in the selector.
    pub label: &'static str,
    /// The path of the value in the object, dots between field names.
    pub path: &'static str,
    /// The path to look at when the first one is empty.
    pub fallback: Option<&'static str>,
    /// The value of an absent field, in the text form selectors compare ("", "false", "0").
    pub absent: &'static str,
}

/// One built-in kind in one version: a row of [`crate::table`].
///
/// Rows are constants: a `&'static Kind` is the identity of a resource everywhere in the server, and comparing names
/// is comparing kinds.
///
/// ```
/// let pods = listwatch_kinds::by_kind("", "v1", "Pod").unwrap();
/// assert_eq!((pods.plural, pods.short_names), ("pods", &["po"][..]));
/// assert!(pods.is_namespaced() && pods.has_status() && pods.flags.graceful_deletion);
/// // A review is answered and not stored.
/// let review = listwatch_kinds::by_kind("authorization.k8s.io", "v1", "SubjectAccessReview").unwrap();
/// assert!(!review.flags.stored);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version inside the group.
    pub version: &'static str,
    /// Kind, as in `kind:`.
    pub kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Singular resource name.
    pub singular: &'static str,
    /// Short names kubectl understands.
    pub short_names: &'static [&'static str],
    /// Categories (`kubectl get all`).
    pub categories: &'static [&'static str],
    /// Namespaced or cluster-wide.
    pub scope: ResourceScope,
    /// Verbs in the order of discovery.
    pub verbs: &'static [&'static str],
    /// Subresources in the order of discovery.
    pub subresources: &'static [Subresource],
    /// Rules of life.
    pub flags: Flags,
    /// Rule for names.
    pub name_rule: NameRule,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub selectable_fields: &'static [SelectableField],
    /// The group and version whose objects are stored when that is another one: two endpoints, one set of objects.
    ///
    /// The other endpoint converts on the way in and out ([`crate::convert`]); there is one object and one
    /// resourceVersion.
    pub stored_as: Option<(&'static str, &'static str)>,
    /// Defaults, preparation, validation and columns.
    pub strategy: KindStrategy,
}

impl PartialEq for Kind {
    /// Kinds are the same if their names are.
    fn eq(&self, other: &Self) -> bool {
        (self.group, self.version, self.kind) == (other.group, other.version, other.kind)
    }
}

impl Eq for Kind {}

/// The verbs of an ordinary resource.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The verbs of a subresource that is a view of its object.
pub const VIEW_VERBS: &[&str] = &["get", "patch", "update"];

/// The verbs of a resource that only answers.
pub const CREATE_ONLY: &[&str] = &["create"];

impl Kind {
    /// True for kinds whose objects live in namespaces.
    #[must_use]
    pub const fn is_namespaced(&self) -> bool {
        matches!(self.scope, ResourceScope::Namespaced)
    }

    /// The kind of its list.
    ///
    /// ```
    /// let pods = listwatch_kinds::by_kind("", "v1", "Pod").unwrap();
    /// assert_eq!(pods.list_kind(), "PodList");
    /// ```
    #[must_use]
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// `v1` or `group/version`.
    ///
    /// ```
    /// let jobs = listwatch_kinds::by_kind("batch", "v1", "Job").unwrap();
    /// assert_eq!(jobs.api_version(), "batch/v1");
    /// assert_eq!(listwatch_kinds::by_kind("", "v1", "Pod").unwrap().api_version(), "v1");
    /// ```
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The subresource of that name.
    ///
    /// ```
    /// let pods = listwatch_kinds::by_kind("", "v1", "Pod").unwrap();
    /// assert!(pods.subresource("eviction").is_some() && pods.subresource("scale").is_none());
    /// ```
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// True if status is written through `/status` only.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// True if discovery lists the verb.
    ///
    /// ```
    /// let nodes = listwatch_kinds::by_kind("", "v1", "Node").unwrap();
    /// assert!(nodes.allows("watch") && !nodes.is_namespaced());
    /// ```
    #[must_use]
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}
