//! [`Resource`]: everything the server knows about one resource of one group and version.
//!
//! In kube-apiserver this is a REST storage object per resource with its strategy; here it is a value with the same
//! fields for built-in and custom kinds, shared by reference and never changed: another definition makes another
//! `Resource`. All versions of a kind share one collection, since they share storage keys; [`Resource::present`] and
//! the conversion webhook show stored objects in the version of this resource.
//!
//! Finding a resource by its path is `served.rs`; how objects are written is [`super::strategy`]; custom resources
//! are made in [`super::custom`].

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use listwatch_custom::DefinitionVersion;
use listwatch_kinds::Kind;
use listwatch_wire::{Revision, json};

use crate::cache::{CachedObject, Collection, FieldLookup};
use crate::registry::custom::Conversion;
use crate::registry::strategy::{Builtin, Strategy};

/// One resource of one group and version.
///
/// Built-in ones are made from the table in `listwatch_kinds`, custom ones from their definitions. Both are only data,
/// and everything that reads them treats them alike.
///
/// Immutable after it was published, except for the admission plugins, which are found out at the first write.
#[doc(alias = "APIResource")]
#[doc(alias = "RESTStorage")]
#[doc(alias = "genericregistry.Store")]
#[derive(Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Version inside the group.
    pub version: Arc<str>,
    /// Kind of one object.
    pub kind: Arc<str>,
    /// Kind of a list of them.
    pub list_kind: Arc<str>,
    /// Name in paths.
    pub plural: Arc<str>,
    /// Singular name, for clients.
    pub singular: Arc<str>,
    /// Short names, for clients.
    pub short_names: Vec<Arc<str>>,
    /// Categories, for clients.
    pub categories: Vec<Arc<str>>,
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// The verbs of the resource.
    pub verbs: Vec<Arc<str>>,
    /// Its subresources.
    pub subresources: Vec<SubresourceInfo>,
    /// Fields that selectors may name, besides `metadata.name` and `metadata.namespace`.
    pub fields: Vec<FieldLookup>,
    /// The table entry, for built-in kinds; `None` for custom ones.
    pub builtin: Option<&'static Kind>,
    /// The version in its definition, for custom kinds; `None` for built-in ones.
    pub custom: Option<Arc<DefinitionVersion>>,
    /// The strategy of its writes.
    pub(crate) rules: Arc<dyn Strategy>,
    /// Group and version its objects are stored in.
    pub stored_as: (Arc<str>, Arc<str>),
    /// The collection of its objects, shared by all versions of the kind.
    pub collection: Arc<Collection>,
    /// The conversion from stored objects to this version; `None` if they are shown as they are stored.
    pub present: Option<Presenter>,
    /// The webhook that converts between versions, for custom kinds that have one; then it shows objects, not `present`.
    pub(crate) conversion: Option<Conversion>,
    /// The revision of the definition; zero for built-in kinds.
    ///
    /// Objects written before it may lack defaults of the present schema and are completed when they are shown.
    pub(crate) since: Revision,
    /// The admission plugins that may act on its objects, one bit each by their order in the chain.
    ///
    /// At most 64 plugins therefore. A resource that no plugin is interested in skips the chain.
    pub(crate) admission: OnceLock<u64>,
    /// `{"kind":"K","apiVersion":"V",`: what its objects begin with on the wire.
    pub(crate) type_prefix: Bytes,
}

/// Turns the stored bytes of an object into those that a version shows, both without resourceVersion. It runs for
/// each object of a list or watch, so it must be cheap when nothing changes: `None` means that the stored bytes are
/// sent as they are.
#[derive(Clone)]
pub struct Presenter(Arc<Present>);

/// Changes the bytes of an object on their way out.
type Present = dyn Fn(&CachedObject) -> Option<Bytes> + Send + Sync;

impl Presenter {
    /// `None` from the function leaves the object as it is.
    pub fn new(present: impl Fn(&CachedObject) -> Option<Bytes> + Send + Sync + 'static) -> Self {
        Self(Arc::new(present))
    }

    /// Converts objects of a built-in kind that is stored in another version.
    fn converting(kind: &'static Kind) -> Self {
        Self::new(move |object| {
            let mut value = listwatch_wire::json::Value::read(object.stored()).ok()?;
            listwatch_kinds::convert::from_stored(kind, &mut value);
            Some(listwatch_wire::json::encode_stored(&value).into())
        })
    }
}

impl std::fmt::Debug for Presenter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Presenter")
    }
}

/// A subresource of a resource, as discovery lists it. `scale` and `eviction` have kinds of their own, `status` has
/// that of its parent.
#[derive(Clone, Debug)]
pub struct SubresourceInfo {
    /// The last path segment.
    pub name: Arc<str>,
    /// API group of the subresource's request and response type. Empty, together with the version, if it is the
    /// parent's.
    pub group: Arc<str>,
    /// Version of the subresource's request and response type.
    pub version: Arc<str>,
    /// Kind of the subresource's request and response.
    pub kind: Arc<str>,
    /// The verbs of the subresource.
    pub verbs: Vec<Arc<str>>,
}

impl Resource {
    /// The resource of a built-in kind.
    #[must_use]
    pub fn builtin(kind: &'static Kind, collection: Arc<Collection>) -> Self {
        let texts = |list: &[&str]| list.iter().map(|t| Arc::from(*t)).collect();
        Self {
            group: kind.group.into(),
            version: kind.version.into(),
            kind: kind.kind.into(),
            list_kind: kind.list_kind().into(),
            plural: kind.plural.into(),
            singular: kind.singular.into(),
            short_names: texts(kind.short_names),
            categories: texts(kind.categories),
            namespaced: kind.is_namespaced(),
            verbs: texts(kind.verbs),
            subresources: kind.subresources.iter().map(SubresourceInfo::from).collect(),
            fields: kind.selectable_fields.iter().map(FieldLookup::from).collect(),
            builtin: Some(kind),
            custom: None,
            rules: Arc::new(Builtin::new(kind)),
            stored_as: kind.stored_as.map_or((kind.group.into(), kind.version.into()), |(group, version)| {
                (group.into(), version.into())
            }),
            collection,
            present: kind.stored_as.map(|_| Presenter::converting(kind)),
            conversion: None,
            since: Revision::ZERO,
            admission: OnceLock::new(),
            type_prefix: type_prefix(kind.kind, &kind.api_version()),
        }
    }

    /// The `apiVersion` of its objects: `v1`, or `group/version` outside of the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns true if a stored object, written again without a change, may be stored in another form: it is older than
    /// the definition of its kind, or of another version than that which is stored.
    pub(crate) fn may_restore(&self, revision: Revision, stored: &[u8]) -> bool {
        let (group, version) = &self.stored_as;
        let is_current = || {
            let now = format!("\"{group}/{version}\"");
            json::raw::lookup(stored, &["apiVersion"]) == Some(now.as_bytes())
        };
        self.custom.is_some() && (revision < self.since || !is_current())
    }

    /// Returns true if discovery lists the verb.
    #[must_use]
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| &**v == verb)
    }

    /// Returns the subresource with this name, if discovery lists it.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&SubresourceInfo> {
        self.subresources.iter().find(|s| &*s.name == name)
    }

    /// Returns the group of the form that is stored, which some errors of kube-apiserver name: core for all Events.
    #[must_use]
    pub(crate) fn stored_group(&self) -> &str {
        self.builtin.and_then(|kind| kind.stored_as).map_or(&*self.group, |(group, _)| group)
    }

    /// Returns the text of the `Warning` header that every response about a deprecated version has.
    #[must_use]
    pub fn deprecation(&self) -> Option<&str> {
        match (self.builtin, &self.custom) {
            (Some(kind), _) => listwatch_kinds::warnings::deprecated_kind(kind),
            (None, Some(version)) => version.deprecation.as_deref(),
            (None, None) => None,
        }
    }

    /// Returns true for resources of a CustomResourceDefinition. Many paths and messages of kube-apiserver differ for
    /// them.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.builtin.is_none()
    }

    /// Returns the object as this version shows it: borrowed if the stored form is that form, which is the common
    /// case.
    ///
    /// Parses and encodes an object only if the version differs or the definition is newer than the object.
    #[must_use]
    pub fn present<'a>(&self, object: &'a Arc<CachedObject>) -> Cow<'a, Arc<CachedObject>> {
        let shown = self.present.as_ref().and_then(|presenter| presenter.0(object));
        let shown = shown.and_then(|value| self.collection.object(object.key(), value, object.revision()));
        shown.map_or(Cow::Borrowed(object), Cow::Owned)
    }

    /// The storage key of one object. Cluster-scoped resources take no namespace.
    ///
    /// Allocates the text of the key; requests do it once.
    #[must_use]
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Arc<str> {
        self.collection.key(namespace.filter(|_| self.namespaced), name)
    }
}

/// The first bytes of objects of a kind.
#[must_use]
pub(crate) fn type_prefix(kind: &str, api_version: &str) -> Bytes {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").into()
}

impl From<&listwatch_kinds::Subresource> for SubresourceInfo {
    fn from(from: &listwatch_kinds::Subresource) -> Self {
        Self {
            name: from.name.into(),
            group: from.group.into(),
            version: from.version.into(),
            kind: from.kind.into(),
            verbs: from.verbs.iter().map(|v| Arc::from(*v)).collect(),
        }
    }
}

impl From<&listwatch_kinds::SelectableField> for FieldLookup {
    fn from(from: &listwatch_kinds::SelectableField) -> Self {
        Self {
            label: from.label.into(),
            path: from.path.into(),
            fallback: from.fallback.map(Arc::from),
            absent: from.absent.into(),
        }
    }
}
