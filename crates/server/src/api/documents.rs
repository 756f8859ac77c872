//! [`OpenApiDocuments`]: OpenAPI documents, written once for concurrent requests.
//!
//! They are megabytes large, the same for all clients, and written on request. A thousand requests at once would write a
//! thousand copies, and a thousand clients that do not read would hold as many. Here the first request writes a document and
//! the others wait for it; it is kept for a while for later requests, and by the responses that are being sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::registry::Served;

/// The time for which a document stays after it was written: clients ask for all of them in turn, and then not for hours.
const KEPT: Duration = Duration::from_secs(10);

/// A document and its hash.
pub(crate) type OpenApiDocument = (Arc<str>, Bytes);
/// Filled once; concurrent requests wait for it.
type Cell = Arc<OnceCell<OpenApiDocument>>;

/// The documents that are being written or were written lately, by name. A document is written once for all waiting
/// requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenApiDocuments {
    by_name: Arc<Mutex<HashMap<String, KeptDocument>>>,
}

/// A document and the resources that it describes.
#[derive(Debug)]
struct KeptDocument {
    /// The resources it describes.
    of: Arc<Served>,
    /// The hash of what else it describes.
    and: String,
    cell: Cell,
}

impl OpenApiDocuments {
    /// Returns the document of that name about these resources and the extensions with this hash. It is written on a
    /// blocking thread unless it is cached; `None` if there is no such document.
    pub(crate) async fn get(
        &self,
        name: &str,
        of: &Arc<Served>,
        and: &str,
        write: impl FnOnce() -> Option<OpenApiDocument> + Send + 'static,
    ) -> Option<OpenApiDocument> {
        let cell = self.cell(name, of, and);
        let written = async { tokio::task::spawn_blocking(write).await.ok().flatten().ok_or(()) };
        let mut first = false;
        let document = cell.get_or_try_init(|| {
            first = true;
            written
        });
        let document = document.await.ok().cloned();
        match &document {
            None => self.forget(name, &cell),
            Some(_) if first => {
                let (documents, name) = (self.clone(), name.to_owned());
                tokio::spawn(async move {
                    tokio::time::sleep(KEPT).await;
                    documents.forget(&name, &cell);
                });
            }
            Some(_) => {}
        }
        document
    }

    /// The cell of a document of this state. Another state has another cell.
    fn cell(&self, name: &str, of: &Arc<Served>, and: &str) -> Cell {
        let mut by_name = self.by_name.lock();
        let same = |kept: &&KeptDocument| Arc::ptr_eq(&kept.of, of) && kept.and == and;
        if let Some(kept) = by_name.get(name).filter(same) {
            return Arc::clone(&kept.cell);
        }
        let (cell, of) = (Cell::default(), Arc::clone(of));
        by_name.insert(name.to_owned(), KeptDocument { of, and: and.to_owned(), cell: Arc::clone(&cell) });
        cell
    }

    /// A document that failed to be made is tried again.
    fn forget(&self, name: &str, cell: &Cell) {
        let mut by_name = self.by_name.lock();
        if by_name.get(name).is_some_and(|kept| Arc::ptr_eq(&kept.cell, cell)) {
            by_name.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Three thousand requests for one document took 900 MB and 8 seconds of both processors.
    #[tokio::test(start_paused = true)]
    async fn a_document_is_written_once_for_all_who_wait() {
        let (documents, written) = (OpenApiDocuments::default(), Arc::new(AtomicUsize::new(0)));
        let served = Arc::new(Served::default());
        let ask = |name: &'static str, of: &Arc<Served>, and: &'static str| {
            let (documents, written, of) = (documents.clone(), Arc::clone(&written), Arc::clone(of));
            async move {
                let write = move || {
                    written.fetch_add(1, Ordering::SeqCst);
                    (name != "nothing").then(|| ("hash".into(), Bytes::from(vec![1; 100])))
                };
                documents.get(name, &of, and, write).await
            }
        };
        let all = futures::future::join_all((0..50).map(|_| ask("v2", &served, ""))).await;
        let places = all.iter().map(|document| document.as_ref().unwrap().1.as_ptr());
        assert_eq!(places.collect::<std::collections::HashSet<_>>().len(), 1, "one copy");
        assert_eq!(written.load(Ordering::SeqCst), 1);
        ask("v2", &Arc::new(Served::default()), "").await;
        assert_eq!(written.load(Ordering::SeqCst), 2, "other resources, another document");
        ask("v2", &served, "and extensions").await;
        assert_eq!(written.load(Ordering::SeqCst), 3, "other extensions, another document");
        assert!(ask("nothing", &served, "").await.is_none());
        tokio::time::sleep(KEPT * 2).await;
        assert!(documents.by_name.lock().is_empty(), "nothing stays");
    }
}
