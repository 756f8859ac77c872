//! The demo verifies its own run; these tests check that it does, and its exit code.

#![cfg(test)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn the_demo_explains_itself_checks_itself_and_ends_well() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    let output = demo.args(["demo", "--objects", "10", "--seconds", "2", "--rate", "100"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("listwatch demo: a server, an informer and a controller"), "{said}");
    for proved in
        ["✓ nothing was lost", "✓ nothing was repeated or out of order", "✓ the cache equals the server"]
    {
        assert!(said.contains(proved), "{proved}: {said}");
    }
    assert!(!said.contains('\x1b'), "no colours where there is no terminal");
}

/// `listwatch demo | head -1` used to panic, because the pipe was closed.
#[test]
fn a_reader_that_goes_away_ends_the_demo_with_success() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    let mut demo = demo.arg("demo").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = demo.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
