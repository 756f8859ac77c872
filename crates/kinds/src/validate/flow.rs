//! Validation of FlowSchemas and PriorityLevelConfigurations (API Priority and Fairness).
//!
//! `handSize` and `queues` are bounded together because shuffle sharding deals the hand from one 64-bit hash:
//! kube-apiserver allows 60 bits of entropy. A FlowSchema may name a priority level that does not exist; such requests
//! fall through at run time and are no error here. The limits themselves are applied by the server's fairness module.

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![hand_fits_the_deck];

/// Bits of the hash that cards are dealt by.
const MAX_BITS: f64 = 60.0;

/// The hash has enough entropy for a hand of this size. That the hand is not larger than the deck is checked by an
/// earlier row.
fn hand_fits_the_deck(at: &At<'_>, errors: &mut Errors) {
    let (hand, queues) = (at.parent.int("handSize").unwrap_or(0), at.parent.int("queues").unwrap_or(0));
    let bits: f64 = (0..hand.min(100))
        .map(|dealt| f64::from(i32::try_from(queues - dealt).unwrap_or(i32::MAX)).log2())
        .sum();
    if hand > 0 && bits > MAX_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than 60"
        );
        errors.invalid(at.path, hand, detail);
    }
}
