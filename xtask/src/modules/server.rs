//! The direction of the modules of the server crate, read from the paths in its source.
//!
//! A module is here a top-level one of `crates/server/src`. ARCHITECTURE.md has a table of the modules and of what each
//! may use; the source may not use more, the table itself may not have a cycle, and every module must have a row. Four
//! files at the root need none ([`BETWEEN`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::root;

/// The head of the table in ARCHITECTURE.md.
const HEAD: &str = "| module | contents | may use |";

/// Files at the root that are not modules of the table: `lib` and `server` put the modules together, `error` and
/// `options` are used by all.
const BETWEEN: [&str; 4] = ["lib", "server", "error", "options"];

/// The modules, each with those it may use.
type Table = BTreeMap<String, BTreeSet<String>>;

/// Checks the table and every source file of the server against it. Returns the number of modules.
pub(super) fn check() -> anyhow::Result<usize> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).context("cannot read ARCHITECTURE.md")?;
    let table = parse(&text)?;
    if let Some(cycle) = cycle(&table) {
        bail!("the modules in ARCHITECTURE.md have a cycle: {}", cycle.join(" → "));
    }
    let mut wrong = Vec::new();
    visit(&root().join("crates/server/src"), &mut |path, source| {
        let Some(module) = module_of(path).filter(|module| !BETWEEN.contains(&module.as_str())) else {
            return;
        };
        if !table.contains_key(&module) {
            wrong.push(format!("{}: {module} has no row", path.display()));
            return;
        }
        for used in used_modules(source, &table) {
            if used != module && !table.get(&module).is_some_and(|allowed| allowed.contains(&used)) {
                wrong.push(format!("{} uses {used}, which {module} may not", path.display()));
            }
        }
    })?;
    if !wrong.is_empty() {
        bail!("the table of modules in ARCHITECTURE.md does not allow:\n  {}", wrong.join("\n  "));
    }
    Ok(table.len())
}

/// Reads the table of modules. A dash means none.
fn parse(document: &str) -> anyhow::Result<Table> {
    let rows = document.lines().skip_while(|line| *line != HEAD).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let mut table = Table::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, uses] = cells[..] else {
            bail!("a row of the table of modules has no three cells: {row}")
        };
        let uses = uses.split(',').map(|module| module.trim().trim_matches('`').to_owned());
        table.insert(name.trim_matches('`').to_owned(), uses.filter(|module| module != "–").collect());
    }
    if table.is_empty() {
        bail!("ARCHITECTURE.md has no table that begins with {HEAD}");
    }
    let unknown = table.values().flatten().find(|module| !table.contains_key(*module));
    match unknown {
        Some(module) => bail!("the table of modules names {module}, which has no row"),
        None => Ok(table),
    }
}

/// Returns a cycle of modules that use each other, if there is one.
fn cycle(table: &Table) -> Option<Vec<String>> {
    fn visit(module: &str, table: &Table, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if path.iter().any(|visited| visited == module) {
            path.push(module.to_owned());
            return true;
        }
        if done.contains(module) {
            return false;
        }
        path.push(module.to_owned());
        let found = table.get(module).into_iter().flatten().any(|used| visit(used, table, path, done));
        if !found {
            path.pop();
            done.insert(module.to_owned());
        }
        found
    }
    let mut done = BTreeSet::new();
    table.keys().find_map(|module| {
        let mut path = Vec::new();
        visit(module, table, &mut path, &mut done).then_some(path)
    })
}

fn visit(folder: &Path, each: &mut impl FnMut(&Path, &str)) -> anyhow::Result<()> {
    let base = root().join("crates/server/src");
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, each)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(path.strip_prefix(&base).unwrap_or(&path), &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The module of a file, by its path below `src`.
fn module_of(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_str()?;
    Some(first.trim_end_matches(".rs").to_owned())
}

/// The modules that a source file names after `crate::`, in `use` lines and in paths. Comments and unit tests do not count.
fn used_modules(source: &str, table: &Table) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = code.get(at + "crate::".len()..).unwrap_or_default();
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => rest.split(';').next().unwrap_or_default(),
        };
        let single = !rest.starts_with('{');
        for name in names.split(',').take(if single { 1 } else { usize::MAX }) {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if table.contains_key(&name) {
                used.insert(name);
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, &[&str])]) -> Table {
        let row =
            |(module, uses): &(&str, &[&str])| ((*module).into(), uses.iter().map(|u| (*u).into()).collect());
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_table_is_read_from_the_document() {
        let text = format!(
            "text\n\n{HEAD}\n|---|---|---|\n| `http` | bytes | – |\n| `verbs` | one, two | `http` |\n\nmore"
        );
        assert_eq!(parse(&text).unwrap(), table(&[("http", &[]), ("verbs", &["http"])]));
        assert!(parse("nothing").is_err());
        assert!(parse(&format!("{HEAD}\n|---|---|---|\n| `http` | bytes | `verbs` |\n")).is_err());
    }

    #[test]
    fn modules_that_use_each_other_are_a_cycle() {
        assert_eq!(cycle(&table(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])), None);
        let found = cycle(&table(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])])).unwrap();
        assert_eq!(found, ["a", "b", "c", "a"]);
    }

    #[test]
    fn uses_are_found_in_groups_and_paths_but_not_in_comments_and_tests() {
        let source = "use crate::http::body;\nuse crate::{api::Api, Error, cache};\n// crate::lifecycle\nfn f() { crate::auth::g() }\n#[cfg(test)]\nuse crate::chain;";
        let table = table(&[
            ("http", &[]),
            ("api", &[]),
            ("cache", &[]),
            ("auth", &[]),
            ("lifecycle", &[]),
            ("chain", &[]),
        ]);
        let used: Vec<String> = used_modules(source, &table).into_iter().collect();
        assert_eq!(used, ["api", "auth", "cache", "http"]);
    }
}
