//! Blocks that are compared with the source: dependencies with this workspace, tables with the store's schema.

use anyhow::{Context, bail};

use crate::root;

/// The file with the tables of the embedded store.
const SCHEMA: &str = "crates/storage/src/embedded/schema.rs";

/// Checks that a list of dependencies has the versions that the samples are compiled with.
pub(super) fn dependencies(block: &str) -> anyhow::Result<()> {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    for (name, version) in versions(block) {
        match versions(&workspace).find(|(known, _)| *known == name) {
            Some((_, ours)) if ours == version => {}
            Some((_, ours)) => bail!("{name} {version} is not the {ours} of Cargo.toml"),
            None => bail!("Cargo.toml has no {name}"),
        }
    }
    Ok(())
}

/// Returns the names and versions of lines such as `a = "1"` and `a = { version = "1", … }`; those with a path have none.
fn versions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (name, rest) = line.split_once('=')?;
        let rest = rest.trim_start();
        let quoted = match rest.strip_prefix('{') {
            Some(table) if table.contains("path =") => return None,
            Some(table) => table.split_once("version = ")?.1,
            None => rest,
        };
        Some((name.trim(), quoted.strip_prefix('"')?.split('"').next()?))
    })
}

/// Checks that each table of a block is in the source, comments and layout aside.
pub(super) fn tables(block: &str) -> anyhow::Result<()> {
    let source =
        std::fs::read_to_string(root().join(SCHEMA)).with_context(|| format!("cannot read {SCHEMA}"))?;
    let source = plain(&source);
    for statement in plain(block).split_inclusive(';').filter(|statement| statement.len() > 1) {
        if !source.contains(statement) {
            bail!("{SCHEMA} does not have {statement}");
        }
    }
    Ok(())
}

/// SQL without comments and white space.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_workspace() {
        let text = "[dependencies]\na = { path = \"x\" }\nserde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"\n";
        assert_eq!(versions(text).collect::<Vec<_>>(), [("serde", "1"), ("serde_json", "1")]);
        assert!(dependencies(text).is_ok() && dependencies("serde = \"0.9\"\n").is_err());
    }

    #[test]
    fn tables_are_those_of_the_source() {
        assert!(
            tables("CREATE TABLE keys (\n  key TEXT PRIMARY KEY, -- note\n  revision INTEGER NOT NULL,")
                .is_ok()
        );
        assert!(tables("CREATE TABLE keys (key BLOB PRIMARY KEY,").is_err());
    }
}
