//! What a client can send, and what becomes of the others meanwhile. Each test is the story of something that once hurt.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod fairness;
mod faults;
mod garbage;
mod objects;
mod wire;
mod work;
