//! Finalizers: cleaning up before an object is removed.
//!
//! [`Controller::finalizer`](super::Controller::finalizer) adds the finalizer to an object before it is first
//! reconciled, runs the clean-up once its `deletionTimestamp` is set, and removes the finalizer when the clean-up has
//! succeeded. It writes through [`Finalizers`]: to a Kubernetes API server with [`KubeFinalizers`], to an [`InMemory`]
//! collection in a test.

use std::fmt;

use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::json;

use crate::lister_watcher::InMemory;
use crate::object::{Object, Raw};

/// The reason that finalizers were not written. The object is reconciled again later, with the delay of an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The object has changed since it was read.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// Any other failure, with the text of its cause.
    #[error("cannot write the finalizers: {0}")]
    Failed(String),
}

/// Writes the finalizers of objects.
///
/// It is a trait so that a controller can be tested without a server. A write must be conditional on the version that
/// was read: two controllers that each add their own finalizer would otherwise remove each other's.
#[async_trait::async_trait]
pub trait Finalizers: Send + Sync + 'static {
    /// Replaces the finalizers of an object, if it is still the version that was read. It is not an error if the object no
    /// longer exists.
    ///
    /// # Errors
    /// See [`FinalizerError`].
    async fn write(&self, object: &Object<Raw>, finalizers: Vec<String>) -> Result<(), FinalizerError>;
}

/// Writes finalizers to a Kubernetes API server, by a merge patch of the metadata that carries the resourceVersion.
/// Needs the verb `patch` on the resource.
#[derive(Clone)]
pub struct KubeFinalizers {
    client: Client,
    resource: ApiResource,
}

impl fmt::Debug for KubeFinalizers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KubeFinalizers").field(&self.resource.plural).finish()
    }
}

impl KubeFinalizers {
    /// Writes finalizers of a statically typed resource.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>(client: Client) -> Self {
        Self { client, resource: ApiResource::erase::<K>(&()) }
    }

    /// Writes finalizers of a kind that is known at run time only.
    #[must_use]
    pub fn dynamic(client: Client, resource: ApiResource) -> Self {
        Self { client, resource }
    }
}

#[async_trait::async_trait]
impl Finalizers for KubeFinalizers {
    async fn write(&self, object: &Object<Raw>, finalizers: Vec<String>) -> Result<(), FinalizerError> {
        let (client, resource) = (self.client.clone(), &self.resource);
        let api: Api<DynamicObject> = match object.namespace() {
            "" => Api::all_with(client, resource),
            namespace => Api::namespaced_with(client, namespace, resource),
        };
        // The version makes it a write to what was read: a merge patch that names one is refused if it is not the last.
        let patch = json!({"metadata": {
            "resourceVersion": object.revision().to_string(), "uid": object.uid(), "finalizers": finalizers,
        }});
        let written = api.patch_metadata(object.name(), &PatchParams::default(), &Patch::Merge(patch)).await;
        match written {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Err(FinalizerError::Conflict),
            Err(error) => Err(FinalizerError::Failed(error.to_string())),
        }
    }
}

#[async_trait::async_trait]
impl Finalizers for InMemory {
    async fn write(&self, object: &Object<Raw>, finalizers: Vec<String>) -> Result<(), FinalizerError> {
        let Some(now) = self.get(object.key()) else { return Ok(()) };
        if !now.same_version(object) {
            return Err(FinalizerError::Conflict);
        }
        if finalizers.is_empty() && now.is_deleting() {
            self.delete(object.key());
            return Ok(());
        }
        let failed = |error: &dyn fmt::Display| FinalizerError::Failed(error.to_string());
        let mut value: serde_json::Value =
            serde_json::from_slice(now.json()).map_err(|error| failed(&error))?;
        if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        self.put(&value).map(|_| ()).map_err(|error| failed(&error))
    }
}
