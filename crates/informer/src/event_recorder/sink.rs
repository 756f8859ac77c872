//! [`EventSink`]: the destination of events. [`KubeSink`] writes them to the API server.
//!
//! A sink makes one attempt and classifies the failure as a [`SinkError`]; retries, backoff and dropping an event are the
//! recorder's. An Event is created once and then only patched, with a merge patch of its `series`: the API server
//! refuses changes to any other field. A series whose Event has expired (one hour by default in kube-apiserver) is
//! answered with 404 and must be created again.

use std::fmt;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::event::EventRecord;

/// The reason for which an event was not written, by what the recorder does next.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The event to extend does not exist any more: create it again.
    #[error("the event is gone")]
    Gone,
    /// It will not be accepted however often it is tried.
    #[error("refused: {0}")]
    Refused(String),
    /// Worth trying again.
    #[error("{0}")]
    Failed(String),
}

/// The destination of events. An implementation makes one attempt per call; the recorder retries [`SinkError::Failed`]
/// with backoff.
///
/// ```
/// use listwatch::event_recorder::{EventRecord, EventRecorder, EventSink, ObjectReference, Occurrence, Reporter, SinkError};
///
/// /// Prints events, for a program that runs without a cluster.
/// struct Printer;
///
/// #[async_trait::async_trait]
/// impl EventSink for Printer {
///     async fn create(&self, event: &EventRecord) -> Result<(), SinkError> {
///         println!("{}: {}", event.occurrence.reason, event.occurrence.note);
///         Ok(())
///     }
///
///     async fn extend(&self, event: &EventRecord) -> Result<(), SinkError> {
///         println!("{} times: {}", event.series.map_or(1, |series| series.count), event.occurrence.reason);
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let reporter = Reporter { controller: "example.com/cleaner".into(), instance: "local".into() };
/// let recorder = EventRecorder::start(Printer, reporter, Default::default());
/// # let pod = k8s_openapi::api::core::v1::Pod::default();
/// recorder.record(Occurrence::normal(ObjectReference::of(&pod), "Started", "Start", "up"));
/// recorder.shut_down().await;
/// # }
/// ```
#[async_trait::async_trait]
pub trait EventSink: Send + Sync + 'static {
    /// Creates the event. One that exists already, because an earlier attempt got through, is created.
    ///
    /// # Errors
    /// See [`SinkError`].
    async fn create(&self, event: &EventRecord) -> Result<(), SinkError>;

    /// Brings the series of the event up to date.
    ///
    /// # Errors
    /// See [`SinkError`].
    async fn extend(&self, event: &EventRecord) -> Result<(), SinkError>;
}

/// Events of `events.k8s.io/v1`. Needs the verbs `create` and `patch` on them.
#[derive(Clone)]
pub struct KubeSink {
    client: kube::Client,
    resource: ApiResource,
}

impl fmt::Debug for KubeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KubeSink")
    }
}

impl KubeSink {
    /// Sends events through this client.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        let kind = GroupVersionKind::gvk("events.k8s.io", "v1", "Event");
        Self { client, resource: ApiResource::from_gvk_with_plural(&kind, "events") }
    }

    fn api(&self, event: &EventRecord) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &event.namespace, &self.resource)
    }
}

/// Classifies a failure by the recorder's next step: create the event again, drop it, or retry.
fn failed(error: kube::Error) -> SinkError {
    match error {
        kube::Error::Api(status) if status.code == 404 => SinkError::Gone,
        kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            SinkError::Refused(status.message.clone())
        }
        other => SinkError::Failed(other.to_string()),
    }
}

#[async_trait::async_trait]
impl EventSink for KubeSink {
    async fn create(&self, event: &EventRecord) -> Result<(), SinkError> {
        let body = serde_json::from_value(event.to_json()).map_err(|e| SinkError::Refused(e.to_string()))?;
        match self.api(event).create(&PostParams::default(), &body).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => match failed(error) {
                // There is no such namespace.
                SinkError::Gone => Err(SinkError::Refused("its namespace is gone".to_owned())),
                other => Err(other),
            },
            Ok(_) => Ok(()),
        }
    }

    async fn extend(&self, event: &EventRecord) -> Result<(), SinkError> {
        let patch = Patch::Merge(event.series_json());
        let patched = self.api(event).patch(&event.name, &PatchParams::default(), &patch).await;
        patched.map(drop).map_err(failed)
    }
}
