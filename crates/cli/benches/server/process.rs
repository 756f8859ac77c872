//! [`Server`]: a `listwatch serve` process, and its figures from the kernel.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// A running server with the embedded engine; killed when dropped, its files removed.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: Arc<str>,
    pub(crate) tls: Arc<ClientConfig>,
    folder: TempDir,
}

/// Megabytes of memory that a process has, and how much of that is not a file's.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) anonymous: f64,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// One with more arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::on(TempDir::new().unwrap(), arguments)
    }

    fn on(folder: TempDir, arguments: &[&str]) -> Self {
        let binary =
            std::env::var_os("LISTWATCH_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_listwatch").into());
        let mut process = Command::new(binary)
            .args(["serve", "--bind", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = said.find_map(|line| line.strip_prefix("ready https://").map(str::to_owned));
        let address = ready.unwrap().split(' ').next().unwrap().parse().unwrap();
        // A full pipe would stop the server.
        std::thread::spawn(move || said.for_each(drop));
        let token = fs::read_to_string(folder.path().join("admin.token")).unwrap().trim().into();
        let tls = trust(&folder.path().join("ca.crt"));
        Self { process, address, token, tls, folder }
    }

    /// Stops it gracefully and starts it again on the same files.
    pub(crate) fn restart(mut self) -> Self {
        Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
        assert!(self.process.wait().unwrap().success());
        let folder = std::mem::replace(&mut self.folder, TempDir::new().unwrap());
        Self::on(folder, &[])
    }

    /// Microseconds of processor time so far.
    pub(crate) fn cpu_micros(&self) -> f64 {
        cpu_micros(&self.file("stat"))
    }

    /// The kubeconfig for its clients.
    pub(crate) fn kubeconfig(&self) -> std::path::PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    pub(crate) fn memory(&self) -> Memory {
        let status = fs::read_to_string(self.file("status")).unwrap();
        let megabytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
        };
        Memory { resident: megabytes("VmRSS:"), anonymous: megabytes("RssAnon:") }
    }

    fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The CPU time of this process in microseconds.
pub(crate) fn own_cpu_micros() -> f64 {
    cpu_micros("/proc/self/stat")
}

fn cpu_micros(file: &str) -> f64 {
    let stat = fs::read_to_string(file).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) * 10_000.0
}

fn trust(ca: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
