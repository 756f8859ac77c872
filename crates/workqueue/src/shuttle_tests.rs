//! The concurrent shell under shuttle, which runs each test many times with the threads interleaved at random at
//! every lock and atomic. A lost wake-up shows as a deadlock, a broken rule as a failed assertion.

use std::collections::HashSet;

use shuttle::sync::{Arc, Mutex};
use shuttle::{future, thread};

use crate::{Drained, Options, Priority, Queue};

const SCHEDULES: usize = 2000;

fn check(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_pct(test, SCHEDULES, 3);
}

/// Counts the keys it gets, and asserts that no other consumer has the same key at the same time.
fn consume(queue: &Queue<u32>, running: &Mutex<HashSet<u32>>) -> usize {
    let Some(mut item) = queue.get_blocking() else { return 0 };
    let mut count = 0;
    loop {
        assert!(running.lock().unwrap().insert(*item.key()), "processed twice at once");
        thread::yield_now();
        running.lock().unwrap().remove(item.key());
        count += 1;
        if !item.next_blocking() {
            return count;
        }
    }
}

#[test]
fn no_key_and_no_wake_is_lost_between_producers_and_consumers() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        let running: Arc<Mutex<HashSet<u32>>> = Arc::new(Mutex::new(HashSet::new()));
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, running) = (queue.clone(), Arc::clone(&running));
                thread::spawn(move || consume(&queue, &running))
            })
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let queue = queue.clone();
                thread::spawn(move || (0..3).for_each(|key| queue.add(producer * 2 + key).unwrap()))
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.shut_down();
        let handed_out: usize = consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum();
        assert!((5..=6).contains(&handed_out), "five keys, one of which may run twice: {handed_out}");
        assert_eq!(queue.known(), 0);
    });
}

#[test]
fn a_sleeping_consumer_is_woken_by_every_way_to_add() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        let consumer = thread::spawn({
            let queue = queue.clone();
            move || {
                let first = queue.get_blocking().map(|item| *item.key());
                let second = queue.get_blocking().map(|item| *item.key());
                (first.is_some(), second.is_some())
            }
        });
        let urgent = thread::spawn({
            let queue = queue.clone();
            move || queue.add_with(1, (), Priority::Urgent).unwrap()
        });
        queue.add(2).unwrap();
        urgent.join().unwrap();
        assert_eq!(consumer.join().unwrap(), (true, true));
    });
}

#[test]
fn a_key_added_during_its_run_wakes_someone_after_it() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        queue.add(1).unwrap();
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || queue.get_blocking().map(|item| *item.key()))
            })
            .collect();
        queue.add(2).unwrap();
        let mut got: Vec<_> = consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [Some(1), Some(2)]);
    });
}

#[test]
fn a_cancelled_get_passes_its_wake_on() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        let patient = future::spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| *item.key()) }
        });
        let impatient = future::spawn({
            let queue = queue.clone();
            async move {
                let mut get = Box::pin(queue.get());
                // Looks once, so that it may be among the sleepers, and goes away holding nothing.
                std::future::poll_fn(|cx| {
                    if let std::task::Poll::Ready(Some(item)) = get.as_mut().poll(cx) {
                        queue.add(*item.key()).unwrap();
                    }
                    std::task::Poll::Ready(())
                })
                .await;
                future::yield_now().await;
            }
        });
        let producer = thread::spawn(move || queue.add(7).unwrap());
        producer.join().unwrap();
        future::block_on(impatient).unwrap();
        assert_eq!(future::block_on(patient).unwrap(), Some(7));
    });
}

#[test]
fn every_drain_returns_when_and_only_when_all_is_done() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        (0..3).for_each(|key| queue.add(key).unwrap());
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || while queue.get_blocking().is_some() {})
            })
            .collect();
        let drains: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || {
                    assert_eq!(future::block_on(queue.shut_down_with_drain()), Drained::Complete);
                    assert_eq!((queue.len(), queue.in_flight()), (0, 0));
                })
            })
            .collect();
        drains.into_iter().for_each(|drain| drain.join().unwrap());
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    });
}

#[test]
fn producers_that_wait_for_room_all_get_in() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new().capacity(1));
        let producers: Vec<_> = (0..3)
            .map(|key| {
                let queue = queue.clone();
                thread::spawn(move || future::block_on(queue.add_wait(key)).unwrap())
            })
            .collect();
        let mut got: Vec<_> = (0..3).filter_map(|_| queue.get_blocking().map(|item| *item.key())).collect();
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
}

#[test]
fn resuming_wakes_a_consumer_that_slept_through_adds() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        queue.pause();
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || queue.get_blocking().map(|item| *item.key()).is_some())
            })
            .collect();
        queue.add(1).unwrap();
        queue.add(2).unwrap();
        queue.resume();
        assert!(consumers.into_iter().all(|consumer| consumer.join().unwrap()));
    });
}

/// Delayed adds may go by the inbox or straight into the state, depending on whether someone sleeps.
#[test]
fn a_delayed_add_is_known_at_once_wherever_the_consumer_is() {
    check(|| {
        let queue: Queue<u32> = Queue::new(Options::new());
        let consumer = thread::spawn({
            let queue = queue.clone();
            move || queue.get_blocking().map(|item| *item.key())
        });
        let hour = std::time::Duration::from_secs(3600);
        let other = thread::spawn({
            let queue = queue.clone();
            move || queue.add_after(1, hour).unwrap()
        });
        queue.add_after(2, hour).unwrap();
        assert!(queue.cancel(&2));
        other.join().unwrap();
        assert_eq!(queue.shut_down(), 1);
        assert_eq!(consumer.join().unwrap(), None);
    });
}
