//! Type names are unique in the workspace.
//!
//! Two types with one name make a reader look up which is meant, and a search finds both. `repeated_names.txt` lists
//! the names that may be defined more than once, with the number of definitions: common names of Rust libraries
//! (`Error`, `Options`) and names that have not been changed yet. The list can only shrink: a count that is too high
//! fails as well.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::source::{self, SourceFile};
use crate::report::Outcome;

/// One name and its number of definitions on each line.
const ALLOWED: &str = include_str!("repeated_names.txt");

/// Fails if a name is defined more than once, unless the list allows just that number.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let files = source::library()?;
    let (allowed, found) = (allowed()?, repeated(&files));
    let mut wrong = Vec::new();
    for (name, places) in &found {
        match allowed.get(name.as_str()) {
            Some(count) if *count >= places.len() => {}
            _ => wrong.push(format!("{name} is defined in {}", places.join(", "))),
        }
    }
    for (name, count) in &allowed {
        let now = found.get(*name).map_or(1, Vec::len);
        if now < *count {
            wrong.push(format!(
                "{name} is defined {now} times: correct repeated_names.txt, which says {count}"
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("a type name means one thing in the workspace:\n  {}", wrong.join("\n  "));
    }
    Ok(Outcome::Passed(format!("{} names are defined more than once", found.len())))
}

fn allowed() -> anyhow::Result<BTreeMap<&'static str, usize>> {
    let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ').context("a line of repeated_names.txt has no count")?;
            Ok((name, count.parse().with_context(|| format!("{line:?} has no number"))?))
        })
        .collect()
}

/// The names that are defined more than once, each with the files.
pub(super) fn repeated(files: &[SourceFile]) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        for name in file.lines().filter_map(defined) {
            names.entry(name.to_owned()).or_default().push(file.path.clone());
        }
    }
    names.retain(|_, places| places.len() > 1);
    names
}

/// The name of the type that a line defines. Associated types, which are indented, belong to their trait.
fn defined(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let indented = item.len() < line.len();
    let item = match item.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => item.strip_prefix("pub ").unwrap_or(item),
    };
    let (keyword, rest) = item.split_once(' ')?;
    if !matches!(keyword, "struct" | "enum" | "trait" | "union" | "type") || (keyword == "type" && indented) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    rest.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_two_files_define_is_found() {
        let files = [
            SourceFile::new("a.rs", "pub(crate) struct Place<T> {\n    type Item = Place;\n}"),
            SourceFile::new("b.rs", "enum Place {\n    struct_like: Other,\n}\ntype Other = u8;"),
        ];
        let found = repeated(&files);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["Place"]);
        assert_eq!(found["Place"], ["a.rs", "b.rs"]);
    }
}
