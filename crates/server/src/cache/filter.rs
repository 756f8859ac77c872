//! [`Filter`]: the namespace, name and selectors of a list or watch, compiled once per request.
//!
//! Watches with equal filters share a [`super::View`], so that a change is matched once, however many watchers there
//! are. Conditions on namespace and name become a range of storage keys rather than a test of every object.
//!
//! Parsing of selectors is in `listwatch_wire::selector`; the fields that may be selected are in `registry/`.

use std::fmt::Write as _;
use std::sync::Arc;

use listwatch_wire::selector::{FieldSelector, LabelSelector};

use crate::cache::conditions::{FieldConditions, LabelConditions, NeededLabel};
use crate::cache::object::CachedObject;
use crate::cache::subject::MatchSubject;

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
    /// The label selector, compiled; none if everything is selected.
    labels: Option<Arc<LabelConditions>>,
    /// The field selector, including conditions that also became part of the key range.
    fields: Option<Arc<FieldConditions>>,
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
        Self {
            namespace: namespace.or(exact_namespace).map(Arc::from),
            name: fields.exact("metadata.name").map(Arc::from),
            labels: LabelConditions::new(&labels),
            fields: FieldConditions::new(&fields, known),
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

    /// `namespace/name` or `name`, if the filter can match one object only.
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
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns true if a selector is set: then the rest of a list cannot be counted without reading it.
    #[must_use]
    pub(crate) fn has_selector(&self) -> bool {
        self.labels.is_some() || self.fields.is_some()
    }

    /// The value a selectable field must have exactly.
    #[must_use]
    pub(crate) fn exact_field(&self, label: &str) -> Option<&str> {
        self.fields.as_ref()?.exact(label)
    }

    /// Returns true if the object matches.
    ///
    /// ```
    /// use listwatch_server::cache::{CachedObject, Filter};
    /// use listwatch_wire::Revision;
    /// use listwatch_wire::selector::{FieldSelector, LabelSelector};
    ///
    /// let pod = |name: &str, app: &str| {
    ///     // As it is stored: kind and apiVersion first, the keys of metadata sorted.
    ///     let metadata = format!(r#"{{"labels":{{"app":"{app}"}},"name":"{name}","namespace":"default"}}"#);
    ///     let json = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}"#);
    ///     let prefix = "/registry/pods/";
    ///     CachedObject::new(format!("{prefix}default/{name}").into(), prefix.len(), json.into(), Revision(1))
    /// };
    /// let labels: LabelSelector = "app in (web, api)".parse().unwrap();
    /// let filter = Filter::new(Some("default"), labels, FieldSelector::default(), &[]);
    /// assert!(filter.matches(&pod("a", "web").unwrap()));
    /// assert!(!filter.matches(&pod("b", "db").unwrap()));
    /// ```
    #[must_use]
    pub fn matches(&self, object: &CachedObject) -> bool {
        self.in_scope(object)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(object.labels()))
            && self.fields.as_ref().is_none_or(|fields| fields.matches(object))
    }

    /// Returns true if the object matches, as [`Filter::matches`] does. For an object that many filters look at.
    pub(super) fn selects(&self, subject: &MatchSubject<'_>) -> bool {
        self.in_scope(subject.object)
            && self.labels.as_ref().is_none_or(|labels| labels.matches_sorted(subject.labels()))
            && self.fields.as_ref().is_none_or(|fields| fields.matches_subject(subject))
    }

    /// Namespace and name, which cost a comparison. Selectors are asked after them.
    fn in_scope(&self, object: &CachedObject) -> bool {
        self.namespace.as_deref().is_none_or(|n| n == object.namespace())
            && self.name.as_deref().is_none_or(|n| n == object.name())
    }

    /// The narrowest label that every object has which matches.
    pub(super) fn needed_label(&self) -> Option<NeededLabel<'_>> {
        self.labels.as_ref()?.needed()
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
        let (labels, fields) = self.texts();
        let _ = write!(identity, "{labels}\0{fields}");
        for path in self.fields.iter().flat_map(|fields| fields.paths()) {
            let _ = write!(identity, "\0{path}");
        }
        identity
    }

    /// The selectors in the form of a query, for people.
    #[must_use]
    pub fn describe(&self) -> (String, String) {
        let (labels, fields) = self.texts();
        (labels.to_owned(), fields.to_owned())
    }

    /// Empty for a selector that selects everything.
    fn texts(&self) -> (&str, &str) {
        let labels = self.labels.as_ref().map_or("", |labels| &labels.text);
        (labels, self.fields.as_ref().map_or("", |fields| &fields.text))
    }
}
