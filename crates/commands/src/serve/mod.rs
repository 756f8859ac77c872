//! `listwatch serve`: starts a server from flags, and shuts it down on a signal.
//!
//! A start that fails must leave nothing behind, so everything that can be checked is checked before anything is created,
//! and [`DirectoryCleanup`] removes what was created nevertheless. [`bind`] reads addresses, [`descriptors`] bounds
//! connections, [`nodes`] has the flags of connections to kubelets, [`logging`] sets up logs; `--config` is expanded
//! before flags are parsed (`config_file.rs`).

mod bind;
mod descriptors;
mod logging;
mod nodes;

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use listwatch_server::{
    AdmissionOptions, BuildInfo, Handle, HttpLimits, LifecycleOptions, Options, RequestLimits, Server,
};
use listwatch_storage::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::secure::Secure;
use crate::store::{StoreArguments, duration};
use crate::terminal::{Elapsing, note};
use crate::{build, owner};

/// The part of few file descriptors that connections to nodes have: one in so many.
const NODE_SHARE: usize = 8;

/// The file name of the admin kubeconfig in the data directory.
const KUBECONFIG: &str = "admin.kubeconfig";

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch serve\n  listwatch serve --memory --bind 127.0.0.1:0 --kubeconfig-out kubeconfig\n  listwatch serve --bind :6443 --data-dir /var/lib/listwatch --tls-san api.example.com\n  listwatch serve --config /etc/listwatch.yaml\n\nSIGTERM and SIGINT shut it down gracefully, with exit code 0; a second signal ends it at once."
)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    listen: Listen,

    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    security: Secure,

    #[command(flatten)]
    admission: Admission,

    #[command(flatten)]
    lifecycle: Lifecycle,

    #[command(flatten)]
    nodes: nodes::NodeArguments,

    #[command(flatten)]
    logging: logging::Logging,

    /// Names and values of all flags, for `/flagz`.
    #[arg(skip)]
    pub(crate) flags: Vec<(String, String)>,
}

/// Addresses, bounds of requests and the console. A heading of clap applies to everything after it, so each group is a
/// separate struct.
#[derive(Args, Debug)]
#[command(next_help_heading = "Serving")]
struct Listen {
    /// Address to listen on: HOST:PORT, or :PORT for all interfaces; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443", value_parser = bind::parse)]
    bind: SocketAddr,

    /// YAML file with flags under their own names; flags on the command line win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Path of the admin kubeconfig to write; by default it is in the data directory
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,

    /// Percent of the CPU time that one user's requests may use while other users are active; 100 means no limit
    #[arg(long, value_name = "PERCENT", default_value_t = RequestLimits::default().user_processor_percent, value_parser = clap::value_parser!(u32).range(1..=100))]
    max_user_cpu_percent: u32,

    /// Do not serve the web console under /console/
    #[arg(long)]
    no_console: bool,
}

/// Admission plugins, by kube-apiserver's names.
#[derive(Args, Debug)]
#[command(next_help_heading = "Admission")]
struct Admission {
    /// Use these plugins besides those that are on by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,

    /// Do not use these plugins
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

    /// AdmissionConfiguration: the configuration of EventRateLimit, ImagePolicyWebhook and PodSecurity
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
}

impl Admission {
    /// The options of admission.
    ///
    /// # Errors
    ///
    /// A configuration file that cannot be used.
    fn options(&self) -> anyhow::Result<AdmissionOptions> {
        let mut options = AdmissionOptions {
            enable: self.enable_admission_plugins.clone(),
            disable: self.disable_admission_plugins.clone(),
            ..AdmissionOptions::default()
        };
        if let Some(file) = &self.admission_control_config_file {
            options.configure(file).map_err(anyhow::Error::msg)?;
        }
        Ok(options)
    }
}

/// The controllers inside the server; all of them run unless switched off.
#[derive(Args, Debug)]
#[command(next_help_heading = "Lifecycle")]
struct Lifecycle {
    /// Do not create the bootstrap objects: namespaces, RBAC roles, the `kubernetes` Service
    #[arg(long)]
    no_first_objects: bool,

    /// Do not empty and remove deleted namespaces
    #[arg(long)]
    no_namespace_deletion: bool,

    /// Do not delete objects whose owners no longer exist
    #[arg(long)]
    no_garbage_collection: bool,

    /// Do not recalculate the status of resource quotas
    #[arg(long)]
    no_quota_status: bool,

    /// The time for which Events are kept [1h, 30m, …]; 0s keeps them for ever
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    event_ttl: Duration,
}

impl Lifecycle {
    /// The options of the controllers. A TTL of zero keeps Events for ever.
    fn options(&self) -> LifecycleOptions {
        LifecycleOptions {
            first_objects: !self.no_first_objects,
            empty_namespaces: !self.no_namespace_deletion,
            collect_garbage: !self.no_garbage_collection,
            quota_status: !self.no_quota_status,
            event_ttl: (!self.event_ttl.is_zero()).then_some(self.event_ttl),
            ..LifecycleOptions::default()
        }
    }
}

/// The longest time for a server that has failed to close its store.
/// Longer than a sync of a slow disk, and shorter than the grace period of a Pod.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// Starts the server, prints the two lines that scripts wait for, and serves until a signal. What can be checked is
/// checked before the store is opened, so that a mistake in the flags leaves nothing behind.
pub(crate) async fn run(arguments: ServeArguments) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    arguments.logging.init()?;
    arguments.check()?;
    let options = arguments.options()?;
    let mut signals = Signals::listen()?;
    let mut cleanup = DirectoryCleanup::watch(&arguments.store);
    // An etcd that does not answer is waited for, which an interrupt may end.
    let engine = tokio::select! {
        engine = open(&arguments.store) => engine?,
        () = signals.wait() => return Ok(ExitCode::SUCCESS),
    };
    let engine = arguments.security.encrypted(engine)?;
    let handle = Server::start(options, engine).await?;
    let kubeconfig = arguments.write_kubeconfig(&handle)?;
    cleanup.keep();
    note(format_args!("ready {} in {} ms", handle.url(), begin.elapsed().as_millis()));
    note(format_args!("try: kubectl --kubeconfig {} get namespaces", kubeconfig.path.display()));
    arguments.describe(&handle);
    tracing::info!(version = build::VERSION, commit = build::COMMIT, address = %handle.url(), "started");
    Ok(serve(handle, &mut signals).await)
}

/// Serves until a signal arrives, or a task ends that the server needs.
async fn serve(handle: Handle, signals: &mut Signals) -> ExitCode {
    tokio::select! {
        () = signals.wait() => {}
        task = handle.failed() => {
            note(format_args!("error: {task} has ended, without which the server cannot continue; the log has the reason"));
            // The remaining tasks may hang; only the store is waited for.
            let _ = tokio::time::timeout(LAST_WORDS, handle.shutdown()).await;
            return ExitCode::FAILURE;
        }
    }
    let stopping = Instant::now();
    tracing::info!("stopping: no new requests; open watches end");
    // A second signal ends the wait for open responses.
    tokio::select! {
        () = handle.shutdown() => tracing::info!(took_ms = stopping.elapsed().as_millis() as u64, "stopped"),
        () = signals.wait() => tracing::warn!("stopped at once after a second signal"),
    }
    ExitCode::SUCCESS
}

/// Opens the store. On a terminal the wait is shown.
async fn open(store: &StoreArguments) -> anyhow::Result<Arc<dyn Engine>> {
    let _elapsing = Elapsing::begin(format!("opening {}", store.place()));
    store.open().await.map_err(|error| match store.directory() {
        Some(directory) => owner::explain(error, directory),
        None => error,
    })
}

impl ServeArguments {
    /// Prints addresses and file locations, after the two lines that scripts read.
    fn describe(&self, handle: &Handle) {
        match self.store.directory() {
            Some(directory) => note(format_args!("data: {}", directory.display())),
            None => note("data: in memory, gone when the server stops"),
        }
        if !self.listen.no_console {
            note(format_args!("console: {}/console/", handle.url()));
        }
    }

    /// Checks what can be checked before anything is created.
    fn check(&self) -> anyhow::Result<()> {
        self.admission.options()?.check()?;
        self.security.check(self.listen.bind)?;
        self.nodes.check()?;
        // Only a check: the server binds the address itself. If another process takes it in between, the error is still
        // clear.
        std::net::TcpListener::bind(self.listen.bind).with_context(|| self.cannot_listen())?;
        Ok(())
    }

    fn cannot_listen(&self) -> String {
        let hint = "choose another with --bind";
        format!("cannot listen on {}{}; {hint}", self.listen.bind, owner::of_port(self.listen.bind.port()))
    }

    /// Puts the groups of flags together. Limits without a flag have their defaults.
    ///
    /// # Errors
    ///
    /// Files of issuers that cannot be read or used.
    fn options(&self) -> anyhow::Result<Options> {
        let (mut http, mut nodes) = (HttpLimits::default(), self.nodes.options());
        let allowed = descriptors::connections(http.connections + nodes.connections);
        nodes.connections = nodes.connections.min(allowed / NODE_SHARE);
        http.connections = http.connections.min(allowed - nodes.connections);
        let (security, keys) = self.security.protection(&self.store);
        Ok(Options {
            bind: self.listen.bind,
            security,
            keys,
            serving: self.security.serving(),
            identity: self.security.identity()?,
            authorization: self.security.authorization().authorizers()?,
            authorization_config: self.security.authorization().file(),
            anonymous: self.security.anonymous_auth,
            audit: self.security.audit(),
            token_file: self.security.token_auth_file.clone(),
            watch: self.security.watch(),
            requests: RequestLimits {
                user_processor_percent: self.listen.max_user_cpu_percent,
                ..RequestLimits::default()
            },
            console: !self.listen.no_console,
            nodes,
            lifecycle: self.lifecycle.options(),
            admission: self.admission.options()?,
            flags: self.flags.clone(),
            build: BuildInfo { commit: build::COMMIT.into(), date: build::DATE.into() },
            http,
            ..Options::default()
        })
    }

    /// Writes the admin kubeconfig to the requested path, else beside the data, else to a temporary file that is removed
    /// with the server.
    fn write_kubeconfig(&self, handle: &Handle) -> anyhow::Result<Kubeconfig> {
        let content = handle.admin_kubeconfig();
        let (path, temporary) = match (&self.listen.kubeconfig_out, self.store.directory()) {
            (Some(path), _) => (path.clone(), None),
            (None, Some(directory)) => (directory.join(KUBECONFIG), None),
            (None, None) => {
                let directory = tempfile::Builder::new()
                    .prefix("listwatch-")
                    .tempdir()
                    .context("cannot write the kubeconfig")?;
                (directory.path().join(KUBECONFIG), Some(directory))
            }
        };
        write_private(&path, &content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Kubeconfig { path, _temporary: temporary })
    }
}

/// The path of the written kubeconfig.
struct Kubeconfig {
    path: PathBuf,
    /// Removed with its content when the server stops: without a data directory nothing is kept.
    _temporary: Option<tempfile::TempDir>,
}

/// Writes a file that only its owner may read, whole or not at all: a reader must not find half a token.
fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Servers that share a store keep nothing else in their data directory.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // Temporary files have mode 0600 from the start.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Removes the data directory if this start created it and then failed.
/// A directory that was there before is never touched.
struct DirectoryCleanup(Option<PathBuf>);

impl DirectoryCleanup {
    fn watch(store: &StoreArguments) -> Self {
        Self(store.directory().filter(|directory| !directory.exists()).map(Path::to_owned))
    }

    /// Called once the server runs: from then on the directory has data.
    fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for DirectoryCleanup {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            std::fs::remove_dir_all(directory).ok();
        }
    }
}

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the signal handlers: a signal during the start ends it gracefully, too.
    fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for SIGTERM or SIGINT.
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
