//! [`LeaseLock`]: the storage of an election's record, client-go's `resourcelock.Interface`. [`KubeLease`] keeps it in
//! a Lease of the cluster, [`InMemoryLease`] in the memory of a test.
//!
//! A lock only reads and conditionally writes; all rules of the election are in `machine`. A write must fail with
//! [`LockError::Conflict`] if the record changed since it was read: two candidates that both saw an expired record must
//! not both win. The record has the fields of a Lease, so that other implementations can take part in the same
//! election.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ObjectMeta, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::sync::Mutex;

/// The record of an election: the `spec` of a Lease.
///
/// Times are kept as text and are never interpreted: clocks of different machines do not agree, so it only matters
/// whether the record has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "LeaderElectionRecord")]
pub struct LeaseRecord {
    /// The identity of the leader; none or empty if there is no leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// The time the holder may be silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    /// Since when the holder leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<String>,
    /// The time of the holder's last renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<String>,
    /// The number of times leadership has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
    /// Fields of later versions, kept as they are.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl LeaseRecord {
    /// The leader according to the record; none if the lease was released.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }
}

/// A record as it was read or written, with the version to write the next one over.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The record.
    pub record: LeaseRecord,
    /// The resourceVersion of the next update, so that a write in between is refused as a conflict.
    pub version: Value,
}

/// The error of reading or writing the record of an election.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The record was changed since it was read, or was created by another candidate. Read it again.
    #[error("the lease was changed by another client")]
    Conflict,
    /// No response in time: it may or may not have been written.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// Any other failure, with the text of its cause.
    #[error("{0}")]
    Failed(String),
}

/// Keeps the record of an election. Writes must be atomic, and fail with [`LockError::Conflict`] if the record is no
/// longer the version that was read.
#[async_trait::async_trait]
#[doc(alias = "resourcelock")]
pub trait LeaseLock: Send + Sync + 'static {
    /// The record; none if there has never been one.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn read(&self) -> Result<Option<Observed>, LockError>;

    /// Writes the record: over the version that was read, or as the first one.
    ///
    /// # Errors
    /// [`LockError::Conflict`] if there is another version now; or when it cannot be written.
    async fn write(&self, record: &LeaseRecord, over: Option<&Value>) -> Result<Observed, LockError>;
}

#[async_trait::async_trait]
impl<L: LeaseLock + ?Sized> LeaseLock for Arc<L> {
    async fn read(&self) -> Result<Option<Observed>, LockError> {
        (**self).read().await
    }

    async fn write(&self, record: &LeaseRecord, over: Option<&Value>) -> Result<Observed, LockError> {
        (**self).write(record, over).await
    }
}

/// The record in a Lease of `coordination.k8s.io/v1`. Needs the verbs `get`, `create` and `update` on it.
#[derive(Clone)]
#[doc(alias = "LeaseLock")]
pub struct KubeLease {
    api: Api<DynamicObject>,
    name: String,
}

impl fmt::Debug for KubeLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeLease").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KubeLease {
    /// The Lease of this name; it is created by the first leader.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str, name: impl Into<String>) -> Self {
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        let resource = ApiResource::from_gvk_with_plural(&kind, "leases");
        Self { api: Api::namespaced_with(client, namespace, &resource), name: name.into() }
    }

    fn observed(lease: DynamicObject) -> Result<Observed, LockError> {
        let spec = lease.data.get("spec").cloned().unwrap_or_else(|| json!({}));
        let record = serde_json::from_value(spec).map_err(failed)?;
        Ok(Observed { record, version: serde_json::to_value(lease.metadata).map_err(failed)? })
    }
}

fn failed(error: impl fmt::Display) -> LockError {
    LockError::Failed(error.to_string())
}

/// Sorts a failed write: a record that changed is read again, everything else is tried again.
fn refused(error: kube::Error) -> LockError {
    match error {
        // A deleted Lease counts as changed: the next read finds nothing, and then it is created.
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => LockError::Conflict,
        other => failed(other),
    }
}

#[async_trait::async_trait]
impl LeaseLock for KubeLease {
    async fn read(&self) -> Result<Option<Observed>, LockError> {
        self.api.get_opt(&self.name).await.map_err(failed)?.map(Self::observed).transpose()
    }

    async fn write(&self, record: &LeaseRecord, over: Option<&Value>) -> Result<Observed, LockError> {
        // The version is the whole metadata: a replacement without labels and owners would delete them.
        let metadata = match over {
            Some(metadata) => serde_json::from_value(metadata.clone()).map_err(failed)?,
            None => ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
        };
        let types = TypeMeta { api_version: "coordination.k8s.io/v1".to_owned(), kind: "Lease".to_owned() };
        let lease = DynamicObject { types: Some(types), metadata, data: json!({ "spec": record }) };
        let params = PostParams::default();
        let written = match over {
            Some(_) => self.api.replace(&self.name, &params, &lease).await,
            None => self.api.create(&params, &lease).await,
        };
        Self::observed(written.map_err(refused)?)
    }
}

/// The record in memory, with outages on demand: for tests of programs that elect a leader.
///
/// ```
/// use std::sync::Arc;
/// use listwatch::leader_election::{ElectionOptions, ElectionOutcome, InMemoryLease, LeaderElection, LeaseRecord};
/// use listwatch::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lease = Arc::new(InMemoryLease::default());
/// let election = LeaderElection::new(Arc::clone(&lease), ElectionOptions::new("me"))?;
/// let stop = CancellationToken::new();
/// let outcome = election
///     .run(&stop, |leadership| {
///         // Another candidate takes the lease, as after a pause of this process.
///         lease.edit(|record| record.holder_identity = Some("other".into()));
///         async move { leadership.over().await }
///     })
///     .await;
/// assert_eq!(outcome, ElectionOutcome::Lost(Some(())));
/// assert_eq!(lease.record().as_ref().and_then(LeaseRecord::holder), Some("other"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct InMemoryLease {
    state: Mutex<MemoryLock>,
}

#[derive(Debug, Default)]
struct MemoryLock {
    record: Option<LeaseRecord>,
    version: u64,
    down: bool,
}

impl InMemoryLease {
    /// While true, nothing can be read or written.
    pub fn set_down(&self, down: bool) {
        self.state.lock().down = down;
    }

    /// The record as it is.
    #[must_use]
    pub fn record(&self) -> Option<LeaseRecord> {
        self.state.lock().record.clone()
    }

    /// Changes the record as an operator with an editor would.
    pub fn edit(&self, edit: impl FnOnce(&mut LeaseRecord)) {
        let mut state = self.state.lock();
        edit(state.record.get_or_insert_default());
        state.version += 1;
    }
}

#[async_trait::async_trait]
impl LeaseLock for InMemoryLease {
    async fn read(&self) -> Result<Option<Observed>, LockError> {
        let state = self.state.lock();
        if state.down {
            return Err(failed("down"));
        }
        let version = state.version.into();
        Ok(state.record.clone().map(|record| Observed { record, version }))
    }

    async fn write(&self, record: &LeaseRecord, over: Option<&Value>) -> Result<Observed, LockError> {
        let mut state = self.state.lock();
        if state.down {
            return Err(failed("down"));
        }
        let current = state.record.as_ref().map(|_| Value::from(state.version));
        if current.as_ref() != over {
            return Err(LockError::Conflict);
        }
        state.version += 1;
        state.record = Some(record.clone());
        Ok(Observed { record: record.clone(), version: state.version.into() })
    }
}
