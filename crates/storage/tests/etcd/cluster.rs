//! Real etcd processes for tests, on ports of their own.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use listwatch_storage::etcd::EtcdTls;
use listwatch_storage::{Engine, EtcdEngine, EtcdOptions};
use tempfile::TempDir;

/// Some members of one etcd cluster. Their processes end with the value.
pub(crate) struct Cluster {
    directory: TempDir,
    members: Vec<Member>,
    arguments: Vec<String>,
    tls: Option<EtcdTls>,
}

struct Member {
    client: String,
    peer: String,
    process: Option<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|n| self.kill(n));
    }
}

/// Returns true if there is an etcd to test with. Without one, tests say so and pass, unless `LISTWATCH_REAL` is set,
/// as `cargo xtask test` does: then they fail.
pub(crate) fn available() -> bool {
    let found =
        Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(
        found || std::env::var_os("LISTWATCH_REAL").is_none(),
        "etcd is missing: install Debian's etcd-server"
    );
    if !found {
        println!(
            "SKIPPED: etcd is missing (install Debian's etcd-server; LISTWATCH_REAL=1 makes this a failure)"
        );
    }
    found
}

/// A port that was free a moment ago.
fn free_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

impl Cluster {
    pub(crate) async fn start(size: usize) -> Self {
        let members =
            (0..size).map(|_| Member { client: free_url(), peer: free_url(), process: None }).collect();
        Self { directory: tempfile::tempdir().unwrap(), members, arguments: Vec::new(), tls: None }
            .started()
            .await
    }

    /// One member with more arguments, to be reached by TLS.
    pub(crate) async fn secure(arguments: &[String], tls: EtcdTls) -> Self {
        let client = free_url().replace("http:", "https:");
        let members = vec![Member { client, peer: free_url(), process: None }];
        let directory = tempfile::tempdir().unwrap();
        Self { directory, members, arguments: arguments.to_vec(), tls: Some(tls) }.started().await
    }

    async fn started(mut self) -> Self {
        (0..self.members.len()).for_each(|n| self.revive(n));
        self.wait().await;
        self
    }

    /// Starts a member, for the first time or again.
    pub(crate) fn revive(&mut self, n: usize) {
        let names: Vec<String> =
            self.members.iter().enumerate().map(|(n, member)| format!("m{n}={}", member.peer)).collect();
        let log = std::fs::File::create(self.directory.path().join(format!("m{n}.log"))).unwrap();
        let member = &mut self.members[n];
        let process = Command::new("etcd")
            .args(["--name", &format!("m{n}"), "--initial-cluster", &names.join(",")])
            .args(["--listen-client-urls", &member.client, "--advertise-client-urls", &member.client])
            .args(["--listen-peer-urls", &member.peer, "--initial-advertise-peer-urls", &member.peer])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500", "--log-outputs", "stderr"])
            .args(&self.arguments)
            .arg("--data-dir")
            .arg(self.directory.path().join(format!("m{n}")))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        member.process = Some(process);
    }

    /// Kills a member as a power cut would.
    pub(crate) fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.members[n].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Removes the data of a member that was killed.
    pub(crate) fn erase(&self, n: usize) {
        std::fs::remove_dir_all(self.directory.path().join(format!("m{n}"))).unwrap();
    }

    pub(crate) fn options(&self, prefix: &str) -> EtcdOptions {
        EtcdOptions {
            endpoints: self.members.iter().map(|member| member.client.clone()).collect(),
            prefix: prefix.to_owned(),
            tls: self.tls.clone(),
            ..Default::default()
        }
    }

    pub(crate) async fn engine(&self, prefix: &str) -> EtcdEngine {
        EtcdEngine::connect(self.options(prefix)).await.unwrap()
    }

    /// Waits until the cluster has a leader.
    async fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Ok(engine) = EtcdEngine::connect(self.options("/wait")).await
                && engine.current().await.is_ok()
            {
                return;
            }
            assert!(Instant::now() < deadline, "etcd did not start, see {:?}", self.directory.path());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The leader's index, as it says itself.
    pub(crate) async fn leader(&self) -> usize {
        for _ in 0..100 {
            for (n, member) in self.members.iter().enumerate() {
                let Ok(mut client) = etcd_client::Client::connect([&member.client], None).await else {
                    continue;
                };
                let status = tokio::time::timeout(Duration::from_secs(1), client.status()).await;
                if let Ok(Ok(status)) = status
                    && status.header().is_some_and(|header| header.member_id() == status.leader())
                {
                    return n;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no leader");
    }

    /// A plain client, as another user of the cluster would have.
    pub(crate) async fn client(&self) -> etcd_client::Client {
        let endpoints: Vec<_> = self.members.iter().map(|member| member.client.clone()).collect();
        etcd_client::Client::connect(endpoints, None).await.unwrap()
    }
}
