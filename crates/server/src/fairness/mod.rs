//! API priority and fairness: the order in which requests are served when the server is overloaded.
//!
//! Every request belongs to a flow: the first FlowSchema that matches it ([`classify`]), and its flow distinguisher. A
//! schema belongs to a priority level, and levels are isolated from each other: each has its seats ([`shares`]), lends
//! those it does not need, and serves its flows by fair queuing over shuffle-sharded queues ([`queues`]). Large lists
//! take several seats ([`width`]). Before that, users take [`turns`], because most requests end so quickly that seats
//! alone do not order them, and one user cannot use all CPU time while others are active ([`pacing`]). Requests wait in
//! [`gate`].
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
