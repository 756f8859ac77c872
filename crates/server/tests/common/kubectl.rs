//! The real kubectl, found in the path, with a kubeconfig of its own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// kubectl as the user of a kubeconfig.
pub(crate) struct Kubectl {
    folder: tempfile::TempDir,
}

/// kubectl with a variable in its environment.
pub(crate) struct WithVariable<'a>(&'a Kubectl, &'static str, &'a str);

impl Kubectl {
    pub(crate) fn new(kubeconfig: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        Self { folder }
    }

    pub(crate) fn with<'a>(&'a self, name: &'static str, value: &'a str) -> WithVariable<'a> {
        WithVariable(self, name, value)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("KUBECACHEDIR", self.folder.path().join("cache"))
            .args(["-n", "default"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it with this input. Returns its exit code, its output and its errors.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        finish(self.command(arguments), input)
    }

    /// Runs it until its first line, which is this one, and ends it.
    pub(crate) fn follow(&self, arguments: &[&str], expected: &str) {
        let mut running = self.command(arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(line, expected);
    }
}

impl WithVariable<'_> {
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut command = self.0.command(arguments);
        command.env(self.1, self.2);
        finish(command, input)
    }

    /// Forwards a port and sends bytes through it, which must come back.
    pub(crate) fn forward(&self, target: &str, bytes: &[u8]) {
        let mut command = self.0.command(&["port-forward", target, ":8080"]);
        let mut running = command.env(self.1, self.2).spawn().unwrap();
        let mut line = String::new();
        // Kept open: kubectl writes another line for each connection, and ends when its pipe is closed.
        let mut output = BufReader::new(running.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
        let Some(address) = address else {
            let mut why = String::new();
            running.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("{line} {why}");
        };
        let mut connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection.write_all(bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        let read = connection.read_exact(&mut back);
        running.kill().unwrap();
        let mut why = String::new();
        running.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        running.wait().unwrap();
        assert!(read.is_ok() && back == bytes, "{read:?} {why}");
    }
}

fn finish(mut command: Command, input: &str) -> (i32, String, String) {
    let mut running = command.spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = running.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}
