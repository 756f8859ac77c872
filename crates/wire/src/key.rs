//! [`ObjectKey`]: namespace and name, the key of an object within one resource.
//!
//! It is the key of caches and work queues, so it is small and cheap to clone. It does not contain the resource,
//! because a cache holds one resource only. An object that was deleted and created again has the same key and another
//! uid.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// The namespace and name of an object; the namespace is empty for cluster-scoped kinds.
///
/// One shared allocation, so that queues, indexes and caches can all hold the key for the price of a pointer. Keys
/// sort by namespace and then name, which is the order of lists.
///
/// ```
/// use listwatch_wire::ObjectKey;
///
/// let key = ObjectKey::namespaced("default", "web");
/// assert_eq!((key.namespace(), key.name(), key.as_str()), ("default", "web", "default/web"));
/// assert_eq!("default/web".parse(), Ok(key));
/// assert_eq!(ObjectKey::cluster("node-1").to_string(), "node-1");
/// ```
#[derive(Clone)]
#[doc(alias = "NamespacedName")]
#[doc(alias = "ObjectRef")]
#[doc(alias = "MetaNamespaceKeyFunc")]
pub struct ObjectKey {
    text: Arc<str>,
    /// The offset of the name: zero for cluster-scoped objects, else just behind the slash.
    name_at: u32,
}

impl ObjectKey {
    /// The key of an object in a namespace; with an empty namespace that of [`ObjectKey::cluster`].
    ///
    /// An empty namespace makes a key of a cluster-wide object.
    ///
    /// ```
    /// use listwatch_wire::ObjectKey;
    ///
    /// let key = ObjectKey::namespaced("default", "web");
    /// assert_eq!((key.namespace(), key.name(), key.as_str()), ("default", "web", "default/web"));
    /// assert_eq!(ObjectKey::namespaced("", "node-1"), ObjectKey::cluster("node-1"));
    /// ```
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Self { text: text.into(), name_at: u32::try_from(namespace.len() + 1).unwrap_or(0) }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self { text: name.into(), name_at: 0 }
    }

    /// The namespace, empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text.get(..(self.name_at as usize).saturating_sub(1)).unwrap_or_default()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.get(self.name_at as usize..).unwrap_or_default()
    }

    /// `namespace/name`, or `name` alone.
    ///
    /// The form that client-go calls MetaNamespaceKeyFunc.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for ObjectKey {
    type Err = Infallible;

    /// Splits at the first slash. Every text is a key: names never hold slashes, so there is nothing to refuse.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.split_once('/').map_or_else(|| Self::cluster(text), |(ns, name)| Self::namespaced(ns, name)))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.name_at == other.name_at && self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_namespace_first() {
        // As plain text "a-b/x" comes before "a/x", since '-' is less than '/'.
        let mut keys =
            [ObjectKey::namespaced("a-b", "x"), ObjectKey::namespaced("a", "z"), ObjectKey::cluster("y")];
        keys.sort();
        assert_eq!(keys.map(|k| k.to_string()), ["y", "a/z", "a-b/x"]);
    }
}
