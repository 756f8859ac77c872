//! [`Filter`]: the namespace, name and selectors of a list or watch, compiled once per request.
//!
//! Watches with equal filters share a [`super::View`], so that a change is matched once, however many watchers there
//! are. Conditions on namespace and name become a range of storage keys rather than a test of every object.
//!
//! Parsing of selectors is in `listwatch_wire::selector`; the fields that may be selected are in `registry/`.

use std::fmt::Write as _;
use std::sync::Arc;

use listwatch_wire::selector::{FieldSelector, LabelSelector};

use crate::cache::object::Object;

/// A selectable field of a kind: its name in selectors and where its value is in stored objects.
#[derive(Clone, Debug)]
pub struct FieldLookup {
    /// The name in the selector.
    pub label: Arc<str>,
    /// The path of the value in stored objects, with dots between field names.
    pub path: Arc<str>,
    /// The path to use if the value at `path` is absent or empty.
    pub fallback: Option<Arc<str>>,
    /// The value of an absent field as selectors see it.
    pub absent: Arc<str>,
}

/// The objects of a collection that a list or watch selects. Compiled once per request; watches with equal filters
/// share one [`super::View`].
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<Arc<str>>,
    /// Only this name.
    pub name: Option<Arc<str>>,
    /// The label selector; empty if there is none.
    labels: LabelSelector,
    /// The field selector, including conditions that also became part of the key range.
    fields: FieldSelector,
    /// The paths of the fields named in the selector.
    lookups: Vec<FieldLookup>,
    /// True if objects have no namespace, so that a name alone is a key.
    cluster_scoped: bool,
}

impl Filter {
    /// Compiles selectors. Exact conditions on name and namespace become a range of keys; `known` has the selectable
    /// fields of the kind.
    #[must_use]
    pub fn new(
        namespace: Option<&str>,
        labels: LabelSelector,
        fields: FieldSelector,
        known: &[FieldLookup],
    ) -> Self {
        let exact_namespace = fields.exact("metadata.namespace").filter(|n| !n.is_empty());
        let lookups = known.iter().filter(|k| fields.terms().iter().any(|t| t.field == *k.label)).cloned();
        Self {
            namespace: namespace.or(exact_namespace).map(Arc::from),
            name: fields.exact("metadata.name").map(Arc::from),
            lookups: lookups.collect(),
            labels,
            fields,
            cluster_scoped: false,
        }
    }

    /// Marks the filter as one of cluster-scoped objects, whose storage keys have no namespace: then a name alone is
    /// a key.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.cluster_scoped = true;
        self.namespace = None;
        self
    }

    /// `namespace/name` or `name`, if the filter leaves room for one object only.
    #[must_use]
    pub fn single(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        match self.namespace.as_deref() {
            Some(namespace) => Some(format!("{namespace}/{name}")),
            None => self.cluster_scoped.then(|| name.to_owned()),
        }
    }

    /// Restricts the filter to one name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns true if a selector is set: then the rest of a list cannot be counted without reading it.
    #[must_use]
    pub fn has_selector(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The value a selectable field must have exactly.
    #[must_use]
    pub fn exact_field(&self, label: &str) -> Option<&str> {
        self.fields.exact(label)
    }

    /// Returns true if the object matches.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.in_scope(object)
            && (self.labels.is_empty() || self.labels.matches(|key| object.label(key)))
            && (self.fields.is_empty() || self.fields.matches(|field| self.field(object, field)))
    }

    fn in_scope(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|n| n == object.namespace())
            && self.name.as_deref().is_none_or(|n| n == object.name())
    }

    /// The value that a field selector compares: never absent for a selectable field, as in kube-apiserver, where an
    /// absent field is its zero value.
    fn field<'a>(&'a self, object: &'a Object, label: &str) -> Option<&'a str> {
        match label {
            "metadata.name" => Some(object.name()),
            "metadata.namespace" => Some(object.namespace()),
            _ => {
                let field = self.lookups.iter().find(|f| &*f.label == label)?;
                let value = object.field(&field.path).filter(|v| !v.is_empty());
                let other = || field.fallback.as_deref().and_then(|path| object.field(path));
                Some(value.or_else(other).unwrap_or(&field.absent))
            }
        }
    }

    /// Returns a text that is equal for filters that select the same objects the same way; watches with equal
    /// identities share a view.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut identity = String::new();
        let parts = [self.namespace.as_deref(), self.name.as_deref()];
        parts.iter().for_each(|part| {
            identity.push_str(part.unwrap_or("*"));
            identity.push('\0');
        });
        let _ = write!(identity, "{}\0{}", self.labels, self.fields);
        // Two versions of a kind may find the same field in different places.
        for lookup in &self.lookups {
            let _ = write!(identity, "\0{}", lookup.path);
        }
        identity
    }

    /// The selectors in the form of a query, for people.
    #[must_use]
    pub fn describe(&self) -> (String, String) {
        (self.labels.to_string(), self.fields.to_string())
    }
}
