//! [`Plan`]: the assignment of faults to requests.
//!
//! A script names the request by a part of its URL and is for tests of one rule; a random plan draws from a seed and is
//! for workloads. The same seed repeats a run only as far as the requests come in the same order, which concurrent
//! clients do not promise. Log the seed all the same.

use std::collections::VecDeque;
use std::time::Duration;

use http::Uri;
use listwatch_wire::{Status, stream};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::{Fault, FaultAnswer, Place, Then};

/// Decides for each request in turn which fault it meets, if any.
///
/// Called once per request, under a lock: the order of requests decides, not that of their responses.
///
/// ```
/// use std::time::Duration;
/// use listwatch_testkit::proxy::{Fault, Odds, Place, Plan, Rule, Then};
///
/// // One rule of the client: a watch that is cut inside its third line is resumed.
/// let cut = Fault::Break { place: Place::InsideLine(2), then: Then::Cut };
/// let script = Plan::script([Rule { requests_with: "watch=true", fault: cut }]);
///
/// // A workload: a tenth of all requests fail. The seed in the log repeats them.
/// let seed = 7;
/// eprintln!("seed {seed}");
/// let random = Plan::random(seed, Odds { fault: 0.1, longest_wait: Duration::from_secs(2) });
/// # drop((script, random));
/// ```
#[derive(Debug)]
pub struct Plan(PlanKind);

#[derive(Debug)]
enum PlanKind {
    None,
    Script(VecDeque<Rule>),
    Random { random: Box<StdRng>, odds: Odds },
}

/// One line of a script: the next request that it fits meets its fault, once.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Text that must occur in path and query, such as `watch=true`; empty fits all.
    pub requests_with: &'static str,
    /// The fault.
    pub fault: Fault,
}

/// The likelihood of faults in a random plan. High odds mostly test the client's timeouts; a tenth finds most mistakes.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    /// The part of all requests that meet a fault, from 0 to 1.
    pub fault: f64,
    /// The longest delay or stall. It should sometimes exceed the client's timeouts, and never the test's.
    pub longest_wait: Duration,
}

impl Plan {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self(PlanKind::None)
    }

    /// The rules in order: the first that fits a request is used up by it.
    #[must_use]
    pub fn script(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self(PlanKind::Script(rules.into_iter().collect()))
    }

    /// Faults of every sort, drawn from a seed: the same seed and order of requests produce the same faults.
    #[must_use]
    pub fn random(seed: u64, odds: Odds) -> Self {
        Self(PlanKind::Random { random: Box::new(StdRng::seed_from_u64(seed)), odds })
    }

    /// Returns the fault of the next request.
    pub(super) fn next(&mut self, uri: &Uri) -> Fault {
        match &mut self.0 {
            PlanKind::None => Fault::None,
            PlanKind::Script(rules) => scripted(rules, uri),
            PlanKind::Random { random, odds } => {
                if random.random_bool(odds.fault.clamp(0.0, 1.0)) {
                    draw(random, *odds, uri)
                } else {
                    Fault::None
                }
            }
        }
    }
}

/// Takes the first rule that fits out of the script.
fn scripted(rules: &mut VecDeque<Rule>, uri: &Uri) -> Fault {
    let text = uri.path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
    let fitting = rules.iter().position(|rule| text.contains(rule.requests_with));
    fitting.and_then(|at| rules.remove(at)).map_or(Fault::None, |rule| rule.fault)
}

/// Draws a fault that can occur in this request. Watches have their own, since most faults of a long stream are in its
/// body.
///
/// A 410 is among the faults of every request, since lists with a continue token can get one too.
fn draw(random: &mut StdRng, odds: Odds, uri: &Uri) -> Fault {
    let wait = odds.longest_wait.mul_f64(random.random());
    let expired = Status::expired("The resourceVersion for the provided watch is too old.");
    let is_watch = uri.path() == stream::PATH || uri.query().is_some_and(|query| query.contains("watch="));
    let mut faults = vec![
        Fault::Refuse,
        Fault::Delay(wait),
        Fault::Answer(FaultAnswer::status(&Status::too_many_requests("slow down", 1))),
        Fault::Answer(FaultAnswer::status(&Status::internal("injected by the proxy"))),
        Fault::Answer(FaultAnswer::html(502)),
        Fault::Answer(FaultAnswer::status(&expired)),
    ];
    if is_watch {
        faults.push(Fault::Answer(FaultAnswer::error_event(&expired)));
        // Most faults of a long stream are in its body, so these weigh more.
        for _ in 0..3 {
            faults.push(Fault::Break { place: place_in_stream(random), then: ending(random, wait) });
        }
    } else {
        faults.push(Fault::Break { place: Place::Bytes(random.random_range(0..20_000)), then: Then::Cut });
    }
    faults.choose(random).cloned().unwrap_or(Fault::None)
}

fn place_in_stream(random: &mut StdRng) -> Place {
    let lines = random.random_range(0..50);
    if random.random_bool(0.5) { Place::Lines(lines) } else { Place::InsideLine(lines) }
}

fn ending(random: &mut StdRng, wait: Duration) -> Then {
    *[Then::Cut, Then::End, Then::Stall(wait)].choose(random).unwrap_or(&Then::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_waits_for_the_request_it_fits_and_is_used_once() {
        let mut plan = Plan::script([Rule { requests_with: "watch=", fault: Fault::Refuse }]);
        let (list, watch) = (Uri::from_static("/api/v1/pods"), Uri::from_static("/api/v1/pods?watch=true"));
        assert_eq!(plan.next(&list), Fault::None);
        assert_eq!(plan.next(&watch), Fault::Refuse);
        assert_eq!(plan.next(&watch), Fault::None);
    }

    #[test]
    fn a_seed_decides_everything() {
        let uri = Uri::from_static("/api/v1/pods?watch=true");
        let odds = Odds { fault: 0.5, longest_wait: Duration::from_secs(1) };
        let draw = |seed| {
            let mut plan = Plan::random(seed, odds);
            (0..100).map(|_| plan.next(&uri)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let faulty = draw(1).into_iter().filter(|fault| *fault != Fault::None).count();
        assert!((30..70).contains(&faulty), "{faulty}");
    }
}
