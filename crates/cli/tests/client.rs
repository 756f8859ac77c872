//! `list`, `watch` and `inform` against a server inside the test.

#![cfg(test)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use http::Method;
use listwatch_testkit::{RawClient, TestServer};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server, a kubeconfig for it, and a way to write to it.
struct Scene {
    _server: TestServer,
    directory: TempDir,
    raw: RawClient,
}

impl Scene {
    async fn set() -> Self {
        let server = TestServer::start().await.unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("kubeconfig"), server.kubeconfig()).unwrap();
        let raw = server.raw().unwrap();
        let scene = Self { _server: server, directory, raw };
        scene.create("one").await;
        scene.create("two").await;
        scene
    }

    async fn create(&self, name: &str) -> Value {
        let body = json!({"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 1,
            "metadata": {"name": name, "labels": {"name": name}}});
        self.raw.done(Method::POST, "/apis/scheduling.k8s.io/v1/priorityclasses", Some(&body)).await.unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_listwatch"));
        command.args(arguments).arg("--kubeconfig").arg(self.directory.path().join("kubeconfig"));
        command
    }

    /// The output of a command that ends by itself.
    async fn output(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A command that runs until it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_prints_every_object_under_any_of_its_names() {
    let scene = Scene::set().await;
    for name in
        ["priorityclasses", "pc", "priorityclass", "PriorityClass", "priorityclasses.scheduling.k8s.io"]
    {
        let said = scene.output(&["list", name, "--page", "1"]).await;
        assert!(
            said.lines().any(|line| line.starts_with("one "))
                && said.lines().any(|line| line.starts_with("two ")),
            "{said}"
        );
    }
    let said = scene.output(&["list", "pc", "-l", "name=two", "-o", "json"]).await;
    let object: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(object["metadata"]["name"], "two");
    // As kubectl prints it, so that it can be applied again; the items of a list have no type.
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PriorityClass"), &json!("scheduling.k8s.io/v1"))
    );
    let said = scene.output(&["list", "pc", "-l", "name=two", "-o", "yaml"]).await;
    assert!(
        said.starts_with("---\napiVersion: scheduling.k8s.io/v1\n")
            && said.contains("\nkind: PriorityClass\n"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inform_prints_the_initial_objects_and_ends_on_a_signal() {
    let scene = Scene::set().await;
    let said = scene.output(&["inform", "pc", "--until-synced"]).await;
    assert!(said.lines().any(|line| line.starts_with("add one ") && line.ends_with(" initial")), "{said}");
    assert_eq!(said.lines().last(), Some("synced"));
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_what_happens() {
    let scene = Scene::set().await;
    let mut child = Running(
        scene.command(&["watch", "pc"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    );
    let mut begun = String::new();
    BufReader::new(child.0.stderr.take().unwrap()).read_line(&mut begun).unwrap();
    assert!(begun.starts_with("watching from "), "{begun}");
    scene.create("three").await;
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ADDED    three "), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_resource_is_one_clear_line() {
    let scene = Scene::set().await;
    let mut command = scene.command(&["list", "unicorns"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "listwatch: the server has no resource \"unicorns\"; `kubectl api-resources` lists what it has\n"
    );
}

/// The message of a command that fails, without a server.
fn failure(arguments: &[&str], kubeconfig: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    let output = command.args(arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_missing_kubeconfig_is_named() {
    assert!(
        failure(&["list", "pods"], "/nowhere/config")
            .contains("KUBECONFIG names /nowhere/config, which is not there")
    );
    assert!(
        failure(&["list", "pods", "--kubeconfig", "/nowhere"], "")
            .contains("cannot read the kubeconfig /nowhere: No such file")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_and_a_context_that_is_missing_are_named() {
    let scene = Scene::set().await;
    let url = scene._server.url();
    let file = scene.directory.path().join("kubeconfig");
    let file = file.to_str().unwrap();
    let said = failure(&["list", "pods", "--context", "other"], file);
    assert!(said.contains("has no context \"other\"; it has ") && said.contains(file), "{said}");
    let Scene { _server, directory, .. } = scene;
    _server.stop().await;
    let said = failure(&["list", "pods"], file);
    assert!(said.contains(&format!("cannot reach the server at {url}; is it running?")), "{said}");
    drop(directory);
}
