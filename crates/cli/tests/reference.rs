//! The reference pages are made from the program: `docs/reference/flags.md` from the definitions of its flags,
//! `docs/reference/metrics.md` from what `/metrics` answers. `cargo xtask reference` writes them; this test fails if
//! they are old.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use listwatch_testkit::TestServer;
use serde_json::json;

/// The root of the workspace, from the folder of the package, where cargo runs its tests.
fn root() -> PathBuf {
    Path::new("../..").to_owned()
}

/// Compares a page with the file, or writes it if the environment says so.
fn check(name: &str, page: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("LISTWATCH_WRITE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{} is old; run `cargo xtask reference`", path.display());
}

#[test]
fn the_page_of_flags_matches_the_help_of_the_program() {
    let output = Command::new(env!("CARGO_BIN_EXE_listwatch")).arg("reference").output().unwrap();
    assert!(output.status.success());
    check("flags.md", &String::from_utf8(output.stdout).unwrap());
}

/// The text of `/metrics` of a server that has done a little of everything.
async fn metrics() -> String {
    let server = TestServer::start().await.unwrap();
    let raw = server.raw().unwrap();
    let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "one"}});
    raw.done(Method::POST, "/api/v1/namespaces/default/configmaps", Some(&body)).await.unwrap();
    let mut watch = raw.watch("/api/v1/configmaps?watch=true&resourceVersion=0").await.unwrap();
    watch.next().await.unwrap();
    server
        .client()
        .unwrap()
        .request_text(http::Request::get("/metrics").body(Vec::new()).unwrap())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_metrics_is_what_the_server_exports() {
    let text = metrics().await;
    let mut families = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').unwrap();
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        assert!(families.insert((name, kind, help)), "{name} is written twice");
    }
    let mut page = "# Metrics\n\nMade by `cargo xtask reference` from what `/metrics` answers. Names and labels are \
        those of kube-apiserver and of the\nPrometheus client libraries where they have them; names that begin with `listwatch_` \
        are this server's own.\n\n| name | type | |\n|---|---|---|\n".to_owned();
    for (name, kind, help) in families {
        let _ = writeln!(page, "| `{name}` | {kind} | {help} |");
    }
    check("metrics.md", &page);
}

/// The console, `top` and the dashboard once asked for metrics that no server exported, and showed zero for ever.
#[tokio::test(flavor = "multi_thread")]
async fn every_metric_that_is_shown_anywhere_is_exported() {
    let text = metrics().await;
    let exported: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let heads: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut files =
        vec![root().join("packaging/grafana.json"), root().join("crates/commands/src/top/reading.rs")];
    files.extend(
        std::fs::read_dir(root().join("crates/console/assets")).unwrap().map(|entry| entry.unwrap().path()),
    );
    let mut found = 0;
    for file in files {
        let Ok(content) = std::fs::read_to_string(&file) else { continue };
        for word in content.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let is_metric =
                ["apiserver_", "listwatch_", "process_", "kubernetes_"].iter().any(|p| word.starts_with(p));
            if !is_metric || word == "listwatch_server" {
                continue;
            }
            found += 1;
            assert!(exported.contains(word) || heads.contains(word), "{}: {word}", file.display());
        }
    }
    assert!(found > 10, "the names were looked for in the wrong places");
}

/// The reasons that a Status can have are in the source of the wire crate; the page must explain each.
#[test]
fn the_page_of_errors_explains_every_reason() {
    let source = std::fs::read_to_string(root().join("crates/wire/src/status/mod.rs")).unwrap();
    let (_, reasons) = source.split_once("pub enum StatusReason {").unwrap();
    let (reasons, _) = reasons.split_once("\n}").unwrap();
    let page = std::fs::read_to_string(root().join("docs/reference/errors.md")).unwrap();
    let names: Vec<&str> = reasons
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|name| name.chars().all(char::is_alphabetic) && *name != "Unknown")
        .collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not explained");
    }
}
