//! Reading a saved cache, and checking that the server is the one that it was saved from.
//!
//! A resourceVersion means nothing to another server, and a watch from it may be accepted all the same: a cache of the
//! wrong cluster would go unnoticed. The identity of the server (the uid of the `kube-system` namespace) is therefore
//! compared before the cache is used, unless `WarmOptions::unverified` allows reads before. 401, 403 and 404 are final;
//! anything else is retried with backoff.
//!
//! Every refusal leads to an ordinary list. File format and checksums are in `file`.

use std::sync::Arc;
use std::time::Duration;

use super::WarmError;
use super::capture::{HandlerMark, UnreadKeys};
use super::file::{FileHead, SavedPosition, read_records};
use super::saver::Saver;
use crate::lister_watcher::{ListerWatcher, SourceError};
use crate::object::Object;
use crate::panics::contained;

/// A cache that was read and checked, but for the server.
pub(crate) struct Restored<K> {
    /// In key order.
    pub(crate) objects: Vec<Object<K>>,
    pub(crate) positions: Vec<SavedPosition>,
    pub(crate) marks: Vec<HandlerMark<K>>,
    pub(crate) server: Option<String>,
}

/// Reads what was saved, if anything was. Blocks; call it on a thread that may.
pub(crate) fn read<K: Send>(saver: &Saver) -> Result<Option<Restored<K>>, WarmError> {
    let Some((head, records)) = saver.files.read_head()? else { return Ok(None) };
    if head.version != saver.options.version {
        return Err(WarmError::OtherScope { saved: head.version, wanted: saver.options.version.clone() });
    }
    let objects = saver.files.read_objects(&head)?;
    let FileHead { positions, marks, server, generation, blocks, .. } = head;
    let count = marks.iter().map(|mark| mark.deleted).sum();
    let mut deleted = read_records(&records, count).ok_or(WarmError::OtherFormat)?.into_iter();
    let marks = marks.into_iter().map(|mark| {
        let gone: Vec<_> = deleted.by_ref().take(mark.deleted).collect();
        let changed = mark.changed.iter().filter_map(|key| key.parse().ok()).collect();
        let unread = (!mark.everything).then_some(UnreadKeys { changed, deleted: gone });
        HandlerMark { name: mark.name, unread }
    });
    let marks = marks.collect();
    saver.restored(generation, blocks, 0);
    Ok(Some(Restored { objects, positions, marks, server }))
}

/// Delays between attempts to read the identity of a server.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Reads the identity of the server, retrying until it answers. Returns an error if it never will.
pub(crate) async fn identify(saver: &Saver, source: &Arc<dyn ListerWatcher>) -> Result<(), WarmError> {
    let mut delay = FIRST_DELAY;
    let found = loop {
        let asked = contained(source.identity()).await;
        match asked.unwrap_or_else(|panic| Err(SourceError::Panicked(panic))) {
            Ok(found) => break found,
            Err(error) if is_final(&error) => {
                return Err(WarmError::UnknownServer(error.to_string()));
            }
            Err(error) => tracing::debug!(%error, "cannot ask the server who it is yet"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(MAX_DELAY);
    };
    saver.identified(found);
    Ok(())
}

/// The server has answered, and will answer the same again.
fn is_final(error: &SourceError) -> bool {
    error.status().is_some_and(|status| matches!(status.code, 401 | 403 | 404))
}
