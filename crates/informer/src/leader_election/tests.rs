//! Tests of the election: first the machine alone with times passed in, then whole candidates under a paused clock.
//! The guarantee behind all of them: two candidates never work at the same time, for any behavior of clocks and lease store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use proptest::prelude::*;
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::sync::Mutex;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn at(monotonic: Instant) -> Now {
    Now { monotonic, wall: Timestamp::UNIX_EPOCH }
}

fn held_by(holder: &str, renew: &str, version: u64) -> Observed {
    let record = LeaseRecord {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        renew_time: Some(renew.to_owned()),
        lease_transitions: Some(4),
        ..LeaseRecord::default()
    };
    Observed { record, version: version.into() }
}

fn candidate(now: Instant) -> ElectionMachine {
    ElectionMachine::new(ElectionOptions::new("me"), now, 1)
}

/// Lets a candidate read; returns true if its next step is a write.
fn reads(machine: &mut ElectionMachine, now: Now, observed: Observed) -> bool {
    machine.on_read(now, &Ok(Some(observed)));
    matches!(machine.step(now), ElectionAction::Write(..))
}

#[test]
fn a_candidate_waits_for_the_whole_lease_from_when_it_saw_the_record_change() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(!reads(&mut machine, at(start), held_by("other", "1", 1)));
    assert!(!reads(&mut machine, at(start + seconds(14)), held_by("other", "2", 2)));
    assert!(!reads(&mut machine, at(start + seconds(28)), held_by("other", "2", 2)));
    assert!(reads(&mut machine, at(start + seconds(29)), held_by("other", "2", 2)));
}

#[test]
fn a_new_version_of_the_same_record_is_no_sign_of_life() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(!reads(&mut machine, at(start), held_by("other", "1", 1)));
    assert!(reads(&mut machine, at(start + seconds(15)), held_by("other", "1", 2)));
}

#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(!reads(&mut machine, at(start), held_by("other", "1", 1)));
    for wall in [Timestamp::MAX, Timestamp::MIN, Timestamp::UNIX_EPOCH] {
        let now = Now { monotonic: start + seconds(14), wall };
        assert!(!reads(&mut machine, now, held_by("other", "1", 1)));
    }
}

/// The wall clock of a virtual machine may stop. Renewals with equal times would not be seen as renewals.
#[test]
fn every_renewal_changes_the_record_even_if_the_wall_clock_does_not_move() {
    let (mut now, lock) = (Instant::now(), InMemoryLease::default());
    let mut machine = candidate(now);
    let mut records = std::collections::HashSet::new();
    for _ in 0..20 {
        play(&mut machine, &lock, at(now), Fault::None);
        records.extend(lock.record().and_then(|record| record.renew_time));
        now += seconds(2);
    }
    assert_eq!(records.len(), 19);
}

/// A process is frozen for a minute while it leads. When it wakes up it must not renew first and look later.
#[test]
fn a_leader_that_was_frozen_gives_up_before_it_writes() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(reads(&mut machine, at(start), held_by("", "1", 1)));
    machine.on_write(at(start), &Ok(held_by("me", "2", 2)));
    assert!(machine.term().is_some());
    assert!(matches!(machine.step(at(start + seconds(60))), ElectionAction::Lost(_)));
    assert_eq!(machine.term(), None);
}

#[test]
fn a_lease_is_counted_from_the_request_not_from_the_answer() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(reads(&mut machine, at(start), held_by("", "1", 1)));
    machine.on_write(at(start + seconds(6)), &Ok(held_by("me", "2", 2)));
    assert_eq!(machine.term().map(|term| term.valid_until), Some(start + seconds(15)));
}

#[test]
fn a_leader_that_reads_another_name_has_lost() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(reads(&mut machine, at(start), held_by("", "1", 1)));
    machine.on_write(at(start), &Ok(held_by("me", "2", 2)));
    let later = at(start + seconds(3));
    assert!(matches!(machine.step(later), ElectionAction::Write(..)));
    machine.on_write(later, &Err(LockError::Conflict));
    assert_eq!(machine.step(later), ElectionAction::Read);
    machine.on_read(later, &Ok(Some(held_by("other", "3", 3))));
    assert!(matches!(machine.step(later), ElectionAction::Lost(_)));
}

#[test]
fn tokens_grow_even_if_the_record_is_deleted_or_edited() {
    let start = Instant::now();
    let mut machine = candidate(start);
    assert!(!reads(&mut machine, at(start), held_by("other", "1", 1)));
    let later = at(start + seconds(60));
    assert_eq!(machine.step(later), ElectionAction::Read);
    machine.on_read(later, &Ok(None));
    let ElectionAction::Write(record, None) = machine.step(later) else { panic!("no creation") };
    assert_eq!(record.lease_transitions, Some(5));
    let mut edited = held_by("", "1", 1);
    edited.record.lease_transitions = Some(-7);
    machine.on_read(later, &Ok(Some(edited)));
    let ElectionAction::Write(record, Some(_)) = machine.step(later) else { panic!("no update") };
    assert_eq!(record.lease_transitions, Some(5));
}

#[test]
fn fields_of_later_versions_survive() {
    let mut observed = held_by("", "1", 1);
    observed.record.other.insert("strategy".into(), "OldestEmulationVersion".into());
    let mut machine = candidate(Instant::now());
    machine.on_read(at(Instant::now()), &Ok(Some(observed)));
    let ElectionAction::Write(record, _) = machine.step(at(Instant::now())) else { panic!("no write") };
    assert_eq!(serde_json::to_value(record).unwrap()["strategy"], "OldestEmulationVersion");
}

/// The ways in which a request fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    RequestLost,
    AnswerLost,
}

/// One move of a candidate against a shared lock.
fn play(machine: &mut ElectionMachine, lock: &InMemoryLease, now: Now, fault: Fault) {
    let lost = || LockError::Failed("lost".to_owned());
    match (machine.step(now), fault) {
        (ElectionAction::Read, Fault::None) => {
            let read = lock.read().now_or_never().unwrap();
            machine.on_read(now, &read);
        }
        (ElectionAction::Read, _) => machine.on_read(now, &Err(lost())),
        (ElectionAction::Write(..), Fault::RequestLost) => machine.on_write(now, &Err(lost())),
        (ElectionAction::Write(record, over), fault) => {
            let result = lock.write(&record, over.as_ref()).now_or_never().unwrap();
            let result = if matches!(fault, Fault::AnswerLost) { Err(lost()) } else { result };
            machine.on_write(now, &result);
        }
        _ => {}
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![8 => Just(Fault::None), 1 => Just(Fault::RequestLost), 1 => Just(Fault::AnswerLost)]
}

proptest! {
    /// One leader at a time, and a new token for each term, despite lost messages and suspended candidates.
    #[test]
    fn never_two_leaders(moves in prop::collection::vec((0..3_usize, 0..4_000_u64, fault()), 1..200)) {
        let (start, lock) = (Instant::now(), InMemoryLease::default());
        let mut candidates: Vec<_> = ["a", "b", "c"].iter().enumerate()
            .map(|(n, name)| ElectionMachine::new(ElectionOptions::new(*name), start, n as u64)).collect();
        let mut tokens: BTreeMap<u32, usize> = BTreeMap::new();
        let mut now = start;
        for (who, pause, fault) in moves {
            now += Duration::from_millis(pause);
            play(&mut candidates[who], &lock, at(now), fault);
            let leaders: Vec<_> = candidates.iter().enumerate()
                .filter_map(|(n, machine)| Some((n, machine.term()?)))
                .filter(|(_, term)| term.valid_until > now).collect();
            prop_assert!(leaders.len() <= 1, "{leaders:?}");
            for (n, term) in leaders {
                prop_assert_eq!(*tokens.entry(term.fencing_token).or_insert(n), n);
                prop_assert_eq!(tokens.keys().next_back(), Some(&term.fencing_token));
            }
        }
    }
}

/// The calls of the hooks of all candidates, in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn candidate(&self, name: &str, lock: &Arc<InMemoryLease>) -> LeaderElection<Arc<InMemoryLease>> {
        let (diary, who) = (self.clone(), name.to_owned());
        let election = LeaderElection::new(Arc::clone(lock), ElectionOptions::new(name)).unwrap();
        election.on_event(move |event| match event {
            ElectionEvent::Started { fencing_token } => diary.note(format!("{who} started {fencing_token}")),
            ElectionEvent::Stopped { fencing_token } => diary.note(format!("{who} stopped {fencing_token}")),
            _ => {}
        })
    }

    fn note(&self, line: String) {
        self.0.lock().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_releases_the_lease_after_its_work_has_ended() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let (first, second) = (diary.candidate("a", &lock), diary.candidate("b", &lock));
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let stop = stop_first.clone();
    let notes = diary.clone();
    let one = tokio::spawn(async move {
        let work = |leadership: Leadership| async move {
            leadership.over().await;
            sleep(seconds(20)).await;
            notes.note(format!("a cleaned up, valid: {}", leadership.is_valid()));
        };
        first.run(&stop, work).await
    });
    sleep(seconds(1)).await;
    let stop = stop_second.clone();
    let two =
        tokio::spawn(
            async move { second.run(&stop, |leadership| async move { leadership.over().await }).await },
        );
    sleep(seconds(60)).await;
    stop_first.cancel();
    assert_eq!(one.await.unwrap(), ElectionOutcome::Finished(()));
    let released = Instant::now();
    sleep(seconds(5)).await;
    assert!(released.elapsed() < seconds(6));
    stop_second.cancel();
    assert_eq!(two.await.unwrap(), ElectionOutcome::Finished(()));
    let lines = diary.lines();
    assert_eq!(
        lines,
        ["a started 0", "a cleaned up, valid: true", "a stopped 0", "b started 1", "b stopped 1"]
    );
    assert_eq!(lock.record().unwrap().holder(), None);
}

#[tokio::test(start_paused = true)]
async fn lost_renewals_end_the_work_before_anybody_else_can_lead() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let cut = Arc::clone(&lock);
    let work = |leadership: Leadership| async move {
        sleep(seconds(30)).await;
        cut.set_down(true);
        let down = Instant::now();
        leadership.over().await;
        (down.elapsed(), leadership.is_valid())
    };
    let ElectionOutcome::Lost(Some((after, valid))) = election.run(&CancellationToken::new(), work).await
    else {
        panic!("not lost")
    };
    assert!(after <= seconds(10), "{after:?}");
    assert!(valid);
    assert_eq!(diary.lines(), ["a started 0", "a stopped 0"]);
}

/// Renewals fail for five seconds, less than the deadline of ten: the leader stays.
#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_cost_the_leadership() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let cut = Arc::clone(&lock);
    let work = |leadership: Leadership| async move {
        for _ in 0..10 {
            cut.set_down(true);
            sleep(seconds(5)).await;
            cut.set_down(false);
            sleep(seconds(10)).await;
            assert!(leadership.is_valid());
        }
    };
    assert_eq!(election.run(&CancellationToken::new(), work).await, ElectionOutcome::Finished(()));
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_listen_is_aborted_when_the_lease_runs_out() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let cut = Arc::clone(&lock);
    let start = Instant::now();
    let work = |_| async move {
        cut.set_down(true);
        sleep(seconds(3_600)).await;
    };
    assert_eq!(election.run(&CancellationToken::new(), work).await, ElectionOutcome::Lost(None));
    assert!(start.elapsed() <= seconds(15 + 2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn work_that_ignores_the_stop_is_aborted_after_its_grace() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let stop = CancellationToken::new();
    let (cancel, start) = (stop.clone(), Instant::now());
    let work = |_| async move {
        cancel.cancel();
        sleep(seconds(3_600)).await;
    };
    assert_eq!(election.run(&stop, work).await, ElectionOutcome::Aborted);
    assert_eq!(start.elapsed(), seconds(30));
    assert_eq!(lock.record().unwrap().holder(), None);
}

/// client-go calls OnStoppedLeading also in processes that never led.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_never_led_receives_no_events_of_leading() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    lock.edit(|record| record.holder_identity = Some("somebody".to_owned()));
    let election = diary.candidate("a", &lock);
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    tokio::spawn(async move {
        sleep(seconds(5)).await;
        cancel.cancel();
    });
    assert_eq!(election.run(&stop, |_| async {}).await, ElectionOutcome::NeverLed);
    assert!(diary.lines().is_empty());
    assert_eq!(lock.record().unwrap().holder(), Some("somebody"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_term_and_gives_the_lease_back() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let outcome = election.run(&CancellationToken::new(), |_| async { panic!("oh") }).await;
    assert_eq!(outcome, ElectionOutcome::<()>::Panicked("oh".to_owned()));
    assert_eq!(lock.record().unwrap().holder(), None);
    assert_eq!(diary.lines(), ["a started 0", "a stopped 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_survives_an_edit_in_between() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let editor = Arc::clone(&lock);
    let work = |_| async move { editor.edit(|record| record.lease_duration_seconds = Some(99)) };
    election.run(&CancellationToken::new(), work).await;
    assert_eq!(lock.record().unwrap().holder(), None);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_past_the_deadline_ends_the_term() {
    let (lock, diary) = (Arc::new(InMemoryLease::default()), Diary::default());
    let election = diary.candidate("a", &lock);
    let stop = CancellationToken::new();
    let run = tokio::spawn(async move {
        election.run(&stop, |leadership| async move { leadership.over().await }).await
    });
    sleep(seconds(1)).await;
    advance(seconds(600)).await;
    assert!(matches!(run.await.unwrap(), ElectionOutcome::Lost(_)));
    assert_eq!(diary.lines(), ["a started 0", "a stopped 0"]);
}
