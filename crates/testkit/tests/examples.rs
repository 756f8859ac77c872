//! The example programs of the library, run as a new user would: a server, a kubeconfig, the program, and what it prints.

#![cfg(test)]

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::discovery::ApiResource;
use listwatch_testkit::TestServer;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine; without it a missing line would hang the test.
const SOON: Duration = Duration::from_secs(60);

/// The path of an example: beside the folder of this test, where cargo puts it. `cargo test --workspace` builds both; a
/// run of this package alone builds them now.
fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.ancestors().nth(2).unwrap();
    let program = profile.join("examples").join(name);
    if !program.exists() {
        let target = profile.parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--package", "listwatch", "--examples"])
            .arg("--target-dir")
            .arg(target);
        assert!(cargo.status().unwrap().success());
    }
    program
}

/// A server, and the kubeconfig that names it.
struct Cluster {
    server: TestServer,
    kubeconfig: NamedTempFile,
}

impl Cluster {
    async fn start() -> Self {
        let server = TestServer::start().await.unwrap();
        let mut kubeconfig = NamedTempFile::new().unwrap();
        kubeconfig.write_all(server.kubeconfig().as_bytes()).unwrap();
        Self { server, kubeconfig }
    }

    fn client(&self) -> kube::Client {
        self.server.client().unwrap()
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client(), namespace)
    }

    async fn pod(&self, namespace: &str, name: &str, more: serde_json::Value) {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
        });
        if let (Some(metadata), Some(more)) = (pod.pointer_mut("/metadata"), more.as_object()) {
            metadata.as_object_mut().unwrap().extend(more.clone());
        }
        let pod = serde_json::from_value(pod).unwrap();
        self.pods(namespace).create(&PostParams::default(), &pod).await.unwrap();
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(program(name));
        command.args(arguments).env("KUBECONFIG", self.kubeconfig.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            // Ends with the program, or with the test that has read enough.
            let _ = stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line));
        });
        Running { child, lines }
    }
}

struct Running {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    async fn line(&mut self) -> Option<String> {
        timeout(SOON, self.lines.recv()).await.expect("the example says nothing more")
    }

    /// Reads on until a line begins like this.
    async fn read_until(&mut self, start: &str) -> String {
        let mut before = Vec::new();
        while let Some(line) = self.line().await {
            if line.starts_with(start) {
                return line;
            }
            before.push(line);
        }
        panic!("it ended without {start:?}, after {before:?}");
    }

    /// All that is left to say, and a good end.
    async fn rest(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            lines.push(line);
        }
        // It has closed its output, so it is about to end.
        assert!(self.child.wait().unwrap().success());
        lines
    }

    /// Ctrl-C, and then a good end.
    async fn interrupt(self) -> Vec<String> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
        self.rest().await
    }
}

#[tokio::test]
async fn list_names_the_pods_and_counts_them() {
    let cluster = Cluster::start().await;
    cluster.pod("default", "a", json!({})).await;
    cluster.pod("kube-system", "b", json!({})).await;
    assert_eq!(
        cluster.run("list", &[]).rest().await,
        ["default/a Pending", "kube-system/b Pending", "2 pods"]
    );
    assert_eq!(cluster.run("list", &["kube-system"]).rest().await, ["kube-system/b Pending", "1 pods"]);
}

#[tokio::test]
async fn watch_prints_changes_after_its_start() {
    let cluster = Cluster::start().await;
    cluster.pod("default", "before", json!({})).await;
    let mut watch = cluster.run("watch", &[]);
    watch.read_until("watching from").await;
    cluster.pod("default", "a", json!({})).await;
    assert!(watch.line().await.unwrap().starts_with("added default/a at "));
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    cluster.pods("default").delete("a", &now).await.unwrap();
    watch.read_until("deleted default/a at ").await;
}

#[tokio::test]
async fn retry_watch_begins_at_the_given_revision() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let first = maps.create(&PostParams::default(), &map("first")).await.unwrap();
    maps.create(&PostParams::default(), &map("second")).await.unwrap();
    let version = first.metadata.resource_version.unwrap();
    let mut watch = cluster.run("retry_watch", &[&version]);
    assert_eq!(watch.line().await.unwrap(), format!("watching from {version}"));
    watch.read_until("Added(default/second@").await;
}

#[tokio::test]
async fn namespaces_keeps_an_index_over_a_few_of_them() {
    let cluster = Cluster::start().await;
    cluster.pod("default", "a", json!({})).await;
    cluster.pod("kube-system", "b", json!({})).await;
    let mut namespaces = cluster.run("namespaces", &["default"]);
    assert!(namespaces.line().await.unwrap().starts_with("1 pods at "));
    assert_eq!(namespaces.line().await.unwrap(), "node-1: 1");
    assert_eq!(namespaces.line().await.unwrap(), "  default/a");
    namespaces.read_until("synced").await;
    cluster.pod("kube-system", "c", json!({})).await;
    cluster.pod("default", "d", json!({})).await;
    assert!(namespaces.line().await.unwrap().starts_with("add default/d "));
}

#[tokio::test]
async fn garbage_finds_what_has_lost_its_owner() {
    let cluster = Cluster::start().await;
    cluster.pod("default", "free", json!({})).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "0-1-2"});
    cluster.pod("default", "orphan", json!({"ownerReferences": [owner]})).await;
    let lines = cluster.run("garbage", &[]).rest().await;
    // The server collects such objects, too; the example must not report one that exists.
    let found = "Pod default/orphan belongs to ReplicaSet gone, which is gone";
    let (orphans, summary) = lines.split_at(lines.len() - 1);
    assert!(orphans.iter().all(|line| line == found), "{lines:?}");
    let expected = format!("{} objects of 7 kinds, {} without their owner", 1 + orphans.len(), orphans.len());
    assert_eq!(summary, [expected]);
}

#[tokio::test]
async fn controller_prints_pending_pods_until_it_is_interrupted() {
    let cluster = Cluster::start().await;
    cluster.pod("default", "a", json!({})).await;
    let mut controller = cluster.run("controller", &["0"]);
    assert_eq!(controller.line().await.unwrap(), "1 pods; telling which are pending for 0 s");
    controller.read_until("default/a has been pending for ").await;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    cluster.pods("default").delete("a", &now).await.unwrap();
    controller.read_until("default/a is gone").await;
    controller.interrupt().await;
}

#[tokio::test]
async fn typed_controller_keeps_a_config_map_per_greeting() {
    let cluster = Cluster::start().await;
    let mut controller = cluster.run("typed_controller", &[]);
    controller.read_until("0 greetings").await;
    let resource = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Greeting".into(),
        plural: "greetings".into(),
    };
    let greetings: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &resource);
    let greeting = json!({
        "apiVersion": "example.com/v1", "kind": "Greeting",
        "metadata": {"name": "hi"}, "spec": {"text": "hello"},
    });
    let greeting = serde_json::from_value(greeting).unwrap();
    greetings.create(&PostParams::default(), &greeting).await.unwrap();
    controller.read_until("default/hi says \"hello\"").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    assert_eq!(maps.get("hi").await.unwrap().data.unwrap().get("text").unwrap(), "hello");
    let last = controller.interrupt().await;
    // All events were written before the end.
    let events: Api<Event> = Api::namespaced(cluster.client(), "default");
    let told = events.list(&ListParams::default()).await.unwrap().items;
    assert!(told.iter().any(|event| event.reason.as_deref() == Some("Greeted")), "{last:?}");
}
