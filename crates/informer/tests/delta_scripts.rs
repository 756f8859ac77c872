//! The delta queue in both forms, case by case, in `scripts/delta`.
#![cfg(test)]

mod support;

use std::fmt::Write as _;

use listwatch::Raw;
use listwatch::delta::{Coalescing, Delta, InOrder};
use support::object_with;

enum Queue {
    InOrder(InOrder),
    Coalescing(Coalescing),
}

impl Queue {
    fn run(&mut self, line: &str) -> String {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "in-order" => *self = Self::InOrder(InOrder::default()),
            "coalescing" => *self = Self::Coalescing(Coalescing::default()),
            "push" => rest.split(" | ").for_each(|delta| self.push(parse(delta))),
            "pop" => return self.pop(rest.parse().unwrap_or(1000)),
            other => panic!("no command {other}"),
        }
        String::new()
    }

    fn push(&mut self, delta: Delta) {
        match self {
            Self::InOrder(queue) => queue.push(delta),
            Self::Coalescing(queue) => queue.push(delta),
        }
    }

    fn pop(&mut self, max: usize) -> String {
        let (batch, left) = match self {
            Self::InOrder(queue) => (queue.pop_batch(max), queue.weight()),
            Self::Coalescing(queue) => (queue.pop_batch(max), queue.weight()),
        };
        let mut text = String::new();
        batch.iter().for_each(|delta| writeln!(text, "{delta}").unwrap());
        writeln!(text, "left: {left}").unwrap();
        text
    }
}

/// `added a/x 5`, with an incarnation other than the first as `added a/x 5 second`.
fn parse(text: &str) -> Delta {
    let object = |words: &[&str]| -> listwatch::Object<Raw> {
        object_with(words[0], words[1].parse().unwrap(), words.get(2).unwrap_or(&"first"))
    };
    match text.split(' ').collect::<Vec<_>>().as_slice() {
        ["added", rest @ ..] => Delta::Added(object(rest)),
        ["updated", rest @ ..] => Delta::Updated(object(rest)),
        ["deleted", rest @ ..] => Delta::Deleted(object(rest)),
        ["bookmark", revision] => Delta::Bookmark(revision.parse().unwrap()),
        ["sync"] => Delta::SyncAll,
        ["replaced", revision, rest @ ..] => {
            let objects = rest.chunks(2).map(object).collect();
            Delta::Replaced { objects, revision: revision.parse().unwrap(), restarted: false }
        }
        other => panic!("no delta {other:?}"),
    }
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let mut queue = Queue::InOrder(InOrder::default());
            support::script::run("delta", stringify!($name), |line| queue.run(line));
        })*

        #[test]
        fn every_script_has_its_test() {
            support::script::assert_all_run("delta", &[$(stringify!($name)),*]);
        }
    };
}

scripts! {
    a_coalesced_batch_says_up_to_where_nothing_is_missing,
    a_queued_delete_survives_a_replace,
    batches_end_at_their_size_and_at_barriers,
    coalescing_keeps_what_tells_the_story,
    in_order_is_strict,
}
