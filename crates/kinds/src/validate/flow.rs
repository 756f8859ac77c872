//! Validation of FlowSchemas and PriorityLevelConfigurations (API Priority and Fairness).
//!
//! `handSize` and `queues` are bounded together because shuffle sharding deals the hand from one 64-bit hash:
//! kube-apiserver allows 60 bits of entropy. A FlowSchema may name a priority level that does not exist; such requests
//! fall through at run time and are no error here. The limits themselves are applied by the server's fairness module.

use listwatch_wire::json::{Value, json};

use crate::field::Errors;
use crate::rules::{At, Check};
use crate::tree::Tree;

pub(super) const CHECKS: &[(&str, Check)] =
    checks![hand_fits_the_deck, mandatory_level_is_fixed, mandatory_schema_is_fixed];

/// Bits of the hash that cards are dealt by.
const MAX_BITS: f64 = 60.0;

/// The FlowSchemas that every request is classified by in the end have a fixed spec.
fn mandatory_schema_is_fixed(at: &At<'_>, errors: &mut Errors) {
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let (precedence, method, subjects) = match at.value.at("metadata").text("name") {
        "exempt" => (1, None, json!([group("system:masters")])),
        "catch-all" => {
            let all = json!([group("system:unauthenticated"), group("system:authenticated")]);
            (10_000, Some(json!({"type": "ByUser"})), all)
        }
        _ => return,
    };
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": at.value.at("metadata").text("name")},
        "matchingPrecedence": precedence,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if let Some(method) = method {
        spec.put("distinguisherMethod", method);
    }
    fixed(at, at.value.at("spec"), &spec, "must equal the fixed value", errors);
}

/// The priority levels of those FlowSchemas have a fixed spec, too, except for the numbers of the exempt one.
fn mandatory_level_is_fixed(at: &At<'_>, errors: &mut Errors) {
    match at.value.at("metadata").text("name") {
        "exempt" => {
            let mut given = at.value.at("spec").clone();
            given.drop_field("exempt");
            let detail = "except the 'spec.exempt' field must equal the fixed value";
            fixed(at, &given, &json!({"type": "Exempt"}), detail, errors);
        }
        "catch-all" => {
            let limited = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0});
            let spec = json!({"type": "Limited", "limited": limited});
            fixed(at, at.value.at("spec"), &spec, "must equal the fixed value", errors);
        }
        _ => {}
    }
}

fn fixed(at: &At<'_>, given: &Value, expected: &Value, detail: &str, errors: &mut Errors) {
    if given != expected {
        let name = at.value.at("metadata").text("name");
        errors.invalid(
            &at.path.child("spec"),
            at.value.at("spec").clone(),
            format!("spec of '{name}' {detail}"),
        );
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
