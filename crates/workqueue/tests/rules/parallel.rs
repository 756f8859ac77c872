//! A fixed number of pieces, several at a time.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::ms;
use listwatch_workqueue::Parallel;
use tokio::time::{Instant, sleep};

type Log = Arc<Mutex<Vec<usize>>>;

#[tokio::test(start_paused = true)]
async fn every_piece_runs_once_whatever_the_chunk() {
    for chunk in [0, 1, 3, 100, usize::MAX] {
        let log = Log::default();
        let seen = Arc::clone(&log);
        let pieces = Parallel::new(4).chunk(chunk).run(10, move |piece| {
            let seen = Arc::clone(&seen);
            async move { seen.lock().unwrap().push(piece) }
        });
        assert_eq!(pieces.await.done, 10);
        let mut log = log.lock().unwrap().clone();
        log.sort_unstable();
        assert_eq!(log, (0..10).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_run_at_once_as_there_are_workers_or_chunks() {
    for (workers, chunk, expected) in [(4, 1, 3), (100, 1, 1), (100, 5, 5), (0, 1, 10)] {
        let start = Instant::now();
        Parallel::new(workers).chunk(chunk).run(10, |_| sleep(ms(10))).await;
        let rounds = start.elapsed().as_millis() / 10;
        assert_eq!(rounds, expected, "{workers} workers, chunks of {chunk}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_piece_begins_after_the_stop_and_those_that_have_begun_are_waited_for() {
    let start = Instant::now();
    let pieces = Parallel::new(2).chunk(5).run_until(sleep(ms(15)), 100, |_| sleep(ms(10))).await;
    assert_eq!(pieces.done, 4, "two at a time, begun at 0 and at 10 ms");
    assert_eq!(start.elapsed().as_millis(), 20);
}

#[tokio::test(start_paused = true)]
async fn stopped_from_the_start_nothing_begins() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let work = move |_| {
        count.fetch_add(1, Relaxed);
        std::future::ready(())
    };
    let pieces = Parallel::new(2).run_until(std::future::ready(()), 10, work).await;
    assert_eq!((pieces.done, begun.load(Relaxed)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_panic_concerns_only_its_piece() {
    let pieces = Parallel::new(3)
        .chunk(4)
        .run(10, |piece| {
            assert!(piece != 5, "before the future exists");
            async move { assert!(piece != 2, "inside the future") }
        })
        .await;
    assert_eq!((pieces.done, pieces.panicked), (8, vec![2, 5]));
}

#[tokio::test(start_paused = true)]
async fn dropping_it_stops_the_pieces() {
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let work = move |_| {
        let count = Arc::clone(&count);
        async move {
            sleep(ms(10)).await;
            count.fetch_add(1, Relaxed);
        }
    };
    let run = Parallel::new(2).run(100, work);
    assert!(tokio::time::timeout(ms(25), run).await.is_err());
    sleep(ms(100)).await;
    assert_eq!(done.load(Relaxed), 4);
}
