//! The reflector's rules, case by case: inputs and what it does about them, in `scripts/reflector`.
//!
//! `+TIME` before a command lets time pass first. All effects of the machine are printed: requests, deltas,
//! problems with the response, and the phase it is in with its deadline.
#![cfg(test)]

mod support;

use std::fmt::Write as _;
use std::time::Duration;

use listwatch::lister_watcher::{ListRequest, SourceError, WatchEvent, WatchRequest};
use listwatch::reflector::{Action, Input, Listing, Machine, Output, ReflectorOptions};
use listwatch::{Raw, Revision};
use listwatch_wire::status::{Status, StatusReason};
use support::object;

struct Rig {
    machine: Machine,
    now: Duration,
}

impl Rig {
    fn new() -> Self {
        Self { machine: machine(""), now: Duration::ZERO }
    }

    fn run(&mut self, line: &str) -> String {
        let mut line = line;
        if let Some(timed) = line.strip_prefix('+') {
            let (time, rest) = timed.split_once(' ').unwrap();
            self.now += duration(time);
            line = rest;
        }
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let input = match command {
            "machine" => {
                *self = Self { machine: machine(rest), now: Duration::ZERO };
                return String::new();
            }
            "start" => Input::Start,
            "opened" => Input::Opened,
            "closed" => Input::Closed,
            "tick" => {
                self.now = self.machine.deadline().unwrap();
                Input::Tick
            }
            "early-tick" => Input::Tick,
            "open-failed" => Input::OpenFailed(error(rest)),
            "list-failed" => Input::ListFailed(error(rest)),
            "broken" => Input::Broken(error(rest)),
            "events" => Input::Events(rest.split(" | ").map(event).collect()),
            "listed" => Input::Listed(listing(rest)),
            "probed" => Input::Probed(rest.parse().map(Revision).map_err(|_| error(rest))),
            other => panic!("no command {other}"),
        };
        let out = self.machine.step(input, self.now);
        self.print(&out)
    }

    fn print(&self, out: &Output) -> String {
        let mut text = String::new();
        for delta in &out.deltas {
            let line = delta.to_string();
            // The order of a streamed state is that of a hash map; the store sorts it.
            let mut words: Vec<&str> = line.split(' ').collect();
            if let Some(sorted) = words.get_mut(3..).filter(|_| line.starts_with("replaced")) {
                let mut pairs: Vec<_> = sorted.chunks(2).map(<[&str]>::to_vec).collect();
                pairs.sort();
                sorted.copy_from_slice(&pairs.concat());
            }
            writeln!(text, "delta: {}", words.join(" ")).unwrap();
        }
        for (problem, response) in &out.problems {
            writeln!(text, "problem: {problem}; {response}").unwrap();
        }
        for action in &out.actions {
            writeln!(text, "do: {}", describe(action)).unwrap();
        }
        let wait = self.machine.deadline().map(|at| at.saturating_sub(self.now));
        let wait = wait.map(|wait| format!(", wakes in {wait:?}")).unwrap_or_default();
        writeln!(text, "{}{wait}", self.machine.phase_name()).unwrap();
        text
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::HangUp => "hang up".to_owned(),
        Action::Probe => "probe".to_owned(),
        Action::List(ListRequest { version, limit, .. }) => {
            let limit = limit.map(|limit| format!(" limit={limit}")).unwrap_or_default();
            format!("list rv={version}{limit}")
        }
        Action::Watch(WatchRequest { revision, initial_events, timeout }) => {
            let verb = if *initial_events { "watch-list" } else { "watch" };
            let revision = revision.map_or("\"\"".to_owned(), |revision| revision.to_string());
            format!("{verb} rv={revision} timeout={:?}", timeout.unwrap_or_default())
        }
    }
}

fn machine(options: &str) -> Machine {
    let mut reflector = ReflectorOptions::default();
    reflector.seed = Some(1);
    reflector.backoff.jitter = 0.0;
    let (mut streams, mut resume) = (true, None);
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap();
        match name {
            "streaming" => reflector.streaming = value == "true",
            "source-streams" => streams = value == "true",
            "page-size" => reflector.page_size = Some(value.parse().unwrap()),
            "idle" => reflector.watch_idle = duration(value),
            "resume" => resume = Some(value.parse().unwrap()),
            "jitter" => reflector.backoff.jitter = value.parse().unwrap(),
            other => panic!("no option {other}"),
        }
    }
    let machine = Machine::new(reflector, streams);
    match resume {
        Some(revision) => machine.resume(revision),
        None => machine,
    }
}

fn duration(text: &str) -> Duration {
    if let Some(millis) = text.strip_suffix("ms") {
        return Duration::from_millis(millis.parse().unwrap());
    }
    match text.strip_suffix('m') {
        Some(minutes) => Duration::from_secs(60 * minutes.parse::<u64>().unwrap()),
        None => Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap()),
    }
}

fn status(text: &str) -> Status {
    match text.split(' ').collect::<Vec<_>>().as_slice() {
        ["expired"] => Status::expired("too old resource version: 5 (9)"),
        ["gone"] => Status::failure(410, StatusReason::Gone, "gone"),
        ["too-large"] => Status::too_large_resource_version(10, 5, 1),
        ["too-many"] => Status::too_many_requests("slow down", 1),
        ["too-many", seconds] => Status::too_many_requests("slow down", seconds.parse().unwrap()),
        ["internal"] => Status::internal("oops"),
        ["forbidden"] => Status::forbidden("", "pods", "", "no"),
        ["invalid"] => Status::failure(422, StatusReason::Invalid, "sendInitialEvents is forbidden"),
        ["store-read"] => Status::failure(500, StatusReason::StoreReadError, "corrupt object"),
        other => panic!("no status {other:?}"),
    }
}

fn error(text: &str) -> SourceError {
    match text {
        "refused" => SourceError::Refused("127.0.0.1:1".to_owned()),
        "cut" => SourceError::Transport("connection reset".to_owned()),
        "rubbish" => SourceError::Malformed("<html>".to_owned()),
        other => status(other).into(),
    }
}

fn event(text: &str) -> WatchEvent {
    match text.split_once(' ').unwrap() {
        ("add", rest) => WatchEvent::Added(object_at(rest)),
        ("modify", rest) => WatchEvent::Modified(object_at(rest)),
        ("delete", rest) => WatchEvent::Deleted(object_at(rest)),
        ("bookmark", revision) => bookmark(revision, false),
        ("end", revision) => bookmark(revision, true),
        ("error", rest) => WatchEvent::Error(Box::new(status(rest))),
        ("unusable", reason) => WatchEvent::Unusable(reason.to_owned()),
        ("reject", rest) => {
            let object = object_at(rest);
            let (key, revision) = (object.key().clone(), object.revision());
            WatchEvent::Rejected { key, revision, reason: "no".to_owned() }
        }
        other => panic!("no event {other:?}"),
    }
}

fn bookmark(revision: &str, initial_events_end: bool) -> WatchEvent {
    WatchEvent::Bookmark { revision: revision.parse().unwrap(), initial_events_end }
}

fn object_at(text: &str) -> listwatch::Object<Raw> {
    let (key, revision) = text.split_once(' ').unwrap();
    object(key, revision.parse().unwrap())
}

/// `10 pages=2: a/x 5, a/y 6`
fn listing(text: &str) -> Listing {
    let (head, objects) = text.split_once(':').unwrap();
    let (revision, pages) = head.split_once(" pages=").unwrap_or((head, "1"));
    let objects = objects.split(',').map(str::trim).filter(|o| !o.is_empty()).map(object_at).collect();
    let revision: Revision = revision.parse().unwrap();
    Listing { objects, revision, pages: pages.parse().unwrap() }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let mut rig = Rig::new();
            support::script::run("reflector", stringify!($name), |line| rig.run(line));
        })*

        #[test]
        fn every_script_has_its_test() {
            support::script::assert_all_run("reflector", &[$(stringify!($name)),*]);
        }
    };
}

scripts! {
    a_refused_streaming_list_is_remembered,
    a_streaming_list_closed_before_its_end_starts_over,
    a_watch_that_expires_twice_at_one_place_leads_to_the_latest_state,
    backoff_does_not_restart_during_an_outage,
    changes_during_the_streaming_list_are_folded_in,
    a_history_that_restarted_is_found_within_a_minute,
    a_saved_state_is_resumed_and_proved_current,
    clean_closes_never_make_a_hot_loop,
    expired_is_the_same_in_all_three_places,
    hung_streams_and_requests_are_found,
    internal_errors_are_paced_and_end_in_a_relist,
    lists_fall_back_to_the_latest_state,
    nothing_goes_back_in_time,
    only_a_marked_bookmark_ends_the_initial_events,
    page_sizes_follow_the_server,
    retry_after_is_honoured,
    silent_streaming_lists_fall_back_to_a_list,
    silent_watches_are_opened_anew,
    store_read_errors_relist,
    the_ordinary_course,
    too_many_requests_never_relist,
    unusable_objects_are_reported_and_skipped,
    unusual_watch_errors_do_not_relist,
}
