//! Checks the directions of dependencies, between crates and inside the server crate, and ARCHITECTURE.md against them.
//!
//! A user of the informer library must not compile a server, and the crate that both ends share must stay free of IO: both
//! are easy to break with one line in a manifest and hard to notice. Crates are checked here, against what cargo resolves
//! (dev-dependencies included); [`server`] checks the modules of the server, [`documents`] the names in ARCHITECTURE.md.

mod documents;
mod server;

use std::process::Command;

use anyhow::{Context, bail};

use crate::report::Outcome;
use crate::root;

/// A package, and what its dependency tree must not contain.
const RULES: [(&str, &[&str]); 8] = [
    (
        "listwatch",
        &[
            "listwatch-server",
            "listwatch-storage",
            "listwatch-kinds",
            "listwatch-custom",
            "listwatch-merge",
            "listwatch-testkit",
        ],
    ),
    ("listwatch-json", &["tokio", "hyper", "rustls"]),
    ("listwatch-wire", &["tokio", "hyper", "rustls"]),
    ("listwatch-merge", &["tokio", "hyper", "rustls"]),
    ("listwatch-kinds", &["tokio", "hyper", "rustls"]),
    ("listwatch-cel", &["tokio", "hyper", "rustls", "listwatch-kinds"]),
    ("listwatch-custom", &["tokio", "hyper", "rustls"]),
    ("listwatch-workqueue", &["listwatch", "listwatch-wire", "listwatch-server", "kube"]),
];

pub(crate) fn check() -> anyhow::Result<Outcome> {
    for (package, forbidden) in RULES {
        let tree = tree(package)?;
        if let Some(name) = offender(&tree, forbidden) {
            bail!(
                "{package} must not depend on {name}; find the way with `cargo tree -p {package} -i {name}`"
            );
        }
    }
    let (modules, files) = (server::check()?, documents::check()?);
    Ok(Outcome::Passed(format!(
        "{} packages, {modules} modules of the server, {files} files named",
        RULES.len()
    )))
}

fn tree(package: &str) -> anyhow::Result<String> {
    let output = Command::new("cargo")
        .args(["tree", "--prefix", "none", "--package", package])
        .current_dir(root())
        .output()
        .context("cannot start cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree -p {package}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first forbidden package in the tree, whose lines read `name vVERSION …`. The first line is the package itself.
fn offender<'a>(tree: &str, forbidden: &[&'a str]) -> Option<&'a str> {
    tree.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .find_map(|name| forbidden.iter().find(|forbidden| **forbidden == name).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_below_the_package_itself_count() {
        let tree = "listwatch v0.1.0 (/x)\nserde v1.0.0\ntokio-util v0.7.0\n\nhyper v1.0.0 (*)\n";
        assert_eq!(offender(tree, &["tokio", "hyper"]), Some("hyper"));
        assert_eq!(offender(tree, &["listwatch", "tokio"]), None);
    }
}
