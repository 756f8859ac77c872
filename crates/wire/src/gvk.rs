//! Names of types and paths: [`GroupVersion`], [`GroupVersionKind`] and [`GroupVersionResource`].
//!
//! Objects name a kind (`Deployment`), URLs a resource (`deployments`). The mapping between them is not a rule of grammar:
//! the registry of a server or discovery has it (client-go's `RESTMapper`). The core group is the empty string and has
//! its own URL root, `/api`. `Display` is the form of kube-apiserver's error texts, which clients match on.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A group and a version, written `v1` for the core group and `apps/v1` for the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
}

/// An `apiVersion` with more than one slash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseGroupVersionError(pub String);

impl GroupVersion {
    /// A group and version known at compile time.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version) }
    }

    /// As written in an object's `apiVersion`.
    ///
    /// ```
    /// use listwatch_wire::gvk::GroupVersion;
    /// assert_eq!(GroupVersion::new("", "v1").api_version(), "v1");
    /// assert_eq!("apps/v1".parse(), Ok(GroupVersion::new("apps", "v1")));
    /// ```
    #[must_use]
    pub fn api_version(&self) -> Cow<'_, str> {
        if self.group.is_empty() {
            Cow::Borrowed(&self.version)
        } else {
            Cow::Owned(format!("{}/{}", self.group, self.version))
        }
    }

    /// This group and version with a kind.
    #[must_use]
    pub fn with_kind(&self, kind: impl Into<Cow<'static, str>>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// This group and version with a resource.
    #[must_use]
    pub fn with_resource(&self, resource: impl Into<Cow<'static, str>>) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.contains('/') {
            return Err(ParseGroupVersionError(text.to_owned()));
        }
        Ok(Self { group: group.to_owned().into(), version: version.to_owned().into() })
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.api_version())
    }
}

/// Group, version and kind: the type of an object, as its `apiVersion` and `kind` name it.
///
/// ```
/// use listwatch_wire::gvk::GroupVersionKind;
///
/// let deployment = GroupVersionKind::new("apps", "v1", "Deployment");
/// assert_eq!(deployment.api_version(), "apps/v1");
/// assert_eq!(deployment.to_string(), "apps/v1, Kind=Deployment");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "GVK")]
pub struct GroupVersionKind {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The kind, for example `ConfigMap`.
    pub kind: Cow<'static, str>,
}

impl GroupVersionKind {
    /// A kind known at compile time.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) }
    }

    /// The group and version alone.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// As written in an object's `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.group_version().api_version().into_owned()
    }
}

/// The form of kube-apiserver's error texts: `apps/v1, Kind=Deployment`, with a slash even for the core group.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Group, version and resource: the URL path under which objects are served.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "GVR")]
pub struct GroupVersionResource {
    /// The group; empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The plural, for example `configmaps`.
    pub resource: Cow<'static, str>,
}

impl GroupVersionResource {
    /// A resource known at compile time.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, resource: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            resource: Cow::Borrowed(resource),
        }
    }

    /// The group and version alone.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// The URL path of the collection: `/api/v1/…` or `/apis/group/version/…`, in a namespace if one is given.
    ///
    /// ```
    /// use listwatch_wire::gvk::GroupVersionResource;
    /// let pods = GroupVersionResource::new("", "v1", "pods");
    /// assert_eq!(pods.path(Some("default")), "/api/v1/namespaces/default/pods");
    /// let nodes = GroupVersionResource::new("apps", "v1", "deployments");
    /// assert_eq!(nodes.path(None), "/apis/apps/v1/deployments");
    /// ```
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let scope = namespace.map(|ns| format!("namespaces/{ns}/")).unwrap_or_default();
        format!("{root}/{}/{scope}{}", self.group_version(), self.resource)
    }
}

/// The form of kube-apiserver's error texts: `apps/v1, Resource=deployments`.
impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// Orders two versions by preference: stable before beta before alpha, then the higher number; names of another form
/// come last. The preferred one is the greater. apimachinery calls it `CompareKubeAwareVersionStrings`.
///
/// ```
/// use listwatch_wire::gvk::version_order;
/// let mut versions = ["v1beta1", "foo1", "v2", "v10", "v1beta2", "v3alpha1"];
/// versions.sort_by(|a, b| version_order(b, a));
/// assert_eq!(versions, ["v10", "v2", "v1beta2", "v1beta1", "v3alpha1", "foo1"]);
/// ```
#[must_use]
#[doc(alias = "CompareKubeAwareVersionStrings")]
pub fn version_order(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, None) => b.cmp(a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Maturity, major and minor number of `v1`, `v1beta2` and the like.
fn rank(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let (maturity, minor) = match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
        (Some(minor), _) => (0, minor),
        (_, Some(minor)) => (1, minor),
        _ if rest.is_empty() => (2, "1"),
        _ => return None,
    };
    let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with(['0', '+']));
    Some((maturity, number(major)?, if minor.is_empty() { 0 } else { number(minor)? }))
}
