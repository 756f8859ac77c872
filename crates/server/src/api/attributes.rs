//! [`Attributes`]: a write request as admission plugins see it. kube-apiserver's `admission.Attributes`.
//!
//! Borrowed, copied and made per attempt of a write. The object is not part of it: mutating plugins get it as `&mut`
//! beside it, so that the borrow checker keeps validating plugins from changing it. Lookups ([`Attributes::find`],
//! [`Attributes::list`]) read the watch cache, which may be a moment behind; a plugin that must not miss a write just
//! made waits with [`Api::wait_for`] first. Made by [`crate::pipeline`], called through [`super::Chain`].

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::{DeleteOptions, WriteOptions};
use listwatch_wire::{Revision, Status};

use super::AdmissionRecord;
use crate::api::Api;
use crate::auth::User;
use crate::cache::{CachedObject, Filter};
use crate::registry::Resource;

/// The operation that is admitted, as webhook rules name it. A patch is an update, and an apply of a new object a
/// create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The name in rules and reviews.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The options of the request, which webhooks and policies see as `CreateOptions`, `UpdateOptions`, `PatchOptions` or
/// `DeleteOptions`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestOptions<'a> {
    Create(&'a WriteOptions),
    Update(&'a WriteOptions),
    Patch(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    None,
}

impl RequestOptions<'_> {
    /// Returns true if nothing may be written.
    ///
    /// Nothing is stored, and plugins must have no side effects.
    pub(crate) fn is_dry_run(self) -> bool {
        match self {
            Self::Create(options) | Self::Update(options) | Self::Patch(options) => options.is_dry_run(),
            Self::Delete(options) => options.is_dry_run(),
            Self::None => false,
        }
    }

    /// Returns the options as an object of `meta.k8s.io/v1`, or null. Those of a patch are shown as those of the create or
    /// update that it is.
    pub(crate) fn document(self, operation: Operation) -> Value {
        let (kind, options) = match self {
            Self::Patch(options) | Self::Update(options) if operation == Operation::Create => {
                ("CreateOptions", options)
            }
            Self::Create(options) => ("CreateOptions", options),
            Self::Update(options) | Self::Patch(options) => ("UpdateOptions", options),
            Self::Delete(options) => return delete_options(options),
            Self::None => return Value::Null,
        };
        let mut document = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if options.is_dry_run() {
            document.put("dryRun", options.dry_run.clone());
        }
        for (key, text) in
            [("fieldManager", &options.field_manager), ("fieldValidation", &options.field_validation)]
        {
            if !text.is_empty() {
                document.put(key, text.as_str());
            }
        }
        document
    }
}

/// The options of a deletion as plugins and webhooks see them: a DeleteOptions object.
fn delete_options(options: &DeleteOptions) -> Value {
    let text = serde_json::to_vec(options).unwrap_or_default();
    let mut document = Value::read(&text).unwrap_or_default();
    document.put("kind", "DeleteOptions");
    document.put("apiVersion", "meta.k8s.io/v1");
    document
}

/// A request as admission plugins see it; the new object is passed beside it, because plugins may change it.
#[doc(alias = "admission.Attributes")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) api: &'a Api,
    pub(crate) operation: Operation,
    pub(crate) resource: &'a Resource,
    /// Empty for the resource itself.
    pub(crate) subresource: &'a str,
    /// Empty for cluster-scoped resources.
    pub(crate) namespace: &'a str,
    /// Empty if the name is still to be generated.
    pub(crate) name: &'a str,
    pub(crate) user: &'a User,
    pub(crate) options: RequestOptions<'a>,
    /// The stored object of an update or a deletion.
    pub(crate) old: Option<&'a Value>,
    /// The version of `old`, which is stored without it.
    pub(crate) old_version: Option<Revision>,
    pub(crate) record: &'a AdmissionRecord,
}

impl<'a> Attributes<'a> {
    /// Returns true for requests about this resource, in any version.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        &*self.resource.group == group && &*self.resource.plural == plural
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.options.is_dry_run()
    }

    /// 403 about the object, as kube-apiserver's plugins word it.
    pub(crate) fn forbidden(&self, object: &Value, why: &str) -> Status {
        let meta = object.at("metadata");
        let name = [meta.text("name"), meta.text("generateName"), self.name];
        let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(&self.resource.group, &self.resource.plural, name, why)
    }

    /// Returns an object from the cache in the version asked for; `None` if the cache does not have it.
    pub(crate) fn find(
        &self,
        (group, version, plural): (&str, &str, &str),
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Value> {
        let resource = self.api.registry.find(group, version, plural)?;
        let snapshot = resource.collection.snapshot();
        let found = snapshot.get(&resource.key(namespace, name))?;
        // Many requests read the same few objects: the namespace, its ServiceAccount, the node.
        let mut value = self.api.cache.trees.read(found)?;
        resource.rules.served_form(&mut value);
        Some(value)
    }

    /// Returns the objects of a resource from the cache, of one namespace or of all. It parses each one: for kinds
    /// with few objects.
    pub(crate) fn list(&self, resource: (&str, &str, &str), namespace: Option<&str>) -> Vec<Value> {
        self.list_where(resource, namespace, |_| true)
    }

    /// Returns the objects of a resource from the cache for which `wanted` is true. It sees the stored bytes; the
    /// others are not parsed.
    pub(crate) fn list_where(
        &self,
        (group, version, plural): (&str, &str, &str),
        namespace: Option<&str>,
        wanted: impl Fn(&CachedObject) -> bool,
    ) -> Vec<Value> {
        let Some(resource) = self.api.registry.find(group, version, plural) else { return Vec::new() };
        let snapshot = resource.collection.snapshot();
        if snapshot.is_empty() {
            return Vec::new();
        }
        let mut filter = Filter::default();
        filter.namespace = namespace.map(Into::into);
        let walk = resource.collection.walk(&filter, None);
        let wanted = snapshot.range(&walk).filter(|object| wanted(object));
        wanted.filter_map(|object| read(&resource, object)).collect()
    }

    /// Returns the namespace of the request as the cache has it.
    pub(crate) fn namespace_object(&self) -> Option<Value> {
        if self.namespace.is_empty() {
            return None;
        }
        self.find(("", "v1", "namespaces"), None, self.namespace)
    }
}

/// Reads an object in the form of the resource's version.
fn read(resource: &Resource, object: &Arc<CachedObject>) -> Option<Value> {
    let mut value = Value::read(object.stored()).ok()?;
    resource.rules.served_form(&mut value);
    Some(value)
}
