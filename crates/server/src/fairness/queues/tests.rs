//! Fair queuing with a clock that is passed in: shares between flows, wide requests, full queues and requests that
//! give up.

use super::*;

const QUEUING: QueueSettings = QueueSettings { queues: 64, hand: 6, length: 50 };

fn second(now: Instant, millis: u64) -> Instant {
    now + Duration::from_millis(millis)
}

fn place(arrival: Arrival) -> SeatPlace {
    match arrival {
        Arrival::Runs(place) => place,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_within_the_seats_run_and_others_wait_their_turn() {
    let start = Instant::now();
    let mut queues = Queues::new(QUEUING, 2, start);
    let first = place(queues.arrive(start, 1, 1, || "a"));
    place(queues.arrive(start, 1, 1, || "b"));
    assert!(matches!(queues.arrive(start, 1, 1, || "c"), Arrival::Waits(..)));
    assert_eq!((queues.in_use(), queues.waiting()), (2, 1));
    let turns = queues.leave(second(start, 5), first, Duration::from_millis(5));
    assert_eq!(turns.iter().map(|(token, _)| *token).collect::<Vec<_>>(), ["c"]);
    assert_eq!((queues.in_use(), queues.waiting()), (2, 0));
}

#[test]
fn a_level_without_queues_rejects_and_a_full_queue_does() {
    let start = Instant::now();
    let mut queues = Queues::new(QueueSettings { queues: 0, hand: 0, length: 0 }, 1, start);
    place(queues.arrive(start, 1, 1, || ()));
    assert_eq!(queues.arrive(start, 1, 1, || ()), Arrival::NoSeat);
    let mut queues = Queues::new(QueueSettings { queues: 1, hand: 1, length: 2 }, 1, start);
    place(queues.arrive(start, 1, 1, || ()));
    for _ in 0..2 {
        assert!(matches!(queues.arrive(start, 1, 1, || ()), Arrival::Waits(..)));
    }
    assert_eq!(queues.arrive(start, 1, 1, || ()), Arrival::QueueFull);
}

#[test]
fn a_request_that_gives_up_frees_its_place() {
    let start = Instant::now();
    let mut queues = Queues::new(QUEUING, 1, start);
    let first = place(queues.arrive(start, 1, 1, || 0));
    let Arrival::Waits(waiting, id) = queues.arrive(start, 2, 1, || 1) else { panic!() };
    assert!(queues.give_up(start, waiting, id));
    assert!(!queues.give_up(start, waiting, id));
    assert!(queues.leave(start, first, Duration::ZERO).is_empty());
    assert_eq!((queues.in_use(), queues.waiting(), queues.busy), (0, 0, 0));
}

#[test]
fn wide_requests_take_more_seats_and_are_not_passed_by_for_ever() {
    let start = Instant::now();
    let mut queues = Queues::new(QUEUING, 10, start);
    let narrow = place(queues.arrive(start, 1, 1, || "narrow"));
    assert!(matches!(queues.arrive(start, 2, 10, || "wide"), Arrival::Waits(..)));
    assert!(
        matches!(queues.arrive(start, 1, 1, || "late"), Arrival::Waits(..)),
        "it would pass the wide one by"
    );
    let turns = queues.leave(second(start, 3), narrow, Duration::from_millis(3));
    assert_eq!(turns.len(), 1);
    // One that is wider than the level gets all of it.
    let mut queues = Queues::new(QUEUING, 3, start);
    assert_eq!(place(queues.arrive(start, 1, 10, || ())).seats, 3);
}

/// A closed loop: each flow has so many requests at all times, each of which takes so long. Returns how many of each
/// flow were done.
fn serve(flows: &[(u64, usize, u64)], seats: u32, millis: u64) -> Vec<usize> {
    let start = Instant::now();
    let mut queues: Queues<usize> = Queues::new(QUEUING, seats, start);
    let mut running: Vec<(u64, usize, SeatPlace)> = Vec::new();
    let mut done = vec![0; flows.len()];
    let mut rejected = vec![0; flows.len()];
    let arrive =
        |queues: &mut Queues<usize>, running: &mut Vec<_>, rejected: &mut [usize], flow: usize, at: u64| {
            let (hash, _, takes) = flows[flow];
            match queues.arrive(second(start, at), hash, 1, || flow) {
                Arrival::Runs(place) => running.push((at + takes, flow, place)),
                Arrival::Waits(..) => {}
                _ => rejected[flow] += 1,
            }
        };
    for (flow, (_, count, _)) in flows.iter().enumerate() {
        (0..*count).for_each(|_| arrive(&mut queues, &mut running, &mut rejected, flow, 0));
    }
    for at in 1..millis {
        let (over, rest): (Vec<_>, Vec<_>) = running.into_iter().partition(|(end, ..)| *end <= at);
        running = rest;
        for (_, flow, place) in over {
            done[flow] += 1;
            let took = Duration::from_millis(flows[flow].2);
            for (token, place) in queues.leave(second(start, at), place, took) {
                running.push((at + flows[token].2, token, place));
            }
            arrive(&mut queues, &mut running, &mut rejected, flow, at);
        }
    }
    assert_eq!(rejected[flows.len() - 1], 0, "the last flow is the one to protect");
    done
}

#[test]
fn a_flood_takes_its_share_and_no_more() {
    // 200 at a time against 5: with fair turns the small flow gets what it asks for, up to half.
    let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let done = serve(&[(hash(1), 200, 10), (hash(2), 5, 10)], 10, 2000);
    assert!(done[1] * 3 > done[0], "{done:?}");
    let alone = serve(&[(hash(2), 5, 10)], 10, 2000);
    assert!(done[1] * 3 > alone[0] * 2, "{done:?} beside {alone:?}");
}

#[test]
fn slow_requests_are_paid_for() {
    // Both ask as often; one of them takes ten times as long, and gets as much time, not as many turns.
    let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let done = serve(&[(hash(1), 30, 50), (hash(2), 30, 5)], 4, 5000);
    assert!(done[1] > 3 * done[0], "{done:?}");
}

#[test]
fn demand_is_measured_over_time() {
    let start = Instant::now();
    let mut queues = Queues::new(QUEUING, 4, start);
    let places: Vec<_> = (0..4).map(|n| place(queues.arrive(start, n, 1, || ()))).collect();
    assert!(matches!(queues.arrive(start, 9, 2, || ()), Arrival::Waits(..)));
    let demand = queues.take_demand(second(start, 1000));
    assert_eq!((demand.high, demand.average, demand.deviation), (6.0, 6.0, 0.0));
    for place in places {
        queues.leave(second(start, 1500), place, Duration::from_millis(1500));
    }
    let demand = queues.take_demand(second(start, 2000));
    assert_eq!(demand.high, 6.0);
    assert!((demand.average - 4.0).abs() < 1e-6, "{demand:?}");
    assert!(demand.deviation > 1.9, "{demand:?}");
}
