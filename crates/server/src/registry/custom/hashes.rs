//! [`Hashes`]: hashes of the OpenAPI documents of custom groups, without writing the documents for each request.
//!
//! Every client that looks for new kinds fetches the index, which names the hash of each document. Resources never
//! change (another definition makes another [`Resource`]), so a hash is valid for exactly the resources it was
//! computed from; they are held weakly, so that a definition that is gone can be freed. `endpoints/openapi.rs` is the
//! caller.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sha2::{Digest, Sha512};

use crate::registry::Resource;

/// The hashes known, by group and version: no more than are served. A hash is recomputed when a resource of its group
/// and version is another one than it was computed from.
#[derive(Debug, Default)]
pub(crate) struct Hashes(Mutex<HashMap<HashKey, KeptHash>>);

type HashKey = (Arc<str>, Arc<str>);

/// The hash of a document and the resources that it describes.
#[derive(Debug)]
struct KeptHash {
    /// Weak, so that a hash does not keep a deleted definition alive.
    described: Vec<Weak<Resource>>,
    hash: Arc<str>,
}

impl KeptHash {
    /// True if the resources are the same ones, by their pointers.
    fn describes(&self, resources: &[&Arc<Resource>]) -> bool {
        let same = |(kept, now): (&Weak<Resource>, &&Arc<Resource>)| kept.as_ptr() == Arc::as_ptr(now);
        self.described.len() == resources.len() && self.described.iter().zip(resources).all(same)
    }
}

impl Hashes {
    /// The hash of the document of all resources of one group and version, which is written only if it is not known.
    ///
    /// A hit costs as much as the group has resources, a miss one document, milliseconds for a large one.
    pub(crate) fn of<D: AsRef<[u8]>>(
        &self,
        resources: &[&Arc<Resource>],
        document: impl FnOnce() -> D,
    ) -> Arc<str> {
        let place = resources.first().map(|one| (Arc::clone(&one.group), Arc::clone(&one.version)));
        let place = place.unwrap_or_default();
        if let Some(kept) = self.0.lock().get(&place).filter(|kept| kept.describes(resources)) {
            return Arc::clone(&kept.hash);
        }
        // Hashed without the lock: a large document takes milliseconds. Two threads may compute the same hash.
        let hash: Arc<str> = hash_of(document().as_ref()).into();
        let described = resources.iter().map(|resource| Arc::downgrade(resource)).collect();
        self.0.lock().insert(place, KeptHash { described, hash: Arc::clone(&hash) });
        hash
    }

    /// Drops the hashes of groups and versions that are not served any more.
    pub(crate) fn retain(&self, served: impl Fn(&str, &str) -> bool) {
        self.0.lock().retain(|(group, version), _| served(group, version));
    }
}

/// In the form of kube-apiserver: SHA-512 in capital letters.
fn hash_of(document: &[u8]) -> String {
    Sha512::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use listwatch_storage::MemoryEngine;

    use super::*;
    use crate::CacheLimits;
    use crate::cache::Cache;
    use crate::registry::Registry;

    fn resources(group: &str) -> Vec<Arc<Resource>> {
        let cache = Cache::new(Arc::new(MemoryEngine::default()), CacheLimits::default());
        let served = Registry::builtin(&cache).served();
        served.resources().iter().filter(|resource| &*resource.group == group).cloned().collect()
    }

    #[test]
    fn a_document_is_written_again_only_if_its_resources_are_others() {
        let hashes = Hashes::default();
        let written = std::cell::Cell::new(0);
        let ask = |resources: &[Arc<Resource>]| {
            let resources: Vec<_> = resources.iter().collect();
            hashes.of(&resources, || {
                written.set(written.get() + 1);
                written.get().to_string()
            })
        };
        let (apps, batch) = (resources("apps"), resources("batch"));
        let first = ask(&apps);
        ask(&batch);
        assert_eq!((ask(&apps), written.get()), (first.clone(), 2), "each was written once");
        // A group with one resource fewer, and one with equal resources that were registered again.
        assert_ne!(ask(&apps[1..]), first);
        assert_ne!(ask(&resources("apps")), first);
        assert_eq!(written.get(), 4);
        hashes.retain(|group, _| group == "batch");
        ask(&batch);
        assert_eq!((hashes.0.lock().len(), written.get()), (1, 4));
    }
}
