//! Tests of the index: lookups, growth and keys with equal hashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn insert(index: &mut KeyIndex, hashes: &mut BTreeMap<Slot, u32>, hash: u32, slot: Slot) {
    if index.is_full() {
        index.grow(hashes.iter().map(|(slot, hash)| (*hash, *slot)));
    }
    index.insert(hash, slot);
    hashes.insert(slot, hash);
}

fn found(index: &KeyIndex, hash: u32, slot: Slot) -> bool {
    index.find(hash, |other| other == slot) == Some(slot)
}

proptest! {
    /// Few different hashes, so that keys overflow halves and lines; whatever the order, each must be found until it is removed.
    #[test]
    fn whatever_comes_and_goes_is_found_while_it_is_there(
        steps in prop::collection::vec((0..300_u32, 0..4_u32, any::<bool>()), 1..600),
    ) {
        let (mut index, mut hashes) = (KeyIndex::new(), BTreeMap::new());
        for (slot, spread, comes) in steps {
            let known = hashes.get(&slot).copied();
            match (known, comes) {
                (None, true) => insert(&mut index, &mut hashes, (spread << 24) | (slot % (8 << spread)), slot),
                (Some(hash), false) => {
                    index.remove(hash, slot);
                    hashes.remove(&slot);
                    prop_assert!(!found(&index, hash, slot));
                }
                _ => {}
            }
            prop_assert!(hashes.iter().all(|(slot, hash)| found(&index, *hash, *slot)));
            prop_assert_eq!(index.len, hashes.len());
        }
    }
}

/// Keys with one hash fill several lines in a row, and counts reach their maximum; removing them in any order must
/// leave the others to be found.
#[test]
fn hundreds_of_keys_with_one_hash() {
    let (mut index, mut hashes) = (KeyIndex::new(), BTreeMap::new());
    (0..700).for_each(|slot| insert(&mut index, &mut hashes, 1, slot));
    for gone in (0..700).map(|n| n * 79 % 700) {
        assert!(found(&index, 1, gone));
        index.remove(1, gone);
        assert!(!found(&index, 1, gone));
    }
    assert_eq!(index.len, 0);
}
