//! Shuffle sharding: assigns each flow a hand of a few queues, from a hash of the flow. Pure.
//!
//! A flow that floods its queues fills only its hand, and hardly any other flow has the same one; a request goes to
//! the queue of the hand with the least work. The dealing is kube-apiserver's, so that hand sizes mean the same.
//! `queues.rs` is the caller.

use smallvec::SmallVec;

/// The queues of a flow: `size` different ones of `queues`, by a hash of the flow.
pub(super) fn hand(mut hash: u64, queues: usize, size: usize) -> SmallVec<[usize; 8]> {
    let mut drawn: SmallVec<[usize; 8]> = SmallVec::new();
    for taken in 0..size.min(queues) {
        let left = (queues - taken) as u64;
        let mut card = usize::try_from(hash % left).unwrap_or(0);
        hash /= left;
        // `card` is an index among the cards that are left: it moves past each card that was drawn before.
        let mut place = 0;
        while drawn.get(place).is_some_and(|earlier| *earlier <= card) {
            card += 1;
            place += 1;
        }
        drawn.insert(place, card);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_hand_has_different_queues_and_hands_differ() {
        let mut hands = HashSet::new();
        for n in 0_u64..1000 {
            let hand = hand(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 128, 6);
            assert_eq!(hand.iter().collect::<HashSet<_>>().len(), 6, "{hand:?}");
            assert!(hand.iter().all(|queue| *queue < 128));
            hands.insert(hand);
        }
        assert!(hands.len() > 990);
        assert_eq!(hand(5, 1, 1).as_slice(), [0]);
        assert_eq!(hand(5, 3, 9).as_slice(), [0, 1, 2]);
    }
}
