//! The samples in the documents: every fenced block is run, applied or compiled, so that it works when copied.
//!
//! | block | what happens to it |
//! |---|---|
//! | `console` | each line after `$ ` is run by bash, and its output must be equal to the lines below it ([`script`]) |
//! | `sh` | run by bash; every command must succeed; `listwatch serve` takes a free port, and what comes after it runs when it is ready ([`stand_in`]) |
//! | `yaml` | applied to the server with kubectl |
//! | `python`, `js` | run with the official client of the language |
//! | `rust` | compiled by the doctests of the test kit, which must include the document |
//! | `go` | a test is run, a fragment is parsed ([`golang`]) |
//! | `toml` | dependencies: their versions must be those of this workspace ([`compare`]) |
//! | `sql` | the tables of the embedded store: they must be those of its source ([`compare`]) |
//! | `text` | nothing |
//!
//! All blocks of a document share one fresh server, whose kubeconfig is `$KUBECONFIG` and the file `kubeconfig`, and one
//! folder. Words may follow the language: `skip REASON` for a block that is not run, `needs PROGRAMS` for one that is
//! run only where they are installed, `flags REASON` for one of which only the flags of `listwatch` are checked (these are
//! printed), and `file NAME` for the content of a file that a later block uses.
//! [`blocks`] finds them.

mod blocks;
mod compare;
mod golang;
mod script;
mod stand_in;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::report::Outcome;
use crate::server::{self, Server};
use crate::{links, parts, root};
use blocks::Block;

/// The language of blocks that are only read.
const PROSE: &str = "text";

/// Where documents with `rust` blocks are named for the doctests.
const DOCTESTS: &str = "crates/testkit/src/lib.rs";

pub(crate) fn check() -> anyhow::Result<Outcome> {
    if !parts::present("kubectl") {
        return Ok(Outcome::Skipped("kubectl is missing; see https://kubernetes.io/docs/tasks/tools".into()));
    }
    let binary = server::binary()?;
    let (mut ran, mut skipped, mut failed) = (0, 0, Vec::new());
    for document in links::documents()? {
        let name = document.display().to_string();
        let text =
            std::fs::read_to_string(root().join(&document)).with_context(|| format!("cannot read {name}"))?;
        let (left_out, blocks): (Vec<Block>, Vec<Block>) =
            blocks::find(&text).into_iter().partition(|block| block.reason_to_skip().is_some());
        for block in &left_out {
            println!("skipped {name}:{}: {}", block.line, block.reason_to_skip().unwrap_or_default());
        }
        for block in blocks.iter().filter(|block| block.is_flags_only()) {
            println!("only the flags of {name}:{} are checked", block.line);
        }
        skipped += left_out.len();
        ran += blocks.iter().filter(|block| block.language != PROSE).count();
        failed.extend(Place::run(&name, &document, &blocks, &binary)?);
    }
    if !failed.is_empty() {
        bail!("{} samples fail:\n{}", failed.len(), failed.join("\n"));
    }
    Ok(Outcome::Passed(format!("{ran} samples, {skipped} skipped")))
}

/// A folder and a server for the samples of one document.
struct Place {
    server: Server,
    folder: PathBuf,
}

impl Place {
    /// Runs the blocks of a document in order; returns what failed.
    fn run(name: &str, document: &Path, blocks: &[Block], binary: &Path) -> anyhow::Result<Vec<String>> {
        let mut place = None;
        let mut failed = Vec::new();
        for block in blocks {
            let outcome = match block.language.as_str() {
                "rust" => is_doctested(document),
                PROSE => Ok(()),
                "toml" => compare::dependencies(&block.text),
                "sql" => compare::tables(&block.text),
                "" => Err(anyhow::anyhow!("the block names no language")),
                _ => {
                    if place.is_none() {
                        place = Some(Self::open(binary)?);
                    }
                    place.as_ref().map_or(Ok(()), |place| place.try_block(block))
                }
            };
            match outcome {
                Ok(()) => println!("ok {name}:{} {}", block.line, block.language),
                Err(error) => failed.push(format!("{name}:{}: {error:#}", block.line)),
            }
        }
        Ok(failed)
    }

    fn open(binary: &Path) -> anyhow::Result<Self> {
        let server = Server::start()?;
        let folder = server.folder().join("samples");
        std::fs::create_dir_all(folder.join("bin"))?;
        std::os::unix::fs::symlink(binary, folder.join("bin/listwatch"))?;
        stand_in::write(&folder, binary)?;
        std::fs::copy(server.kubeconfig(), folder.join("kubeconfig"))?;
        Ok(Self { server, folder })
    }

    fn try_block(&self, block: &Block) -> anyhow::Result<()> {
        if let Some(name) = block.file() {
            return Ok(std::fs::write(self.folder.join(name), &block.text)?);
        }
        match block.language.as_str() {
            "console" => script::run_console(&block.text, || self.command("bash")),
            "sh" => {
                let mut bash = self.command("bash");
                stand_in::put_first(&mut bash, &self.folder, block.is_flags_only());
                let text = match block.is_flags_only() {
                    true => block.text.clone(),
                    false => stand_in::until_ready(&block.text),
                };
                script::run(bash, &format!("set -euo pipefail\n{text}")).map(drop)
            }
            "yaml" => {
                std::fs::write(self.folder.join("sample.yaml"), &block.text)?;
                script::run(self.command("bash"), "kubectl apply -f sample.yaml").map(drop)
            }
            "python" => self.try_python(block),
            "js" => self.try_javascript(block),
            "go" => self.try_go(block),
            other => bail!("nothing is known about blocks of {other:?}"),
        }
    }

    fn try_python(&self, block: &Block) -> anyhow::Result<()> {
        if parts::python()?.is_some() {
            return Ok(());
        }
        std::fs::write(self.folder.join("sample.py"), &block.text)?;
        let mut command = self.command("bash");
        command.env("PYTHONPATH", parts::python_client()?).env("PYTHONDONTWRITEBYTECODE", "1");
        script::run(command, "python3 sample.py").map(drop)
    }

    fn try_javascript(&self, block: &Block) -> anyhow::Result<()> {
        if !parts::present("node") || !parts::present("npm") {
            return Ok(());
        }
        let modules = self.folder.join("node_modules");
        if !modules.exists() {
            std::os::unix::fs::symlink(parts::javascript_client()?.join("node_modules"), &modules)?;
        }
        std::fs::write(self.folder.join("sample.mjs"), &block.text)?;
        script::run(self.command("bash"), "node sample.mjs").map(drop)
    }

    fn try_go(&self, block: &Block) -> anyhow::Result<()> {
        if parts::python()?.is_some() {
            return Ok(());
        }
        let parsed_only = golang::run(&block.text, &self.folder, || self.command("bash"))?;
        if let Some(reason) = parsed_only {
            println!("only parsed line {}: {reason}", block.line);
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("KUBECACHEDIR", self.folder.join("kubectl-cache"))
            // The server of the samples makes its certificate itself.
            .env("NODE_TLS_REJECT_UNAUTHORIZED", "0")
            .env("NODE_NO_WARNINGS", "1");
        command
    }
}

/// A document with Rust in it must be among those that the doctests compile, or belong to a crate that includes it.
fn is_doctested(document: &Path) -> anyhow::Result<()> {
    let name = document.display().to_string();
    let own_crate = document.parent().map(|parent| root().join(parent).join("src/lib.rs"));
    let included = |file: &Path, path: &str| {
        std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("include_str!(\"{path}\")")))
    };
    if included(&root().join(DOCTESTS), &format!("../../../{name}"))
        || own_crate.is_some_and(|file| included(&file, "../README.md"))
    {
        return Ok(());
    }
    bail!("its Rust is compiled by nothing: include the document in {DOCTESTS}")
}
