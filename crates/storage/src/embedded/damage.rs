//! [`StoreDamage`]: detected damage to the files that still exists.
//!
//! A damaged value is repaired when its key is written or deleted, because it is then no longer read as the state of
//! the key. Other damage is reported until the process ends, because it does not repair itself.

use std::collections::BTreeMap;

use listwatch_wire::Revision;

use super::checksum::DamagedValue;
use crate::Health;

/// The most damaged keys that are tracked individually. Damage beyond it is not cleared by writing.
const MAX_KEYS: usize = 1000;

/// Damage that was found.
#[derive(Debug, Default)]
pub(super) struct StoreDamage {
    /// The damaged values that are current, by key.
    values: BTreeMap<String, DamagedValue>,
    /// Damage that no write repairs.
    rest: Option<String>,
}

impl StoreDamage {
    /// Notes a damaged value that is the current one of its key.
    pub(super) fn found_value(&mut self, value: DamagedValue) {
        if self.values.len() < MAX_KEYS || self.values.contains_key(&value.key) {
            self.values.insert(value.key.clone(), value);
        } else {
            self.rest = Some(value.to_string());
        }
    }

    /// Notes damage to anything else.
    pub(super) fn found(&mut self, reason: String) {
        self.rest = Some(reason);
    }

    /// Clears the damage to a key that was written at a revision.
    pub(super) fn written(&mut self, key: &str, at: Revision) {
        if self.values.get(key).is_some_and(|value| value.revision < at) {
            self.values.remove(key);
        }
    }

    /// Returns true if there is no damage that a write could repair.
    pub(super) fn is_settled(&self) -> bool {
        self.values.is_empty()
    }

    /// The health of a store that has no other trouble.
    pub(super) fn health(&self) -> Health {
        let value = self.values.values().next().map(ToString::to_string);
        self.rest.clone().or(value).map_or(Health::Ready, Health::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &str, revision: u64) -> DamagedValue {
        DamagedValue { key: key.to_owned(), revision: Revision(revision) }
    }

    #[test]
    fn a_write_mends_its_own_key_only() {
        let mut damage = StoreDamage::default();
        damage.found_value(value("/a", 3));
        damage.found_value(value("/b", 4));
        damage.written("/a", Revision(9));
        damage.written("/c", Revision(9));
        assert!(matches!(damage.health(), Health::Damaged(why) if why.contains("/b")));
        damage.written("/b", Revision(4));
        assert!(!damage.is_settled(), "the damaged write itself");
        damage.written("/b", Revision(10));
        assert_eq!(damage.health(), Health::Ready);
    }

    #[test]
    fn no_write_mends_the_file() {
        let mut damage = StoreDamage::default();
        damage.found("the file is no database".to_owned());
        damage.written("/a", Revision(9));
        assert!(matches!(damage.health(), Health::Damaged(_)));
    }

    #[test]
    fn remembered_damage_is_bounded() {
        let mut damage = StoreDamage::default();
        (0..=MAX_KEYS).for_each(|n| damage.found_value(value(&format!("/{n}"), 1)));
        (0..=MAX_KEYS).for_each(|n| damage.written(&format!("/{n}"), Revision(2)));
        assert!(damage.is_settled() && matches!(damage.health(), Health::Damaged(_)));
    }
}
