//! [`Views`]: all views of one collection, indexed by the objects that their filters can match.
//!
//! Every node's agent watches the pods of its node. With thousands of such views a change must not be matched with each
//! of them, so a view is indexed by the narrowest value that its filter fixes (a field, a label, a name or a
//! namespace), and a change is matched only with the views under its own values.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::filter::Filter;
use crate::cache::snapshot::IndexedField;
use crate::cache::subject::{EventSubjects, MatchSubject};
use crate::cache::view::View;

/// The narrowest condition of a filter, by which views are indexed. Each view has one, so that it gets a change once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ViewKey {
    /// Views that may see any change.
    Everything,
    /// Views of one namespace.
    Namespace(Arc<str>),
    /// Views of one name (in one or in every namespace).
    Name(Arc<str>),
    /// Views of one value of an indexed field.
    Field(usize, Arc<str>),
    /// Views of objects that have a label, with one value or with any.
    Label(Arc<str>, Option<Arc<str>>),
}

/// Hashed with a random key: labels and field values come from users.
type ViewMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
/// Views by their addresses: thousands may leave one place at the same time.
type ViewSet = ViewMap<usize, Arc<View>>;

/// All views of one collection, by the identity of their filters and by the narrowest condition that an event can be
/// looked up by.
#[derive(Debug, Default)]
pub(crate) struct Views {
    /// Views by the identity of their filters, to share them.
    by_identity: ViewMap<String, Arc<View>>,
    /// Views by their narrowest condition, to find those that a change may concern.
    by_place: ViewMap<ViewKey, ViewSet>,
    /// The views under labels.
    labels: ViewMap<Arc<str>, LabelViews>,
}

/// Views of objects with one label.
#[derive(Debug, Default)]
struct LabelViews {
    /// Those that need the label and take any value.
    any: ViewSet,
    by_value: ViewMap<Arc<str>, ViewSet>,
}

impl LabelViews {
    fn is_empty(&self) -> bool {
        self.any.is_empty() && self.by_value.is_empty()
    }
}

/// The identity of a view, for as long as it is kept here.
fn address(view: &Arc<View>) -> usize {
    Arc::as_ptr(view).addr()
}

impl Views {
    /// Returns the view of a filter with this identity.
    pub(crate) fn get(&self, identity: &str) -> Option<&Arc<View>> {
        self.by_identity.get(identity)
    }

    /// Adds a view under its identity and its narrowest condition.
    pub(crate) fn insert(&mut self, identity: String, view: Arc<View>, fields: &[IndexedField]) {
        let set = match place(view.filter(), fields) {
            ViewKey::Label(key, None) => &mut self.labels.entry(key).or_default().any,
            ViewKey::Label(key, Some(value)) => {
                self.labels.entry(key).or_default().by_value.entry(value).or_default()
            }
            place => self.by_place.entry(place).or_default(),
        };
        set.insert(address(&view), Arc::clone(&view));
        self.by_identity.insert(identity, view);
    }

    /// Removes a view. Another one with the same identity that was opened since stays.
    pub(crate) fn remove(&mut self, view: &Arc<View>, fields: &[IndexedField]) {
        match place(view.filter(), fields) {
            ViewKey::Label(key, value) => self.remove_label(view, &key, value.as_deref()),
            place => take_from(&mut self.by_place, &place, view),
        }
        // Another view may have the same identity now.
        let identity = view.filter().identity();
        if self.by_identity.get(&identity).is_some_and(|other| Arc::ptr_eq(other, view)) {
            self.by_identity.remove(&identity);
        }
    }

    /// Takes a view out of the index by label, and the label with it if no view is left.
    fn remove_label(&mut self, view: &Arc<View>, key: &str, value: Option<&str>) {
        let Some(views) = self.labels.get_mut(key) else { return };
        match value {
            Some(value) => take_from(&mut views.by_value, value, view),
            None => {
                views.any.remove(&address(view));
            }
        }
        if views.is_empty() {
            self.labels.remove(key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_identity.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<View>> {
        self.by_identity.values()
    }

    /// Calls `visit` with each view that may see the event, each once.
    pub(super) fn candidates(
        &self,
        subjects: &EventSubjects<'_>,
        fields: &[IndexedField],
        mut visit: impl FnMut(&Arc<View>),
    ) {
        let mut at = |place: &ViewKey| {
            self.by_place.get(place).into_iter().flat_map(ViewSet::values).for_each(&mut visit)
        };
        at(&ViewKey::Everything);
        let Some(object) = subjects.now.as_ref().or(subjects.before.as_ref()).map(|s| s.object) else {
            return;
        };
        if !self.labels.is_empty() {
            self.labelled(subjects, &mut visit);
        }
        let mut at = |place: &ViewKey| {
            self.by_place.get(place).into_iter().flat_map(ViewSet::values).for_each(&mut visit);
        };
        // Without views of one namespace, name or field, the lookups below are skipped.
        if self.by_place.len() == usize::from(self.by_place.contains_key(&ViewKey::Everything)) {
            return;
        }
        at(&ViewKey::Namespace(object.namespace().into()));
        at(&ViewKey::Name(object.name().into()));
        for index in 0..fields.len() {
            let value = |subject: &Option<MatchSubject<'_>>| {
                subject.as_ref().and_then(|subject| subject.object.indexed(index)).map(Arc::<str>::from)
            };
            let (now, before) = (value(&subjects.now), value(&subjects.before));
            if let Some(now) = &now {
                at(&ViewKey::Field(index, Arc::clone(now)));
            }
            if let Some(before) = before.filter(|before| now.as_ref() != Some(before)) {
                at(&ViewKey::Field(index, before));
            }
        }
    }

    /// The views under the labels that the object has or had.
    fn labelled(&self, subjects: &EventSubjects<'_>, visit: &mut impl FnMut(&Arc<View>)) {
        for (key, value) in subjects.now.iter().flat_map(|subject| subject.labels()) {
            let Some(views) = self.labels.get(*key) else { continue };
            views.any.values().for_each(&mut *visit);
            views.by_value.get(*value).into_iter().flat_map(ViewSet::values).for_each(&mut *visit);
        }
        for (key, value) in subjects.before.iter().flat_map(|subject| subject.labels()) {
            let Some(views) = self.labels.get(*key) else { continue };
            let now = subjects.now.as_ref().and_then(|subject| subject.label(key));
            if now.is_none() {
                views.any.values().for_each(&mut *visit);
            }
            if now != Some(*value) {
                views.by_value.get(*value).into_iter().flat_map(ViewSet::values).for_each(&mut *visit);
            }
        }
    }
}

/// Removes a view from a place, and the place with the last one.
fn take_from<K: Eq + std::hash::Hash + std::borrow::Borrow<Q>, Q: Eq + std::hash::Hash + ?Sized>(
    places: &mut ViewMap<K, ViewSet>,
    place: &Q,
    view: &Arc<View>,
) {
    if let Some(set) = places.get_mut(place) {
        set.remove(&address(view));
        if set.is_empty() {
            places.remove(place);
        }
    }
}

/// The narrowest condition of a filter: its name, an indexed field, or its namespace.
fn place(filter: &Filter, fields: &[IndexedField]) -> ViewKey {
    if let Some(name) = &filter.name {
        return ViewKey::Name(Arc::clone(name));
    }
    // An absent field has no entry to be found by, so a selector for the empty value is not filed under the field.
    let exact = |(i, f): (usize, &IndexedField)| {
        filter.exact_field(&f.label).filter(|v| !v.is_empty()).map(|value| ViewKey::Field(i, value.into()))
    };
    if let Some(place) = fields.iter().enumerate().find_map(exact) {
        return place;
    }
    if let Some(label) = filter.needed_label() {
        return ViewKey::Label(label.key.into(), label.value.map(Into::into));
    }
    filter.namespace.clone().map_or(ViewKey::Everything, ViewKey::Namespace)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::time::{Duration, Instant};

    use listwatch_wire::Revision;
    use listwatch_wire::selector::FieldSelector;

    use super::*;
    use crate::cache::event::CacheEvent;
    use crate::cache::object::CachedObject;

    fn object(labels: usize) -> Arc<CachedObject> {
        let mut text = r#"{"metadata":{"name":"a","labels":{"#.to_owned();
        for n in 0..labels {
            let _ = write!(text, "\"l{n:06}\":\"v\",");
        }
        text.push_str("\"z\":\"v\"},\"namespace\":\"n\"}}");
        Arc::new(CachedObject::new("/registry/configmaps/n/a".into(), 21, text.into(), Revision(1)).unwrap())
    }

    /// The labels of a change were read once for each view: an object with 20,000 of them and a thousand watches held up the cache for
    /// seconds, and with it everybody who waited for the write.
    #[test]
    fn labels_are_read_once_for_all_views() {
        let mut views = Views::default();
        for n in 0..500 {
            let selector = format!("!a{n}").parse().unwrap();
            let filter = Filter::new(None, selector, FieldSelector::default(), &[]);
            let view = Arc::new(View::new(filter.clone(), Revision(0)));
            views.insert(filter.identity(), view, &[]);
        }
        let event = Arc::new(CacheEvent::new(Revision(2), Some(object(20_000)), Some(object(20_000))));
        let (begin, mut seen) = (Instant::now(), 0);
        let subjects = EventSubjects::new(&event);
        views.candidates(&subjects, &[], |view| {
            view.offer(&event, &subjects, Revision(0));
            seen += view.after(Revision(0), crate::cache::Portion { events: 9, bytes: 9 }).unwrap().len();
        });
        assert_eq!(seen, 500, "all of them see it");
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}
