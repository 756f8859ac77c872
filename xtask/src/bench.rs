//! `cargo xtask bench`: the benchmarks, each with the crate that it is in.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::ValueEnum;

use crate::checks;
use crate::root;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which benchmark; all of them if none is named
    which: Vec<Which>,
    /// The load driver for `server`: a program that takes the path of the binary to measure
    #[arg(long, value_name = "PROGRAM")]
    driver: Option<PathBuf>,
    /// A folder with Kubernetes' own programs for `density` and `hollow`: kubectl, kube-apiserver, etcd, the controllers
    /// and kubemark
    #[arg(long, value_name = "FOLDER")]
    kubernetes: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Scanning, splicing, framing and patching of bytes
    Wire,
    /// Durable puts, reads, log replay; memory, file size, and cost by number of keys
    Storage,
    /// Add, get and done; delayed keys; fairness
    Workqueue,
    /// Initial sync, updates and reads beside kube-rs
    Informer,
    /// A saved cache of 100,000 objects: from the start of a process until they can be read
    Warm,
    /// One operator with our Controller and with kube-rs's: lines and CPU per reconcile
    Controller,
    /// A thousand watchers of which ten never read: the effect on the others
    Watchers,
    /// 100,000 objects in the server: memory, and the cost of listing a few of them
    Memory,
    /// A flood by one user: what another one and health checks notice of it
    Flood,
    /// Changes of the status of Pods: CPU per change
    Patches,
    /// A decision with a thousand roles and 5,000 bindings, and a change of them
    Rights,
    /// A write that no plugin matches, one that a policy decides about, and one that a webhook decides about
    Admission,
    /// A stream of Pods as whole objects, as gzip of them and as deltas: bytes and CPU of both ends
    Delta,
    /// HTTP/1.1 of our own beside hyper's: memory of an idle connection and of a watch, CPU per request
    Http,
    /// The whole server as a process: CPU per request and per delivered event; needs --driver
    Server,
    /// Pods placed by the real controllers, on this server and on kube-apiserver, each killed once; needs --kubernetes
    Density,
    /// The same with hollow kubelets, then a rollout and a drain; needs --kubernetes
    Hollow,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let all = Which::value_variants();
    let chosen = if arguments.which.is_empty() { all } else { &arguments.which };
    for which in chosen {
        match which {
            Which::Wire => bench("listwatch-merge", &[])?,
            Which::Storage => bench("listwatch-storage", &[])?,
            Which::Workqueue => bench("listwatch-workqueue", &[])?,
            Which::Informer => bench("listwatch", &["sync", "memory", "read"])?,
            Which::Warm => bench("listwatch", &["warm"])?,
            Which::Controller => bench("listwatch-testkit", &[])?,
            Which::Watchers => bench("listwatch-cli", &["watchers"])?,
            Which::Memory => bench("listwatch-cli", &["memory"])?,
            Which::Flood => bench("listwatch-cli", &["flood"])?,
            Which::Patches => bench("listwatch-cli", &["patches"])?,
            Which::Rights => bench("listwatch-server", &["rights"])?,
            Which::Admission => bench("listwatch-server", &["admission"])?,
            Which::Delta => bench("listwatch-cli", &["delta"])?,
            Which::Http => http()?,
            Which::Server => match &arguments.driver {
                Some(driver) => server(driver)?,
                None => println!("server: left out; name the load driver with --driver"),
            },
            Which::Density | Which::Hollow => match &arguments.kubernetes {
                Some(programs) => density(programs, *which == Which::Hollow)?,
                None => {
                    println!("density: left out; name the folder of Kubernetes' programs with --kubernetes")
                }
            },
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Naming the benches leaves unit tests out, which would only be compiled once more for another profile.
fn bench(package: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command.args(["bench", "--bench", "*", "--package", package, "--"]).args(arguments).current_dir(root());
    checks::run(command).map(drop)
}

fn http() -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command.args(["bench", "--package", "listwatch-server", "--features", "bench-http", "--bench", "http"]);
    command.current_dir(root());
    checks::run(command).map(drop)
}

fn server(driver: &PathBuf) -> anyhow::Result<()> {
    let mut measure = Command::new(driver);
    measure.arg(release()?);
    checks::run(measure).map(drop)
}

fn density(programs: &PathBuf, hollow: bool) -> anyhow::Result<()> {
    let mut measure = Command::new(root().join("tests/density"));
    measure.arg(programs).arg("--server").arg(format!("listwatch={}", release()?.display()));
    measure.args(["--server", "reference"]).args(hollow.then_some("--hollow"));
    checks::run(measure).map(drop)
}

/// Builds the binary that users get, and returns its path.
fn release() -> anyhow::Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "listwatch-cli"]).current_dir(root());
    checks::run(build)?;
    // Two folders up from this program, whatever profile it was built with, is the target directory.
    let target = std::env::current_exe()?.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    Ok(target.join("release/listwatch"))
}
