//! API priority and fairness: who waits for whom when there is more to do than can be done at once.
//!
//! Every request belongs to a flow: the first FlowSchema that [`classify`] finds for it, and who or what
//! distinguishes it there. A schema belongs to a priority level, and levels do not get in each other's way: each has
//! its seats ([`shares`]), lends those it does not need, and lets its flows take turns in [`queues`] (fair queuing
//! over shuffle-sharded queues). Large lists take several seats ([`width`]). Before all that users take [`turns`]:
//! most requests are over before a seat of theirs is seen by anybody; and one user does not use all of the processors while others
//! are there ([`pacing`]). [`gate`] is the edge where requests wait.
//!
//! Names, numbers and objects are those of kube-apiserver ([`bootstrap`]). All but the gate is pure, with time passed in. It is
//! not a rate limit per client, and watches are not limited once they run.

pub(crate) mod bootstrap;
pub(crate) mod classify;
mod config;
pub(crate) mod gate;
mod metrics;
pub(crate) mod pacing;
mod queues;
mod shares;
mod shuffle;
pub(crate) mod turns;
pub(crate) mod width;

pub(crate) use gate::{Fairness, Flow};
pub(crate) use metrics::write as write_metrics;
pub(crate) use turns::UserTurns;
