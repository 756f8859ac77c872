//! The embedded engine keeps acknowledged writes after a kill, a power loss and on a full disk.

#![cfg(test)]

mod crash;
mod full;
mod power;
mod verify;
mod worker;

/// Not a test of its own: the body of the processes that the others start.
#[test]
fn worker_process() {
    if let Some(directory) = std::env::var_os(worker::DIRECTORY) {
        worker::run(directory.as_ref());
    }
}
