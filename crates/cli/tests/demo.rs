//! The demo checks itself; this checks that it does, and that its outcome is an exit code.

use std::process::Command;

#[test]
fn the_demo_runs_checks_itself_and_ends_well() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    let output = demo.args(["demo", "--objects", "10", "--writes", "100", "--slow", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("100 writes acknowledged"), "{said}");
    assert!(said.contains("lost: nothing, repeated: nothing, out of order: nothing"), "{said}");
    assert!(!said.contains('\x1b'), "plain lines where there is no terminal");
}
