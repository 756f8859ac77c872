//! [`EventSubjects`]: the object before and after a change, with its labels and fields read at most once.
//!
//! A change is matched against thousands of views, and its object may have a megabyte of labels. Labels and fields are
//! therefore read when the first filter needs them and shared by the others. A match of a single object with a single filter
//! does not use this: see `filter.rs`.

use std::cell::{OnceCell, RefCell};

use crate::cache::event::{CacheEvent, ChangeKind};
use crate::cache::filter::Filter;
use crate::cache::object::CachedObject;

/// The object of one change before and after it.
pub(super) struct EventSubjects<'e> {
    pub(super) before: Option<MatchSubject<'e>>,
    pub(super) now: Option<MatchSubject<'e>>,
}

/// One object, with what filters have read of it so far.
pub(super) struct MatchSubject<'o> {
    pub(super) object: &'o CachedObject,
    /// Sorted by key.
    labels: OnceCell<Vec<(&'o str, &'o str)>>,
    /// By path. A kind has a handful of selectable fields.
    fields: RefCell<Vec<(Box<str>, Option<&'o str>)>>,
}

impl<'e> EventSubjects<'e> {
    pub(super) fn new(event: &'e CacheEvent) -> Self {
        let subject = |object: &'e Option<_>| object.as_deref().map(MatchSubject::new);
        Self { before: subject(&event.previous), now: subject(&event.object) }
    }

    /// The change as a watcher with this filter sees it, if it does.
    pub(super) fn change_for(&self, filter: &Filter) -> Option<ChangeKind> {
        let wanted = |subject: &Option<MatchSubject<'_>>| subject.as_ref().is_some_and(|s| filter.selects(s));
        ChangeKind::seen(wanted(&self.before), wanted(&self.now))
    }
}

impl<'o> MatchSubject<'o> {
    pub(super) fn new(object: &'o CachedObject) -> Self {
        Self { object, labels: OnceCell::new(), fields: RefCell::default() }
    }

    /// The labels, sorted by key.
    pub(super) fn labels(&self) -> &[(&'o str, &'o str)] {
        self.labels.get_or_init(|| {
            let mut labels: Vec<_> = self.object.labels().collect();
            // Stored maps are sorted already, so that this is one pass.
            labels.sort_unstable_by_key(|(key, _)| *key);
            labels
        })
    }

    /// The value of a label.
    pub(super) fn label(&self, key: &str) -> Option<&'o str> {
        let labels = self.labels();
        let at = labels.binary_search_by(|(other, _)| (*other).cmp(key)).ok()?;
        labels.get(at).map(|(_, value)| *value)
    }

    /// The value at a dotted path, if it is a scalar.
    pub(super) fn field(&self, path: &str) -> Option<&'o str> {
        let mut fields = self.fields.borrow_mut();
        if let Some((_, value)) = fields.iter().find(|(read, _)| **read == *path) {
            return *value;
        }
        let value = self.object.field(path);
        fields.push((path.into(), value));
        value
    }
}
