//! Two servers on one real etcd: each accepts the credentials that the other issued, and a client that knows both
//! survives the loss of one.
//!
//! Runs with `LISTWATCH_REAL=1`, and needs `etcd` in the path.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use listwatch_testkit::{Etcd, RawClient};
use serde_json::{Value, json};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server as a process; killed when dropped.
struct Running {
    process: Child,
    config: kube::Config,
    kubeconfig: PathBuf,
}

impl Running {
    async fn start(name: &str, etcd: &str, directory: &Path) -> Self {
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        let process = Command::new(env!("CARGO_BIN_EXE_listwatch"))
            .args(["serve", "--bind", "127.0.0.1:0", "--etcd-endpoints", etcd, "--kubeconfig-out"])
            .arg(&kubeconfig)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !kubeconfig.exists() {
            assert!(Instant::now() < deadline, "{name} does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let config = Self::read(&kubeconfig).await;
        Self { process, config, kubeconfig }
    }

    async fn read(path: &Path) -> kube::Config {
        let text = std::fs::read_to_string(path).unwrap();
        let read = Kubeconfig::from_yaml(&text).unwrap();
        kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap()
    }

    /// A client with the credentials of this server's kubeconfig, for the other one.
    fn client_of(&self, other: &Self) -> RawClient {
        let mut config = self.config.clone();
        config.cluster_url = other.config.cluster_url.clone();
        RawClient::new(config).unwrap()
    }

    /// A client with nothing but a token.
    fn client_with(&self, token: &str) -> RawClient {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        RawClient::new(config).unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

async fn username(client: &RawClient) -> String {
    let (status, answer) = client.call(Method::POST, WHO, Some(&json!({}))).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["status"]["userInfo"]["username"].as_str().unwrap().to_owned()
}

/// A client that knows several servers: what one does not answer, the next is asked.
struct Either {
    clients: Vec<RawClient>,
    at: usize,
}

impl Either {
    async fn call(&mut self, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, Value) {
        for _ in 0..self.clients.len() * 2 {
            let client = &self.clients[self.at];
            let answer = tokio::time::timeout(PATIENCE, client.call(method.clone(), path, body)).await;
            match answer {
                Ok(Ok((status, value))) if !status.is_server_error() => return (status, value),
                _ => self.at = (self.at + 1) % self.clients.len(),
            }
        }
        panic!("nobody answers");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_one_etcd_accept_each_others_tokens_and_fail_over() {
    let Some(etcd) = Etcd::if_wanted().await.unwrap() else { return };
    let directory = tempfile::tempdir().unwrap();
    // Both start on an empty store at the same moment, and must agree on one set of keys.
    let (endpoint, place) = (etcd.endpoint(), directory.path());
    let (mut one, two) =
        tokio::join!(Running::start("one", &endpoint, place), Running::start("two", &endpoint, place));
    assert_eq!(one.config.root_cert, two.config.root_cert, "one CA");
    for client in [one.client_of(&two), two.client_of(&one), one.client_of(&one)] {
        assert_eq!(username(&client).await, "kubernetes-admin");
    }

    let admin = one.client_of(&one);
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.done(Method::POST, accounts, Some(&account)).await.unwrap();
    let path = format!("{accounts}/robot/token");
    let request = json!({"spec": {}});
    let issued = admin.done(Method::POST, &path, Some(&request)).await.unwrap();
    let token = issued["status"]["token"].as_str().unwrap();
    for server in [&one, &two] {
        let client = server.client_with(token);
        let deadline = Instant::now() + PATIENCE;
        // The other server sees the account a moment later.
        while client.call(Method::POST, WHO, Some(&json!({}))).await.unwrap().0 != StatusCode::CREATED {
            assert!(Instant::now() < deadline, "the token is good at both");
        }
        assert_eq!(username(&client).await, "system:serviceaccount:default:robot");
    }

    let mut either = Either { clients: vec![one.client_of(&one), one.client_of(&two)], at: 0 };
    for number in 0..60 {
        if number == 20 {
            one.kill();
        }
        let map = json!({"metadata": {"name": format!("map{number}")}, "data": {"k": "v"}});
        let (status, answer) = either.call(Method::POST, MAPS, Some(&map)).await;
        // A server that died after the write could not answer; the other one shows the result.
        assert!(matches!(status.as_u16(), 201 | 409), "{number}: {answer}");
        let (status, _) = either.call(Method::GET, &format!("{MAPS}/map{number}"), None).await;
        assert_eq!(status, StatusCode::OK, "{number}");
    }
    let (_, list) = either.call(Method::GET, MAPS, None).await;
    let named = |item: &Value| item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("map"));
    assert_eq!(list["items"].as_array().unwrap().iter().filter(|item| named(item)).count(), 60);

    // It comes back with the same identity.
    std::fs::remove_file(&one.kubeconfig).unwrap();
    let back = Running::start("one", &endpoint, place).await;
    assert_eq!(back.config.root_cert, two.config.root_cert);
    assert_eq!(username(&two.client_of(&back)).await, "kubernetes-admin");
}
