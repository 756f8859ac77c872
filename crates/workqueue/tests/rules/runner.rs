//! The controller runner.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ms;
use listwatch_workqueue::{Job, Options, Outcome, Queue, Runner, limiter};
use tokio::time::Instant;

type Log = Arc<Mutex<Vec<(&'static str, u32)>>>;

fn queue() -> Queue<&'static str> {
    Queue::new(Options::new().limiter(limiter::default_item_based()))
}

/// Answers each run of a key by the next of its scripted results, and logs key and retries.
fn scripted<E: Clone + Send + 'static>(
    log: &Log,
    script: &[(&'static str, Result<Outcome, E>)],
) -> impl Fn(Job<&'static str>) -> std::future::Ready<Result<Outcome, E>> + Send + Sync + 'static
where
    Result<Outcome, E>: Sync,
{
    let mut answers: HashMap<&'static str, Vec<Result<Outcome, E>>> = HashMap::new();
    script.iter().rev().for_each(|(key, answer)| answers.entry(key).or_default().push(answer.clone()));
    let (log, answers) = (Arc::clone(log), Mutex::new(answers));
    move |job| {
        log.lock().unwrap().push((job.key, job.retries));
        let next = answers.lock().unwrap().get_mut(job.key).and_then(Vec::pop);
        std::future::ready(next.unwrap_or(Ok(Outcome::Done)))
    }
}

/// Lets simulated time pass.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_is_retried_with_the_limiter_until_it_succeeds_and_is_then_forgotten() {
    let (queue, log) = (queue(), Log::default());
    let script = [("a", Err("no")), ("a", Err("no")), ("a", Ok(Outcome::Done)), ("a", Ok(Outcome::Done))];
    let running = Runner::new(scripted(&log, &script)).start(&queue);
    queue.add("a").unwrap();
    pass(ms(100)).await;
    assert_eq!(queue.retries(&"a"), 0);
    queue.add("a").unwrap();
    running.shut_down().await;
    assert_eq!(*log.lock().unwrap(), [("a", 0), ("a", 1), ("a", 2), ("a", 0)]);
}

#[tokio::test(start_paused = true)]
async fn retry_backs_off_like_an_error() {
    let (queue, log) = (queue(), Log::default());
    let script = [("a", Ok(Outcome::Retry)), ("a", Ok::<_, &str>(Outcome::Done))];
    let running = Runner::new(scripted(&log, &script)).start(&queue);
    queue.add("a").unwrap();
    pass(ms(100)).await;
    running.shut_down().await;
    assert_eq!(*log.lock().unwrap(), [("a", 0), ("a", 1)]);
}

#[tokio::test(start_paused = true)]
async fn requeue_after_comes_back_at_its_time_and_is_no_failure() {
    let (queue, log) = (queue(), Log::default());
    let script = [("a", Ok::<_, &str>(Outcome::RequeueAfter(Duration::from_secs(60))))];
    let running = Runner::new(scripted(&log, &script)).start(&queue);
    queue.add("a").unwrap();
    pass(Duration::from_secs(59)).await;
    assert_eq!(log.lock().unwrap().len(), 1);
    pass(Duration::from_secs(2)).await;
    running.shut_down().await;
    assert_eq!(*log.lock().unwrap(), [("a", 0), ("a", 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_concerns_only_its_key_and_is_retried() {
    let queue = queue();
    let done = Arc::new(Mutex::new(Vec::new()));
    let running = Runner::new({
        let done = Arc::clone(&done);
        move |job: Job<&'static str>| {
            let done = Arc::clone(&done);
            assert!(job.key != "at once" || job.retries > 0, "panics before the future exists");
            async move {
                assert!(job.key != "later" || job.retries > 1, "panics inside the future");
                done.lock().unwrap().push(job.key);
                Ok::<_, &str>(Outcome::Done)
            }
        }
    })
    .start(&queue);
    crate::add_all(&queue, ["at once", "later", "fine"]);
    pass(ms(100)).await;
    assert_eq!(queue.in_flight(), 0);
    running.shut_down().await;
    assert_eq!(*done.lock().unwrap(), ["fine", "at once", "later"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_is_dropped_and_retried() {
    let queue = queue();
    let start = Instant::now();
    let running = Runner::new(|job: Job<&'static str>| async move {
        if job.retries == 0 {
            std::future::pending::<()>().await;
        }
        Ok::<_, &str>(Outcome::Done)
    })
    .timeout(Duration::from_secs(5))
    .start(&queue);
    queue.add("a").unwrap();
    pass(ms(4999)).await;
    assert_eq!((queue.in_flight(), queue.retries(&"a")), (1, 0));
    pass(ms(10)).await;
    running.shut_down().await;
    assert_eq!((queue.known(), queue.retries(&"a")), (0, 0));
    assert!(start.elapsed() < Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_key_is_given_up_after_the_allowed_retries() {
    let (queue, log) = (queue(), Log::default());
    let script = vec![("a", Err::<Outcome, _>("no")); 10];
    let running = Runner::new(scripted(&log, &script)).retries_max(2).start(&queue);
    queue.add("a").unwrap();
    pass(Duration::from_secs(60)).await;
    assert_eq!(*log.lock().unwrap(), [("a", 0), ("a", 1), ("a", 2)]);
    assert_eq!((queue.known(), queue.retries(&"a")), (0, 0));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn workers_run_different_keys_at_once_but_each_key_alone() {
    let queue: Queue<u32> = Queue::new(Options::new());
    let start = Instant::now();
    let running = Runner::new(|_: Job<u32>| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, &str>(Outcome::Done)
    })
    .workers(4)
    .start(&queue);
    (0..4).for_each(|key| queue.add(key).unwrap());
    pass(ms(500)).await;
    assert_eq!(queue.in_flight(), 4);
    queue.add(0).unwrap(); // has to wait for its own first run
    running.shut_down().await;
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_in_time_is_ok_and_otherwise_names_what_remains() {
    let slow = || {
        Runner::new(|_: Job<&'static str>| async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok::<_, &str>(Outcome::Done)
        })
    };
    let first = queue();
    let running = slow().start(&first);
    first.add("a").unwrap();
    assert!(running.shut_down_within(Duration::from_secs(11)).await.is_ok());

    let second = queue();
    let running = slow().start(&second);
    second.add("a").unwrap();
    second.add("b").unwrap();
    let mut keys = running.shut_down_within(Duration::from_secs(5)).await.unwrap_err().keys;
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_runner_leaves_the_keys_in_the_queue() {
    let queue = queue();
    let running = Runner::new(|_: Job<&'static str>| async {
        std::future::pending::<()>().await;
        Ok::<_, &str>(Outcome::Done)
    })
    .start(&queue);
    queue.add("a").unwrap();
    pass(ms(1)).await;
    assert_eq!(queue.in_flight(), 1);
    drop(running);
    assert_eq!(*queue.get().await.unwrap().key(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_never_awaits_does_not_starve_the_runtime() {
    let queue: Queue<u32> = Queue::new(Options::new());
    let running = Runner::new({
        let queue = queue.clone();
        move |job: Job<u32>| {
            let _ = queue.add(job.key); // never runs dry
            async { Ok::<_, &str>(Outcome::Done) }
        }
    })
    .start(&queue);
    queue.add(1).unwrap();
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    queue.pause();
    drop(running);
}
