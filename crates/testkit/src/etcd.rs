//! [`Etcd`]: a real etcd process on free ports, stopped when it is dropped.
//!
//! Tests with real parts are opt-in: the binary must be in the path, and starting it takes a second. Data is in a
//! temporary directory that goes away with it. etcd cannot choose a free port itself, so there is a small chance that
//! another process takes the port first; the start then fails, and no test runs against another etcd.

use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::with_real_parts;

/// A busy machine starts etcd in a second or two.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running etcd with a temporary data directory; stopped and removed when dropped.
///
/// It listens on loopback without TLS. Several servers of a test can share it.
#[derive(Debug)]
pub struct Etcd {
    process: Child,
    endpoint: String,
    _data: TempDir,
}

impl Etcd {
    /// Starts one if tests with real parts are enabled.
    ///
    /// `None` without `LISTWATCH_REAL=1`, so that a test can return early and the usual run needs no binary.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn if_wanted() -> io::Result<Option<Self>> {
        if with_real_parts() { Self::start().await.map(Some) } else { Ok(None) }
    }

    /// Starts a single member and waits until it answers.
    ///
    /// Waits up to 30 seconds. Output of etcd is discarded; run it by hand if a start fails.
    ///
    /// # Errors
    /// If there is no `etcd` in the path or it does not come up.
    pub async fn start() -> io::Result<Self> {
        let data = tempfile::tempdir()?;
        let (client, peer) = (free_port()?, free_port()?);
        let (endpoint, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(data.path())
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut etcd = Self { process, endpoint, _data: data };
        etcd.ready(client).await?;
        Ok(etcd)
    }

    /// Its client URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Waits until the port accepts connections, the process ends, or the time is over.
    async fn ready(&mut self, port: u16) -> io::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Some(status) = self.process.try_wait()? {
                return Err(io::Error::other(format!("etcd ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "etcd did not come up"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Another process may take the port before etcd does; the test then fails.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
