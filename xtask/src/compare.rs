//! `cargo xtask compare`: sends the same requests to this server and to another one, and prints every difference of the
//! responses.
//!
//! The other one is usually kube-apiserver. Scenarios recorded with it are in `conformance/` and need no other server; this
//! command is for finding more differences.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use crate::server::{ADMIN_TOKEN, Server, USER_TOKEN};
use crate::{parts, root};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The other server, as https://127.0.0.1:6443. It needs RBAC, and Pods without ServiceAccounts must be allowed
    #[arg(long)]
    reference: String,
    /// A token there of a member of system:masters
    #[arg(long)]
    token: String,
    /// A token there of user alice in group devs, without rights
    #[arg(long)]
    user_token: Option<String>,
    /// Only scenarios whose name matches, or mutations and sequences of these kinds; repeatable
    #[arg(long)]
    only: Vec<String>,
    /// Change one field of valid objects at a time, instead of the scenarios
    #[arg(long, conflicts_with = "manifests")]
    mutations: bool,
    /// Random sequences of requests on custom and built-in kinds, made from this seed, instead of the scenarios
    #[arg(long, value_name = "SEED", conflicts_with_all = ["manifests", "mutations"])]
    sequences: Option<String>,
    /// Manifests to create on both as a dry run, instead of the scenarios
    manifests: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(missing) = parts::python()? {
        bail!(missing);
    }
    let server = Server::start()?;
    let program = match &arguments.sequences {
        Some(seed) => Some(("sequences", vec!["--seed", seed.as_str(), "--messages"])),
        None => arguments.mutations.then(|| ("mutate", Vec::new())),
    };
    if let Some((program, options)) = program {
        let status = generated(arguments, &server, program, &options)?;
        server.stop()?;
        return Ok(status);
    }
    let mut command = Command::new(root().join("conformance/compare"));
    command.args(["--server", &server.url, "--token", ADMIN_TOKEN, "--user-token", USER_TOKEN]).args([
        "--reference",
        &arguments.reference,
        "--reference-token",
        &arguments.token,
    ]);
    if let Some(token) = &arguments.user_token {
        command.args(["--reference-user-token", token]);
    }
    for glob in &arguments.only {
        command.args(["--only", glob]);
    }
    let status = command.args(&arguments.manifests).status().context("cannot start conformance/compare")?;
    server.stop()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a program of `conformance/` that makes requests up.
fn generated(
    arguments: &Arguments,
    server: &Server,
    program: &str,
    options: &[&str],
) -> anyhow::Result<ExitCode> {
    let mut command = Command::new(root().join("conformance").join(program));
    command.args(options).args(["--server", &server.url, "--token", ADMIN_TOKEN]);
    command.args(["--reference", &arguments.reference, "--reference-token", &arguments.token]);
    for kind in &arguments.only {
        command.args(["--only", kind]);
    }
    let status = command.status().with_context(|| format!("cannot start conformance/{program}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
