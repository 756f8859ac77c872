//! The functions that rows of [`crate::table`] are written with.
//!
//! A row begins with [`Kind::namespaced`] or [`Kind::cluster`], which have what most kinds share, and then names only what is
//! different. All of them are `const`: the table is part of the binary and costs nothing at the start.

use super::{
    ALL_VERBS, CREATE_ONLY, Flags, Kind, NameRule, ResourceScope, SelectableField, Subresource, VIEW_VERBS,
};
use crate::strategy::KindStrategy;

impl Kind {
    /// A namespaced kind with the rules most kinds share: all verbs, unconditional update, subdomain names.
    pub(crate) const fn namespaced(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self::new(group, kind, [plural, singular], ResourceScope::Namespaced)
    }

    /// A cluster-scoped kind with the rules most kinds share.
    pub(crate) const fn cluster(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self::new(group, kind, [plural, singular], ResourceScope::Cluster)
    }

    /// A row with what most kinds share.
    const fn new(
        group: &'static str,
        kind: &'static str,
        [plural, singular]: [&'static str; 2],
        scope: ResourceScope,
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
                rechecks_prefix: false,
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

    /// Subresources, in the order of discovery.
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

    /// The response to a deletion is the object and no Status.
    pub(crate) const fn returns_deleted(mut self) -> Self {
        self.flags.returns_deleted_object = true;
        self
    }

    /// `metadata.generation` counts changes of the spec.
    pub(crate) const fn generation(mut self) -> Self {
        self.flags.generation = true;
        self
    }

    /// Updates check `generateName` again.
    pub(crate) const fn rechecks_prefix(mut self) -> Self {
        self.flags.rechecks_prefix = true;
        self
    }

    /// Objects of this version are stored in another, and converted on the way.
    pub(crate) const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        self.stored_as = Some((group, version));
        self
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

    /// Sets the group and version of the subresource's type, where they are not those of the resource.
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

    /// Sets the name of the selectable field, where it is not its path.
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
