//! Priorities, and fairness between tenants.

use std::time::Duration;

use crate::simulation::{self, Scenario};
use crate::take_all;
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

/// A queue in which `a` has a thousand keys and has used up what counts as its share.
fn flooded() -> Queue<Key> {
    let queue = fair(Options::new());
    (0..1000).for_each(|n| queue.add(('a', n)).unwrap());
    (0..100).for_each(|_| drop(queue.try_get()));
    queue
}

/// Whose keys the next `count` are.
fn next(queue: &Queue<Key>, count: usize) -> String {
    (0..count).map(|_| queue.try_get().unwrap().key().0).collect()
}

#[test]
fn a_tenant_that_was_quiet_goes_before_one_that_floods() {
    let queue = flooded();
    queue.add(('b', 0)).unwrap();
    queue.add(('c', 0)).unwrap();
    assert_eq!(next(&queue, 3), "bca");
}

/// Turns alone let the flood in between two keys of a tenant that has hardly had any.
#[test]
fn a_burst_within_a_tenants_share_is_not_mixed_with_the_flood() {
    let queue = flooded();
    (0..3).for_each(|n| queue.add(('b', n)).unwrap());
    queue.add(('c', 0)).unwrap();
    assert_eq!(next(&queue, 6), "bcbbaa");
}

#[test]
fn a_flood_that_never_ends_gets_its_share_and_no_more() {
    let queue = flooded();
    (0..1000).for_each(|n| queue.add(('b', n)).unwrap());
    let order = next(&queue, 400);
    let (first, later) = order.split_at(100);
    let share = |of: &str| of.matches('a').count();
    assert!(share(first) < share(later), "b was quiet before: {order}");
    assert!((145..=155).contains(&share(later)), "half of 300: {order}");
}

#[test]
fn trickling_keys_in_one_by_one_wins_no_advantage() {
    let queue = flooded();
    let order: String = (0..400)
        .map(|n| {
            queue.add(('b', n)).unwrap();
            next(&queue, 1)
        })
        .collect();
    let share = order[100..].matches('b').count();
    assert!((145..=155).contains(&share), "half of 300: {order}");
}

#[test]
fn when_nothing_waits_all_start_anew() {
    let queue = flooded();
    take_all(&queue);
    (0..3).for_each(|n| queue.add(('a', n)).unwrap());
    queue.add(('b', 0)).unwrap();
    assert_eq!(next(&queue, 4), "abaa");
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

/// Two seconds of the simulation, from ten seeds.
fn soak(load: f64) -> impl Iterator<Item = (simulation::Waits, simulation::Waits)> {
    (1..=10).map(move |seed| Scenario::fair(load, 2_000_000_000).compare(seed))
}

/// 100 tenants, one of which adds a thousand times as much as the others. See [`simulation`] for why these are the bounds.
fn check_cost_of_flood(load: f64) {
    let run = Duration::from_nanos(simulation::RUN_MEAN as u64);
    let runs: Vec<_> = soak(load).collect();
    for (seed, (quiet, flooded)) in (1..).zip(&runs) {
        let (before, after) = (quiet.mean + run, flooded.mean + run);
        assert!(after <= before * 2, "load {load}, seed {seed}: from add to done {before:?} {after:?}");
    }
    let mean = |waits: &dyn Fn(&(simulation::Waits, simulation::Waits)) -> Duration| {
        runs.iter().map(waits).sum::<Duration>() / runs.len() as u32
    };
    let (quiet, flooded) = (mean(&|run| run.0.mean), mean(&|run| run.1.mean));
    let least = simulation::least_wait(load);
    assert!(flooded <= quiet + run, "load {load}: {quiet:?} {flooded:?}");
    assert!(flooded <= least.mul_f64(1.1), "load {load}: {flooded:?}, possible {least:?}");
    if load >= 0.8 {
        let (quiet_p99, flooded_p99) = (mean(&|run| run.0.p99), mean(&|run| run.1.p99));
        assert!(flooded <= quiet * 2, "load {load}: mean {quiet:?} {flooded:?}");
        assert!(flooded_p99 <= quiet_p99 * 2, "load {load}: p99 {quiet_p99:?} {flooded_p99:?}");
    }
}

#[test]
fn a_flood_costs_less_than_one_run_when_workers_are_mostly_idle() {
    check_cost_of_flood(0.25);
}

#[test]
fn a_flood_costs_less_than_one_run_at_half_load() {
    check_cost_of_flood(0.5);
}

#[test]
fn a_flood_costs_less_than_one_run_at_three_quarters_load() {
    check_cost_of_flood(0.75);
}

#[test]
fn a_flood_at_most_doubles_the_queueing_time_of_the_others() {
    check_cost_of_flood(0.8);
    check_cost_of_flood(0.9);
}

/// Run times of a flood may be long. Keeping it from some of the workers bounds what it costs the others.
#[test]
fn a_cap_on_keys_in_flight_keeps_workers_free_of_the_flood() {
    let scenario = Scenario::fair(0.5, 2_000_000_000);
    let capped = Scenario { in_flight_max: 2, ..scenario };
    let ((_, flooded), (_, spared)) = (scenario.compare(1), capped.compare(1));
    assert!(spared.mean < flooded.mean.mul_f64(0.8), "{spared:?} {flooded:?}");
}

/// The same without fairness, to see that the simulation detects the difference.
#[test]
fn without_fairness_the_same_flood_delays_every_tenant() {
    let scenario = Scenario { fair: false, ..Scenario::fair(0.8, 2_000_000_000) };
    let (quiet, flooded) = scenario.compare(1);
    assert!(flooded.mean > quiet.mean * 1000);
}
