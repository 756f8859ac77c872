//! The one watch over everything under the prefix, which feeds the [tail](crate::tail).
//!
//! After any failure it begins again where the tail ends, at any member: nothing is missed and nothing comes twice. Only if
//! etcd has compacted that position in the meantime does the tail start over; followers whose position was before it get an
//! error.
//!
//! A watch sends nothing while other prefixes of etcd are written, so it does not show by itself that it has reached a
//! revision. Members of 3.4.31, 3.5.13 and 3.6 on answer a request for progress after all events before it. Older ones
//! answer too early (etcd issue 15220), or not at all before 3.4; there the engine writes to its marker, whose event comes
//! in order.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{WatchOptions, WatchResponse, WatchStream};
use listwatch_wire::Revision;
use parking_lot::RwLock;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use super::call::{CallFailure, Repeat, call, connect, text_of};
use super::keyspace::{Keyspace, number, revision};
use super::options::EtcdOptions;
use super::parts::Parts;
use crate::tail::Tail;
use crate::{Batch, Health};

/// No response may be too large for us: etcd has its own bound for what it takes. Those of watches come in [`Parts`].
pub(super) const MAX_MESSAGE: usize = 1 << 30;

/// The watch id of a response about the whole stream: the response to a progress request.
const WHOLE_STREAM: i64 = -1;

/// The longest pause between attempts to watch.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// State shared by the engine, its feed and its backlog.
#[derive(Debug)]
pub(super) struct EtcdShared {
    pub(super) client: ClientBox,
    pub(super) options: EtcdOptions,
    pub(super) keys: Keyspace,
    /// Places to read history that the tail no longer has.
    pub(super) readers: Arc<Semaphore>,
    /// Written by `run` only.
    pub(super) tail: Arc<Tail>,
    pub(super) health: RwLock<Health>,
    /// The revision that someone waits for.
    ///
    /// Set by `current`, which a consistent list calls: the cache waits until the log reaches that revision, and
    /// without an event or a response for progress it would wait forever.
    pub(super) wanted: watch::Sender<Revision>,
}

/// etcd's client has no `Debug`.
#[derive(Clone)]
pub(super) struct ClientBox(pub(super) etcd_client::Client);

impl std::fmt::Debug for ClientBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The reason that a watch ended.
enum WatchEnd {
    /// Its position was compacted.
    Compacted,
    /// etcd has less history than was seen: it was restored from a backup.
    WentBack(Revision),
    /// Anything else.
    Broken(String),
}

impl From<etcd_client::Error> for WatchEnd {
    fn from(error: etcd_client::Error) -> Self {
        Self::Broken(text_of(&error))
    }
}

impl EtcdShared {
    /// Opens a watch on everything after `after`, with responses in parts of [`Parts`].
    pub(super) async fn watch(
        &self,
        client: &etcd_client::Client,
        after: Revision,
    ) -> Result<WatchStream, etcd_client::Error> {
        let options = WatchOptions::new()
            .with_range(self.keys.end())
            .with_start_revision(number(after.next()))
            .with_prev_key()
            .with_progress_notify()
            .with_fragment();
        let mut client = client.watch_client().max_decoding_message_size(MAX_MESSAGE);
        client.watch(self.keys.marker(), Some(options)).await
    }

    /// Writes to the marker; returns the revision of that.
    ///
    /// A write per consistent read would be too many; it is done only if nothing else moved the log within
    /// `EtcdOptions::progress`.
    pub(super) async fn mark(&self) -> Result<Revision, CallFailure> {
        let marker = self.keys.marker();
        // Done twice, it serves as well.
        let put = call(&self.options, Repeat::Harmless, || {
            let mut kv = self.client.0.kv_client();
            let marker = marker.clone();
            async move { kv.put(marker, "", None).await }
        });
        Ok(put.await?.header().map_or(Revision::ZERO, |header| revision(header.revision())))
    }

    /// The newest revision of etcd, linearizable.
    pub(super) async fn current(&self) -> Result<Revision, CallFailure> {
        let marker = self.keys.marker();
        let read = call(&self.options, Repeat::Harmless, || {
            let mut kv = self.client.0.kv_client();
            let marker = marker.clone();
            async move { kv.get(marker, Some(etcd_client::GetOptions::new().with_count_only())).await }
        });
        Ok(read.await?.header().map_or(Revision::ZERO, |header| revision(header.revision())))
    }

    /// True if all members answer a request for progress in order.
    ///
    /// All of them, because the client may move the watch to any. A member that does not answer counts as an old one,
    /// which costs writes to the marker but is safe.
    async fn ordered_progress(&self) -> bool {
        for endpoint in &self.options.endpoints {
            let Ok(mut client) = connect(std::slice::from_ref(endpoint), &self.options).await else {
                return false;
            };
            let status = tokio::time::timeout(self.options.connect, client.status()).await;
            let ordered = matches!(status, Ok(Ok(status)) if has_ordered_progress(status.version()));
            if !ordered {
                return false;
            }
        }
        true
    }
}

/// True for versions of etcd whose progress notifications never overtake events: 3.4.31, 3.5.13, 3.6 and later.
fn has_ordered_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let (major, minor, patch) = (numbers.next(), numbers.next(), numbers.next());
    match (major.unwrap_or(0), minor.unwrap_or(0), patch.unwrap_or(0)) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) >= (3, 6),
    }
}

/// Feeds the tail until the task is aborted.
///
/// Pauses double up to [`MAX_PAUSE`] while no watch makes progress, and begin small again after one that did.
pub(super) async fn run(shared: Arc<EtcdShared>) {
    let mut pause = Duration::from_millis(20);
    loop {
        let before = shared.tail.upto();
        match follow(&shared).await {
            WatchEnd::Compacted => restart(&shared).await,
            WatchEnd::WentBack(current) => return give_up(&shared, current),
            WatchEnd::Broken(reason) => {
                tracing::warn!(reason, upto = %shared.tail.upto(), "the watch on etcd broke; opening another one");
                *shared.health.write() = Health::Unavailable(reason);
            }
        }
        pause =
            if shared.tail.upto() > before { Duration::from_millis(20) } else { MAX_PAUSE.min(pause * 2) };
        sleep(pause).await;
    }
}

/// Ends the engine: revisions that were given before are given again now, so that nothing that was read is true any more.
fn give_up(shared: &EtcdShared, current: Revision) {
    let upto = shared.tail.upto();
    tracing::error!(%current, %upto, "etcd went back, as after a restore: this server must be restarted");
    *shared.health.write() = Health::Unavailable(format!("etcd went back from revision {upto} to {current}"));
    shared.tail.close();
}

/// Continues at the newest revision.
///
/// Followers get [`crate::Error::Compacted`]; the cache then reads everything again.
async fn restart(shared: &EtcdShared) {
    match shared.current().await {
        Ok(current) => {
            tracing::warn!(%current, "etcd compacted history that was not read yet; continuing at the newest revision");
            shared.tail.restart(current);
        }
        Err(failure) => *shared.health.write() = Health::Unavailable(failure.into_error().to_string()),
    }
}

/// One watch, from where the tail ends to where the watch breaks.
async fn follow(shared: &Arc<EtcdShared>) -> WatchEnd {
    match shared.current().await {
        Ok(current) if current < shared.tail.upto() => return WatchEnd::WentBack(current),
        Ok(_) => {}
        Err(failure) => return WatchEnd::Broken(failure.into_error().to_string()),
    }
    let stream = match tokio::time::timeout(
        shared.options.attempt,
        shared.watch(&shared.client.0, shared.tail.upto()),
    )
    .await
    {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return error.into(),
        Err(_) => return WatchEnd::Broken("etcd: no watch in time".to_owned()),
    };
    let ordered = shared.ordered_progress().await;
    let progress = tokio::spawn(move_on(Arc::clone(shared)));
    let end = receive(shared, stream, ordered).await;
    progress.abort();
    end.err().unwrap_or_else(|| WatchEnd::Broken("etcd ended the watch".to_owned()))
}

/// Reads a watch until it ends and publishes its batches. Requests for progress are only sent to an etcd that orders
/// its responses after the events; an older one could claim progress that it has not delivered.
async fn receive(shared: &EtcdShared, mut stream: WatchStream, ordered: bool) -> Result<(), WatchEnd> {
    let (mut wanted, mut parts) = (shared.wanted.subscribe(), Parts::default());
    wanted.mark_changed();
    loop {
        let response = tokio::select! {
            response = stream.message() => response?,
            Ok(()) = wanted.changed(), if ordered => {
                if *wanted.borrow_and_update() > shared.tail.upto() {
                    stream.request_progress().await?;
                }
                continue;
            }
        };
        let Some(response) = response else { return Ok(()) };
        if response.canceled() {
            return Err(cancelled(&response));
        }
        if response.created() {
            *shared.health.write() = Health::Ready;
            continue;
        }
        let batch = batch(shared, response, &mut parts, ordered);
        if let Some(batch) = batch.filter(|batch| batch.upto > shared.tail.upto()) {
            shared.tail.publish(batch);
        }
    }
}

/// The end of a watch that etcd cancelled.
fn cancelled(response: &WatchResponse) -> WatchEnd {
    if response.compact_revision() > 0 {
        return WatchEnd::Compacted;
    }
    WatchEnd::Broken(format!("etcd: watch refused: {}", response.cancel_reason()))
}

/// The changes of a response. One without events is progress, which is an empty batch, unless it is about all watches of
/// an etcd that does not order such answers after the events.
fn batch(
    shared: &EtcdShared,
    mut response: WatchResponse,
    parts: &mut Parts,
    ordered: bool,
) -> Option<Batch> {
    if let Some(batch) = shared.keys.batch(parts.add(&mut response)) {
        return Some(batch);
    }
    if !parts.is_whole() || (response.watch_id() == WHOLE_STREAM && !ordered) {
        return None;
    }
    let upto = response.header().map_or(Revision::ZERO, |header| revision(header.revision()));
    Some(Batch { changes: Arc::new([]), upto })
}

/// Writes to the marker whenever the log does not reach a wanted revision by itself. Where requests for progress work,
/// they are always sooner.
async fn move_on(shared: Arc<EtcdShared>) {
    let mut wanted = shared.wanted.subscribe();
    wanted.mark_changed();
    while wanted.changed().await.is_ok() {
        let revision = *wanted.borrow_and_update();
        let reached = tokio::time::timeout(shared.options.progress, shared.tail.wait_for(revision)).await;
        if reached.is_ok() {
            continue;
        }
        match shared.mark().await {
            Ok(marked) => drop(shared.tail.wait_for(marked).await),
            Err(failure) => {
                tracing::warn!(error = %failure.into_error(), "could not move the log on");
                wanted.mark_changed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_ordered_progress;

    #[test]
    fn progress_is_trusted_from_the_versions_that_keep_its_order() {
        for (version, expected) in [
            ("3.3.27", false),
            ("3.4.23", false),
            ("3.4.31", true),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0-rc.1", true),
        ] {
            assert_eq!(has_ordered_progress(version), expected, "{version}");
        }
    }
}
