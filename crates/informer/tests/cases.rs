//! `docs/informer-cases.md` and `docs/workqueue-cases.md` name tests; each of them must exist.
#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// As functions, or as entries of the lists of scripts.
fn is_there(name: &str, texts: &[String]) -> bool {
    let (function, script) = (format!("fn {name}("), format!("\n    {name},\n"));
    texts.iter().any(|text| text.contains(&function) || text.contains(&script))
}

fn check(document: &str, folders: &[&str], least: usize) {
    // Tests run in the folder of their package.
    let crates = Path::new("..");
    let mut files = Vec::new();
    folders.iter().for_each(|folder| sources(&crates.join(folder), &mut files));
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let text = fs::read_to_string(crates.join("../docs").join(document)).unwrap();
    // Every second piece between backticks is quoted; tests are long names of words.
    let quoted = text.split('`').skip(1).step_by(2);
    let tests: Vec<_> = quoted.filter(|name| name.matches('_').count() > 2 && !name.contains('/')).collect();
    assert!(tests.len() > least, "{} tests found", tests.len());
    let missing: Vec<_> = tests.into_iter().filter(|name| !is_there(name, &texts)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_test_that_the_informers_cases_name_is_there() {
    check("informer-cases.md", &["informer/src", "informer/tests", "workqueue/tests", "testkit/tests"], 60);
}

#[test]
fn every_test_that_the_work_queues_rules_name_is_there() {
    check("workqueue-cases.md", &["workqueue/src", "workqueue/tests"], 90);
}
