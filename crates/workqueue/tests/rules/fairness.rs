//! Priorities, and fairness between tenants.

use crate::{simulation, take_all};
use listwatch_workqueue::{Options, Priority, Queue};

type Key = (char, u32);

fn fair(options: Options<Key>) -> Queue<Key> {
    Queue::new(options.fair(|key: &Key| key.0))
}

#[test]
fn background_work_never_delays_live_changes() {
    let queue: Queue<u32> = Queue::new(Options::new());
    (0..100).for_each(|key| queue.add_with(key, (), Priority::Background).unwrap());
    queue.add(1000).unwrap();
    queue.add_with(2000, (), Priority::Urgent).unwrap();
    assert_eq!(take_all(&queue)[..3], [2000, 1000, 0]);
}

#[test]
fn a_live_change_of_a_resynced_key_moves_it_up_and_a_resync_never_moves_it_down() {
    let queue: Queue<u32> = Queue::new(Options::new());
    (0..3).for_each(|key| queue.add_with(key, (), Priority::Background).unwrap());
    queue.add(2).unwrap();
    queue.add_with(2, (), Priority::Background).unwrap();
    assert_eq!(take_all(&queue), [2, 0, 1]);
}

#[test]
fn a_key_added_more_urgently_while_in_flight_returns_with_that_priority() {
    let queue: Queue<u32> = Queue::new(Options::new());
    queue.add_with(1, (), Priority::Background).unwrap();
    let item = queue.try_get().unwrap();
    queue.add_with(1, (), Priority::Background).unwrap();
    queue.add(1).unwrap();
    queue.add_with(2, (), Priority::Background).unwrap();
    drop(item);
    assert_eq!(take_all(&queue), [1, 2]);
}

#[test]
fn a_share_for_the_background_prevents_starvation() {
    let queue: Queue<u32> = Queue::new(Options::new().background_every(3));
    (0..6).for_each(|key| queue.add(key).unwrap());
    queue.add_with(100, (), Priority::Background).unwrap();
    assert_eq!(take_all(&queue), [0, 1, 100, 2, 3, 4, 5]);
}

#[test]
fn tenants_take_turns() {
    let queue = fair(Options::new());
    (0..4).for_each(|n| queue.add(('a', n)).unwrap());
    (0..2).for_each(|n| queue.add(('b', n)).unwrap());
    let order: String = take_all(&queue).into_iter().map(|key| key.0).collect();
    assert_eq!(order, "ababaa");
}

#[test]
fn a_tenant_that_was_quiet_goes_before_one_that_floods() {
    let queue = fair(Options::new());
    (0..1000).for_each(|n| queue.add(('a', n)).unwrap());
    drop(queue.try_get());
    queue.add(('b', 0)).unwrap();
    queue.add(('c', 0)).unwrap();
    let order: String = take_all(&queue).into_iter().take(3).map(|key| key.0).collect();
    assert_eq!(order, "bca");
}

#[test]
fn trickling_keys_in_one_by_one_wins_no_advantage() {
    let queue = fair(Options::new());
    (0..10).for_each(|n| queue.add(('a', n)).unwrap());
    drop(queue.try_get());
    let order: String = (0..6)
        .map(|n| {
            queue.add(('b', n)).unwrap();
            queue.try_get().unwrap().key().0
        })
        .collect();
    assert_eq!(order, "bababa", "the second time around it has to wait for its turn");
}

#[test]
fn a_tenant_never_has_more_in_flight_than_it_may() {
    let queue = fair(Options::new().tenant_in_flight_max(2));
    (0..4).for_each(|n| queue.add(('a', n)).unwrap());
    queue.add(('b', 0)).unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    let order: String = held.iter().map(|item| item.key().0).collect();
    assert_eq!(order, "aba");
    assert_eq!((queue.len(), queue.peek()), (2, None));
    drop(held.remove(0));
    assert_eq!(queue.peek(), Some(('a', 2)));
    held.extend(queue.try_get());
    assert!(queue.try_get().is_none());
    held.clear();
    assert_eq!(take_all(&queue), [('a', 3)]);
    assert_eq!(queue.known(), 0);
}

#[tokio::test]
async fn a_consumer_that_waits_for_a_capped_tenant_is_woken_when_it_may_go_on() {
    let queue = fair(Options::new().tenant_in_flight_max(1));
    queue.add(('a', 0)).unwrap();
    queue.add(('a', 1)).unwrap();
    let item = queue.try_get().unwrap();
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    drop(item);
    assert_eq!(other.await.unwrap(), Some(('a', 1)));
}

#[test]
fn priority_comes_before_fairness_and_peek_agrees() {
    let queue = fair(Options::new());
    queue.add_with(('a', 0), (), Priority::Background).unwrap();
    queue.add(('b', 0)).unwrap();
    queue.add(('b', 1)).unwrap();
    assert_eq!(queue.peek(), Some(('b', 0)));
    assert_eq!(take_all(&queue), [('b', 0), ('b', 1), ('a', 0)]);
}

/// 100 tenants, one of which adds a thousand times as much as the others.
#[test]
fn a_flood_at_most_doubles_the_queueing_time_of_the_others() {
    for seed in 1..=2 {
        for (name, scenario) in simulation::scenarios().into_iter().filter(|(_, scenario)| scenario.fair) {
            let (quiet, flooded) = simulation::compare(&scenario, seed);
            assert!(flooded.mean <= quiet.mean * 2, "{name}, seed {seed}: mean {quiet:?} {flooded:?}");
            assert!(flooded.p99 <= quiet.p99 * 2, "{name}, seed {seed}: p99 {quiet:?} {flooded:?}");
        }
    }
}

/// The same without fairness, to see that the simulation tells the difference.
#[test]
fn without_fairness_the_same_flood_drowns_everyone() {
    let (_, scenario) = simulation::scenarios()[0];
    let (quiet, flooded) = simulation::compare(&scenario, 1);
    assert!(flooded.mean > quiet.mean * 1000);
}
