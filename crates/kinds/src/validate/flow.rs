//! Validation of FlowSchemas and PriorityLevelConfigurations (API Priority and Fairness).
//!
//! `handSize` and `queues` are bounded together because shuffle sharding deals the hand from one 64-bit hash:
//! kube-apiserver allows 60 bits of entropy. A FlowSchema may name a priority level that does not exist; such requests
//! fall through at run time and are not errors here. The limits themselves are applied by the server's fairness module.

use std::sync::LazyLock;

use listwatch_wire::json::Value;

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] = checks![hand_fits_the_deck, mandatory_spec_is_fixed];

/// Bits of the hash that cards are dealt by.
const MAX_BITS: f64 = 60.0;

/// The specs of the objects that classify and hold every request in the end, by kind and name. They cannot be changed, except the
/// shares of the exempt level.
static FIXED: LazyLock<Value> =
    LazyLock::new(|| Value::read(include_bytes!("../rules/fixed_specs.json")).unwrap_or_default());

/// A mandatory object has its fixed spec.
fn mandatory_spec_is_fixed(at: &At<'_>, errors: &mut Errors) {
    let (kind, name) = (at.value.text("kind"), at.value.at("metadata").text("name"));
    let fixed = FIXED.at(kind).at(name);
    if fixed.is_null() {
        return;
    }
    let mut given = at.value.at("spec").clone();
    let exempt = fixed.text("type") == "Exempt";
    let except = if exempt { " except the 'spec.exempt' field" } else { "" };
    if exempt {
        given.drop_field("exempt");
    }
    if given != *fixed {
        let detail = format!("spec of '{name}'{except} must equal the fixed value");
        errors.invalid(&at.path.child("spec"), at.value.at("spec").clone(), detail);
    }
}

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
