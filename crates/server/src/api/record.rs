//! [`AdmissionRecord`]: what admission reports besides its decision: warnings, audit annotations, charges of quotas.
//!
//! One per request, shared by all attempts of its write. Entries are kept once, because a write that is retried after
//! a conflict is admitted again; charges are taken out by each commit (`pipeline/transaction.rs`) and made again by
//! the next attempt. Annotations are bounded in bytes: webhooks may send any number, and each ends up in a line of
//! the audit log.

use listwatch_storage::Write;
use parking_lot::{Mutex, MutexGuard};

use super::reinvocation::Reinvocation;

/// Bytes of the audit annotations of one request: webhooks may send any number of them, and each line of the log has them.
const ANNOTATION_BYTES: usize = 256 << 10;

/// Warnings of one request that are kept. A response has room for 4096 characters of them, while an object may give reasons for
/// tens of thousands, each of which is compared with the others.
const MAX_WARNINGS: usize = 1024;

/// Warnings, audit annotations and charges of quotas collected while a request is admitted.
///
/// A write that is retried is admitted again, so that repeated entries count once.
#[derive(Debug, Default)]
pub(crate) struct AdmissionRecord {
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<Vec<(String, String)>>,
    charges: Mutex<Vec<Write>>,
    reinvocation: Mutex<Reinvocation>,
}

impl AdmissionRecord {
    /// Adds several warnings.
    pub(crate) fn warn_all(&self, texts: &[String]) {
        texts.iter().for_each(|text| self.warn(text.as_str()));
    }

    /// Adds a text for a `Warning` header, once.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let (text, mut warnings) = (text.into(), self.warnings.lock());
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Adds an audit annotation. The first value of a key stays, and nothing is added beyond [`ANNOTATION_BYTES`].
    pub(crate) fn annotate(&self, key: &str, value: impl Into<String>) {
        let (mut annotations, value) = (self.annotations.lock(), value.into());
        let known: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        let fits = known + key.len() + value.len() <= ANNOTATION_BYTES;
        if fits && !annotations.iter().any(|(known, _)| known == key) {
            annotations.push((key.to_owned(), value));
        }
    }

    /// Adds a write of a quota that must be committed together with the object. A later one of the same quota replaces it.
    pub(crate) fn charge(&self, write: Write) {
        let mut charges = self.charges.lock();
        charges.retain(|known| known.key != write.key);
        charges.push(write);
    }

    /// The state of the mutating webhooks and policies.
    pub(crate) fn reinvocation(&self) -> MutexGuard<'_, Reinvocation> {
        self.reinvocation.lock()
    }

    /// Takes out the quota writes of the last attempt, for its commit.
    pub(crate) fn take_charges(&self) -> Vec<Write> {
        std::mem::take(&mut self.charges.lock())
    }

    /// Returns the warnings in the order they came.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }

    /// Returns the audit annotations, in the order they came.
    pub(crate) fn annotations(&self) -> Vec<(String, String)> {
        self.annotations.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_warnings_and_annotations_count_once() {
        let record = AdmissionRecord::default();
        for value in ["a", "b"] {
            record.warn("careful");
            record.annotate("key", value);
        }
        assert_eq!(record.warnings(), ["careful"]);
        assert_eq!(record.annotations(), [("key".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn warnings_beyond_those_that_can_be_sent_are_not_compared() {
        let record = AdmissionRecord::default();
        (0..100_000).for_each(|n| record.warn(format!("careful: {n}")));
        assert_eq!(record.warnings().len(), MAX_WARNINGS);
    }
}
