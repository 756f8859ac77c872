//! [`KnownDefinitions`]: compiled CustomResourceDefinitions, kept between rounds of the controller.
//!
//! Compiling schemas and CEL rules of one definition takes milliseconds and a cluster has hundreds, so a change of
//! one must not compile all. The key is the revision: the same revision is the same content. Conflicts of names are
//! between definitions of a group, so a change makes the whole group unsettled. Owned by [`super::definitions`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use listwatch_custom::Definition;
use listwatch_wire::json::{self, Value};

use crate::cache::CachedObject;

/// The definitions of one snapshot, by key.
#[derive(Debug, Default)]
pub(super) struct KnownDefinitions(BTreeMap<Arc<str>, StoredDefinition>);

/// A definition as it is stored.
#[derive(Debug)]
pub(super) struct StoredDefinition {
    pub(super) definition: Arc<Definition>,
    pub(super) object: Arc<CachedObject>,
    /// True if it has been served as it is here.
    pub(super) served: bool,
    /// True if its watches were opened under another spec, and have to be opened again.
    pub(super) respecified: bool,
    /// True if its status is up to date. It depends on the names of the others in its group, too.
    pub(super) settled: bool,
}

impl StoredDefinition {
    /// A definition that cannot be read is served as if it were not there.
    fn read(object: &Arc<CachedObject>) -> Option<Self> {
        let definition = Definition::read(&Value::read(object.stored()).ok()?)?;
        let definition = Arc::new(definition);
        let object = Arc::clone(object);
        Some(Self { definition, object, served: false, respecified: false, settled: false })
    }

    /// Notes the state before, whose watches may still be open.
    fn after(mut self, old: Option<&Self>) -> Self {
        self.respecified = old.is_some_and(|old| old.respecified || old.spec() != self.spec());
        self
    }

    /// The bytes of the spec, which are canonical, and those of the names that are accepted.
    fn spec(&self) -> [Option<&[u8]>; 2] {
        let stored = self.object.stored();
        [&["spec"][..], &["status", "acceptedNames"]].map(|path| json::raw::lookup(stored, path))
    }
}

impl KnownDefinitions {
    /// Updates the definitions to these objects. Those at the same revision keep their compiled form and state.
    ///
    /// Proportional to the number of definitions in comparisons, and to the changed ones in compilation. Definitions
    /// that cannot be read are left out.
    pub(super) fn update<'a>(&mut self, objects: impl Iterator<Item = &'a Arc<CachedObject>>) {
        let mut before = std::mem::take(&mut self.0);
        let mut moved = HashSet::new();
        for object in objects {
            let stored = match before.remove(object.key()) {
                Some(same) if same.object.revision() == object.revision() => Some(same),
                old => {
                    let new = StoredDefinition::read(object).map(|new| new.after(old.as_ref()));
                    moved.extend(old.iter().chain(&new).map(group));
                    new
                }
            };
            self.0.extend(stored.map(|stored| (Arc::clone(object.key()), stored)));
        }
        moved.extend(before.values().map(group));
        let touched = self.0.values_mut().filter(|stored| moved.contains(&stored.definition.group));
        touched.for_each(|stored| stored.settled = false);
    }

    /// All definitions, to check the names of one against the others.
    pub(super) fn definitions(&self) -> Vec<Arc<Definition>> {
        self.0.values().map(|stored| Arc::clone(&stored.definition)).collect()
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut StoredDefinition> {
        self.0.values_mut()
    }
}

fn group(stored: &StoredDefinition) -> String {
    stored.definition.group.clone()
}

#[cfg(test)]
mod tests {
    use listwatch_wire::{Revision, json};

    use super::*;

    fn object(group: &str, number: usize, revision: u64) -> Arc<CachedObject> {
        let (plural, kind) = (format!("things{number}"), format!("Thing{number}"));
        let name = format!("{plural}.{group}");
        let value = listwatch_wire::json::json!({
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        });
        let key: Arc<str> = format!("customresourcedefinitions.apiextensions.k8s.io/{name}").into();
        let path = key.find('/').unwrap() + 1;
        Arc::new(
            CachedObject::new(key, path, json::encode_stored(&value).into(), Revision(revision)).unwrap(),
        )
    }

    fn settle(known: &mut KnownDefinitions) {
        known.each().for_each(|stored| (stored.served, stored.settled) = (true, true));
    }

    fn unsettled(known: &mut KnownDefinitions) -> Vec<String> {
        let open = known.each().filter(|stored| !stored.settled);
        open.map(|stored| stored.definition.name.clone()).collect()
    }

    #[test]
    fn one_change_reads_one_definition() {
        let mut objects: Vec<_> = (0..50).map(|n| object("a.example", n, 1)).collect();
        objects.push(object("b.example", 0, 1));
        let mut known = KnownDefinitions::default();
        known.update(objects.iter());
        settle(&mut known);
        let before = known.definitions();
        objects[50] = object("b.example", 0, 2);
        known.update(objects.iter());
        let fresh =
            known.definitions().into_iter().filter(|now| !before.iter().any(|old| Arc::ptr_eq(old, now)));
        assert_eq!(fresh.count(), 1, "the others are those that were read before");
        assert_eq!(unsettled(&mut known), ["things0.b.example"]);
        assert_eq!(known.each().filter(|stored| !stored.served).count(), 1);
    }

    #[test]
    fn names_are_a_matter_of_the_whole_group() {
        let (mine, yours, theirs) =
            (object("a.example", 1, 1), object("a.example", 2, 1), object("b.example", 1, 1));
        let mut known = KnownDefinitions::default();
        known.update([&mine, &yours, &theirs].into_iter());
        settle(&mut known);
        // Without the first definition its names are free for the others.
        known.update([&yours, &theirs].into_iter());
        assert_eq!(unsettled(&mut known), ["things2.a.example"]);
        settle(&mut known);
        known.update([&mine, &yours, &theirs].into_iter());
        assert_eq!(unsettled(&mut known), ["things1.a.example", "things2.a.example"]);
        assert_eq!(known.each().filter(|stored| stored.served).count(), 2, "what is served stays as it is");
        known.update(std::iter::empty());
        assert_eq!(known.each().count(), 0, "nothing is kept of what is gone");
    }
}
