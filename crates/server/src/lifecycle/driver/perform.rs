//! [`TaskContext`]: performs one task, at the same time as others.
//!
//! A task reads the store again before it changes anything, and its writes are conditional, so that tasks need no order among
//! each other. The state that only the driver changes is not here.

use std::sync::Arc;

use listwatch_storage::{Expect, Write};
use listwatch_wire::{Revision, Status};
use parking_lot::RwLock;

use crate::api::Api;
use crate::lifecycle::graph::OwnerGraph;
use crate::lifecycle::protection::MountedClaims;
use crate::lifecycle::task::{LifecycleTask, TaskProgress};
use crate::lifecycle::{addresses, bootstrap, garbage, namespaces, policies, protection, quotas};
use crate::pipeline::origin;

/// The state that tasks share.
#[derive(Debug)]
pub(super) struct TaskContext {
    pub(super) api: Arc<Api>,
    pub(super) ca_pem: Option<String>,
    /// Owners and dependents of all kinds, as of the last change that was observed.
    pub(super) graph: RwLock<OwnerGraph>,
    /// The claims that Pods use, as of the last time that was asked.
    pub(super) mounted: tokio::sync::Mutex<MountedClaims>,
}

impl TaskContext {
    /// Runs one task.
    ///
    /// # Errors
    ///
    /// The store or a write fails; the task is tried again later.
    pub(super) async fn perform(&self, task: &LifecycleTask) -> Result<TaskProgress, Status> {
        let api = &*self.api;
        match task {
            LifecycleTask::Dependent(key) => garbage::check_dependent(api, &self.graph, key).await?,
            LifecycleTask::Owner(key) => return garbage::release_owner(api, &self.graph, key).await,
            LifecycleTask::Namespace(name) => return done_if(namespaces::empty(api, name).await?),
            LifecycleTask::BootstrapNamespace(name) => {
                bootstrap::bootstrap_namespace(api, name, self.ca_pem.as_deref()).await?;
            }
            LifecycleTask::Release(collection, path) => {
                let mut mounted = self.mounted.lock().await;
                return done_if(protection::release(api, &mut mounted, collection, path).await?);
            }
            LifecycleTask::Address(address, path) => addresses::reconcile(api, address, path).await?,
            LifecycleTask::Quotas(namespace) => quotas::recalculate(api, namespace).await?,
            LifecycleTask::Policy(name) => policies::check(api, name).await?,
            // The driver knows the revision that has expired.
            LifecycleTask::Expire(_) => {}
        }
        Ok(TaskProgress::Done)
    }

    /// Deletes an event, unless it was written again after that revision.
    ///
    /// # Errors
    ///
    /// The store fails, or the event has changed.
    pub(super) async fn expire(&self, key: Arc<str>, revision: Revision) -> Result<TaskProgress, Status> {
        let (expect, origin) = (Expect::At(revision), Some(origin::own()));
        let write = Write { key, value: None, expect, origin };
        self.api.engine.write(write).await.map_err(Status::internal)?;
        Ok(TaskProgress::Done)
    }
}

fn done_if(done: bool) -> Result<TaskProgress, Status> {
    Ok(if done { TaskProgress::Done } else { TaskProgress::Waits })
}
