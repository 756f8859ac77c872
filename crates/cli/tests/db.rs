//! `listwatch db` as people use it.

#![cfg(test)]

use std::path::Path;
use std::process::{Command, Output};

use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, Engine, Expect, Write};

fn db(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    command.arg("db").args(arguments).arg("--data-dir").arg(directory).output().unwrap()
}

fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let output = db(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(directory: &Path, arguments: &[&str], text: &str) {
    let output = db(directory, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains(text), "{said}");
}

async fn store(directory: &Path) -> EmbeddedEngine {
    let engine = EmbeddedEngine::open(directory, EmbeddedOptions::default()).await.unwrap();
    for n in 0..20 {
        let write = Write {
            key: format!("/k/{}", n % 4).into(),
            value: Some("v".into()),
            expect: Expect::Any,
            origin: None,
        };
        engine.write(write).await.unwrap();
    }
    engine
}

#[tokio::test]
async fn a_store_is_checked_backed_up_restored_and_compacted() {
    let parent = tempfile::tempdir().unwrap();
    let (one, two, file) =
        (parent.path().join("one"), parent.path().join("two"), parent.path().join("backup"));
    let file = file.to_str().unwrap();
    let engine = store(&one).await;
    assert!(succeeds(&one, &["backup", file]).contains("revision 20"), "while it is in use");
    // The process that has it is named: this one.
    fails(&one, &["check"], &format!("process {}", std::process::id()));
    // A backup works beside it, and used to blame that process for a file that is in the way.
    fails(&one, &["backup", file], &format!("listwatch: cannot back up: {file} exists already\n"));
    engine.close().await.unwrap();
    assert!(succeeds(&one, &["check"]).contains("20 changes\nkeys     4\n"));
    // Beyond every assigned revision; the change that carries it is one more.
    assert!(succeeds(&two, &["restore", file]).contains("revision 1000000020"));
    assert!(succeeds(&two, &["compact"]).contains("5 changes"));
    fails(&two, &["restore", file], "has a store already");
}

#[test]
fn a_missing_store_is_reported_in_one_line() {
    let parent = tempfile::tempdir().unwrap();
    fails(parent.path(), &["check"], "there is no store at");
    fails(parent.path(), &["restore", "/nowhere"], "cannot restore /nowhere: unable to open");
}
