//! The listwatch command line.
fn main() {}
