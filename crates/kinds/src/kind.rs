//! [`Kind`]: one built-in kind as a row of data.
//!
//! A [`Kind`] says everything about a resource that the write path, discovery and routing need to know, and nothing about the
//! fields of its objects: those are in the schema table ([`crate::schema`]). The rows themselves stand in [`crate::table`]; their last
//! entry is the [`KindStrategy`].

use crate::strategy::KindStrategy;

/// The place of the objects of a kind: in namespaces, or in the whole cluster.
///
/// It decides the paths of a resource and its keys in the store, and never changes for a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
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
    /// Objects can be stored. Reviews and bindings are answered and forgotten.
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
    /// Group of the object it speaks; empty together with `version` when that is the parent's.
    pub group: &'static str,
    /// Version of the object it speaks; empty when it is the parent's.
    pub version: &'static str,
    /// Kind of the object it speaks.
    pub kind: &'static str,
    /// Verbs in the order of discovery.
    pub verbs: &'static [&'static str],
}

/// A field that field selectors may name.
///
/// Selectors are compared with values of stored bytes, so a field costs nothing until somebody selects by it.
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
    pub scope: Scope,
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
    /// A namespaced kind with the rules most kinds share: all verbs, unconditional update, subdomain names.
    pub(crate) const fn namespaced(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self::new(group, kind, [plural, singular], Scope::Namespaced)
    }

    /// A cluster-scoped kind with the rules most kinds share.
    pub(crate) const fn cluster(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self::new(group, kind, [plural, singular], Scope::Cluster)
    }

    const fn new(
        group: &'static str,
        kind: &'static str,
        [plural, singular]: [&'static str; 2],
        scope: Scope,
    ) -> Self {
        Self {
            group,
            version: "v1",
            kind,
            plural,
            singular,
            short_names: &[],
            categories: &[],
            scope,
            verbs: ALL_VERBS,
            subresources: &[],
            flags: Flags {
                unconditional_update: true,
                create_on_update: false,
                graceful_deletion: false,
                returns_deleted_object: false,
                generation: false,
                stored: true,
            },
            name_rule: NameRule::Subdomain,
            selectable_fields: &[],
            stored_as: None,
            strategy: KindStrategy::PLAIN,
        }
    }

    /// Functions of the kind. The default has what most kinds have.
    pub(crate) const fn strategy(mut self, strategy: KindStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Another version than `v1`.
    pub(crate) const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Short names, such as `po`, that kubectl takes.
    pub(crate) const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    /// Groups of kinds that kubectl takes as one, such as `all`.
    pub(crate) const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    /// Fewer or other verbs than all.
    pub(crate) const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }

    /// A resource that answers a question and stores nothing.
    pub(crate) const fn virtual_review(mut self) -> Self {
        self.verbs = CREATE_ONLY;
        self.flags.stored = false;
        self
    }

    pub(crate) const fn sub(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    /// Fields that a field selector may name besides name and namespace.
    pub(crate) const fn fields(mut self, fields: &'static [SelectableField]) -> Self {
        self.selectable_fields = fields;
        self
    }

    /// Another form of names than a subdomain.
    pub(crate) const fn names(mut self, rule: NameRule) -> Self {
        self.name_rule = rule;
        self
    }

    /// A PUT without a resourceVersion is refused.
    pub(crate) const fn conditional_update(mut self) -> Self {
        self.flags.unconditional_update = false;
        self
    }

    /// A PUT creates what is not there.
    pub(crate) const fn create_on_update(mut self) -> Self {
        self.flags.create_on_update = true;
        self
    }

    /// Deletion waits for a grace period, as for Pods.
    pub(crate) const fn graceful(mut self) -> Self {
        self.flags.graceful_deletion = true;
        self
    }

    /// The answer to a deletion is the object and no Status.
    pub(crate) const fn returns_deleted(mut self) -> Self {
        self.flags.returns_deleted_object = true;
        self
    }

    /// `metadata.generation` counts changes of the spec.
    pub(crate) const fn generation(mut self) -> Self {
        self.flags.generation = true;
        self
    }

    /// Objects of this version are stored in another, and converted on the way.
    pub(crate) const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        self.stored_as = Some((group, version));
        self
    }

    /// True for kinds whose objects live in namespaces.
    #[must_use]
    pub const fn is_namespaced(&self) -> bool {
        matches!(self.scope, Scope::Namespaced)
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

impl Subresource {
    /// A view of the object itself: `status` and its like.
    pub(crate) const fn view(name: &'static str, kind: &'static str) -> Self {
        Self { name, group: "", version: "", kind, verbs: VIEW_VERBS }
    }

    /// The `status` of a kind.
    pub(crate) const fn status(kind: &'static str) -> Self {
        Self::view("status", kind)
    }

    /// The `scale` of a kind.
    pub(crate) const fn scale() -> Self {
        Self { name: "scale", group: "autoscaling", version: "v1", kind: "Scale", verbs: VIEW_VERBS }
    }

    /// An object of another kind with its own verbs.
    pub(crate) const fn other(
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, group: "", version: "", kind, verbs }
    }

    /// The same with the object's own group and version.
    pub(crate) const fn of(mut self, group: &'static str, version: &'static str) -> Self {
        self.group = group;
        self.version = version;
        self
    }
}

impl SelectableField {
    /// A text field selected by its own path.
    pub(crate) const fn text(path: &'static str) -> Self {
        Self { label: path, path, fallback: None, absent: "" }
    }

    /// The same under another name.
    pub(crate) const fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// The value of an absent field.
    pub(crate) const fn absent(mut self, absent: &'static str) -> Self {
        self.absent = absent;
        self
    }

    /// Adds a path to look at when the first one is empty.
    pub(crate) const fn or(mut self, path: &'static str) -> Self {
        self.fallback = Some(path);
        self
    }
}
