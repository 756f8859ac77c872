//! Tests of the shares of CPU time, with times passed in.

use super::*;

/// Half of one processor.
const RATE: f64 = 0.5;
const MS: Duration = Duration::from_millis(1);

/// A user whose requests take 100 µs each and come as fast as they are answered, for so long beside another one.
fn flood(paces: &mut Paces<u32>, from: Instant, time: Duration) -> u32 {
    let (mut now, mut answered) = (from, 0);
    paces.enter(2, Some(true), now);
    while now < from + time {
        for _ in 0..20 {
            match paces.enter(1, Some(true), now) {
                true => {
                    answered += 1;
                    paces.charge(1, Duration::from_micros(100), now);
                }
                false => paces.wait(1, 0),
            }
        }
        now += MS;
        assert!(paces.enter(2, Some(true), now), "the other one never waits");
        for _ in paces.release(now) {
            answered += 1;
            paces.charge(1, Duration::from_micros(100), now);
        }
    }
    answered
}

#[test]
fn a_flood_has_its_share_and_the_other_user_never_waits() {
    let now = Instant::now();
    let answered = flood(&mut Paces::new(RATE, now), now, Duration::from_secs(1));
    // Half a second of a second, and what it may be ahead.
    assert!((4500..5300).contains(&answered), "{answered} requests of 100 µs");
}

#[test]
fn a_single_user_is_not_paced() {
    let now = Instant::now();
    let mut paces = Paces::new(RATE, now);
    for _ in 0..1000 {
        assert!(paces.enter(1, Some(true), now));
        paces.charge(1, MS, now);
    }
    assert!(paces.users.is_empty(), "nothing is counted");
    assert!(paces.enter(2, Some(true), now) && paces.enter(1, Some(true), now));
    paces.charge(1, 100 * MS, now);
    assert!(!paces.enter(1, Some(true), now));
    paces.wait(1, "a");
    paces.wait(1, "b");
    assert!(paces.release(now + MS).is_empty());
    assert_eq!(paces.release(now + ALONE), ["a", "b"], "the other one has been quiet for long enough");
    assert!(paces.enter(1, Some(true), now + ALONE) && paces.users.is_empty());
}

#[test]
fn components_of_the_cluster_do_not_wait() {
    let now = Instant::now();
    let mut paces = Paces::<()>::new(RATE, now);
    assert!(paces.enter(2, Some(true), now) && paces.enter(1, Some(false), now));
    paces.charge(1, 100 * MS, now);
    assert!(paces.enter(1, Some(false), now) && paces.enter(1, None, now), "nor do pieces of their answers");
    assert!(!paces.enter(1, Some(true), now), "their requests of another level do");
}

#[test]
fn users_and_requests_that_have_gone_are_forgotten() {
    let now = Instant::now();
    let mut paces = Paces::new(RATE, now);
    for user in 0..10 * MAX_USERS as u64 {
        paces.enter(user, Some(true), now);
        paces.charge(user, Duration::from_nanos(1), now);
        assert!(paces.users.len() <= MAX_USERS);
    }
    let later = now + SWEEP;
    assert!(paces.enter(u64::MAX, Some(true), later) && paces.users.len() < 10, "their shares are even");
    paces.charge(u64::MAX, 100 * MS, later);
    assert!(!paces.enter(u64::MAX, Some(true), later));
    (0..100).for_each(|n| paces.wait(u64::MAX, n));
    (0..99).for_each(|_| paces.leave(u64::MAX, |n| *n != 7));
    assert_eq!(paces.users[&u64::MAX].waiting, [7]);
}

#[tokio::test(start_paused = true)]
async fn a_request_beyond_the_share_waits_until_the_share_has_caught_up() {
    let pacing = Arc::new(Pacing::new(50, 1));
    let run = tokio::spawn(Arc::clone(&pacing).run());
    assert_eq!(pacing.enter(2, Some(true)).await, None);
    assert_eq!(pacing.enter(1, Some(true)).await, None);
    assert!(pacing.is_shared());
    pacing.charge(1, 20 * MS);
    let (waited, other) = tokio::join!(pacing.enter(1, Some(true)), pacing.enter(2, Some(true)));
    assert!((38 * MS..42 * MS).contains(&waited.unwrap()), "{waited:?} for 20 ms at a half");
    assert_eq!(other, None);
    pacing.charge(1, 20 * MS);
    let gone = tokio::time::timeout(MS, pacing.enter(1, Some(true))).await;
    assert!(gone.is_err());
    assert!(pacing.paces.as_ref().unwrap().lock().users[&1].waiting.is_empty(), "it has left its place");
    tokio::time::sleep(ALONE).await;
    assert_eq!(pacing.enter(1, Some(true)).await, None);
    assert!(!pacing.is_shared(), "nobody else is there");
    run.abort();
}
