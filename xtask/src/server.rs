//! A `listwatch serve` process for the steps that talk to one from outside.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::checks::run;
use crate::{cache, root};

/// The administrator's token in the file the server gets.
pub(crate) const ADMIN_TOKEN: &str = "admin-token";
/// The token of `alice`, a user without permissions.
pub(crate) const USER_TOKEN: &str = "user-token";
const TOKENS: &str = "admin-token,admin,admin,\"system:masters\"\nuser-token,alice,alice,\"devs\"\n";
/// For a debug build on a busy machine; a release build takes milliseconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running server on a free port; stopped and its files removed when dropped.
pub(crate) struct Server {
    process: Child,
    /// Its `https://127.0.0.1:PORT`.
    pub(crate) url: String,
    /// Data, tokens and kubeconfig.
    folder: PathBuf,
}

impl Server {
    /// Starts the binary that the tests built, with the embedded engine.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = cache().join("run").join(std::process::id().to_string());
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(folder.join("tokens.csv"), TOKENS)?;
        let mut process = Command::new(binary()?)
            .args(["serve", "--bind", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .arg("--token-auth-file")
            .arg(folder.join("tokens.csv"))
            .arg("--kubeconfig-out")
            .arg(folder.join("kubeconfig"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let said = listen(&mut process);
        let mut server = Self { process, url: String::new(), folder };
        server.url = ready(&said)?;
        Ok(server)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A folder that goes away with the server.
    pub(crate) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Stops it the way a service manager does, and insists on a clean end.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let terminated = Command::new("kill").arg(self.process.id().to_string()).status()?;
        let status = self.process.wait()?;
        if !terminated.success() || !status.success() {
            bail!("the server ended with {status} after SIGTERM");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// The binary beside this one, up to date. Asked for through the command line's own tests, cargo resolves the same features
/// as the test step and finds everything compiled.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    // Another binary than this checkout's: an installed one, or one that is built already.
    if let Some(path) = std::env::var_os("LISTWATCH_BINARY") {
        return Ok(path.into());
    }
    let mut build = Command::new("cargo");
    build.args(["test", "--workspace", "--test", "serve", "--no-run", "--quiet"]).current_dir(root());
    run(build)?;
    Ok(std::env::current_exe()?.with_file_name("listwatch"))
}

/// Passes on the server's output, line by line, until it ends: a full pipe would stop the server.
fn listen(process: &mut Child) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    if let Some(stderr) = process.stderr.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                send.send(line).ok();
            }
        });
    }
    receive
}

fn ready(said: &mpsc::Receiver<String>) -> anyhow::Result<String> {
    let mut heard = Vec::new();
    while let Ok(line) = said.recv_timeout(READY_WITHIN) {
        if let Some(url) = line.strip_prefix("ready ").and_then(|rest| rest.split_whitespace().next()) {
            return Ok(url.to_owned());
        }
        heard.push(line);
    }
    bail!("the server did not become ready; it said: {}", heard.join(" / "))
}
