//! Checks that the test kit can be used from a crate outside of this workspace, on a machine without protoc.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::report::Outcome;
use crate::{checks, root};

const MANIFEST: &str = r#"
[package]
name = "outside"
version = "0.0.0"
edition = "2024"

[dependencies]
k8s-openapi = { version = "0.29", features = ["v1_37"] }
kube = { version = "5", default-features = false, features = ["client", "rustls-tls", "ring"] }
listwatch-testkit = { path = "TESTKIT" }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

[workspace]
"#;

const TEST: &str = r#"
#[tokio::test]
async fn a_server_starts_in_a_test_of_another_workspace() {
    let server = listwatch_testkit::TestServer::start().await.unwrap();
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(server.client().unwrap());
    assert!(!namespaces.list(&Default::default()).await.unwrap().items.is_empty());
    server.stop().await;
}
"#;

/// Runs that test. The dependencies are those of this workspace, so that nothing has to be fetched.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let folder = std::env::temp_dir().join(format!("listwatch-outside-{}", std::process::id()));
    let result = run_in(&folder);
    let _ = fs::remove_dir_all(&folder);
    result
}

fn run_in(folder: &Path) -> anyhow::Result<Outcome> {
    fs::create_dir_all(folder.join("src"))?;
    let testkit = root().join("crates/testkit");
    fs::write(folder.join("Cargo.toml"), MANIFEST.replace("TESTKIT", &testkit.to_string_lossy()))?;
    fs::write(folder.join("src/lib.rs"), TEST)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut command = Command::new("cargo");
    command.args(["test", "--offline", "--quiet"]).current_dir(folder);
    // A build script that looks for protoc fails.
    command.env("PROTOC", "/nonexistent/protoc");
    checks::run(command)
}
