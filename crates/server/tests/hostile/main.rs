//! Hostile clients, and hostile servers behind this one, and their effect on others. Each test is a regression test of
//! an attack that once worked.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;
mod fairness;
mod faults;
mod garbage;
#[path = "../common/https.rs"]
mod https;
mod objects;
mod upstream;
mod wire;
mod work;
