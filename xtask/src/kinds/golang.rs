//! Reads the facts that are only in the Go types: which fields are pointers, what `omitempty` leaves out, protobuf numbers.
//!
//! This is no Go parser. The API types are written in one style (a field per line, tags in back quotes), and that style
//! is all that is understood; the join reports every field it cannot find here.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;

/// One field of a Go struct.
#[derive(Clone, Debug)]
pub(super) struct GoField {
    /// Name in JSON; empty for an inlined struct.
    pub(super) json: String,
    /// Type as written, with package aliases replaced by the package's own name and without the leading `*`.
    pub(super) go_type: String,
    pub(super) pointer: bool,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// Protobuf field number, if the field is in protobuf at all.
    pub(super) number: Option<u32>,
}

/// All structs of a source tree by `folder` + name, as in `api/core/v1` and `Pod`.
#[derive(Default)]
pub(super) struct GoTypes {
    structs: HashMap<(String, String), Vec<GoField>>,
}

impl GoTypes {
    /// Reads every file of the folders that was written by hand.
    pub(super) fn read(root: &Path, folders: &[String]) -> anyhow::Result<Self> {
        let mut types = Self::default();
        for folder in folders {
            let Ok(files) = std::fs::read_dir(root.join(folder)) else { continue };
            for file in files {
                let path = file?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let written_by_hand = !name.starts_with("zz_") && !name.starts_with("generated");
                if name.ends_with(".go") && written_by_hand && !name.contains("_test") {
                    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                    types.read_file(folder, &text);
                }
            }
        }
        Ok(types)
    }

    /// The fields of a struct, inlined structs still in place.
    pub(super) fn fields(&self, folder: &str, name: &str) -> Option<&[GoField]> {
        self.structs.get(&(folder.to_owned(), name.to_owned())).map(Vec::as_slice)
    }

    fn read_file(&mut self, folder: &str, text: &str) {
        let package = folder.rsplit('/').next().unwrap_or(folder).to_owned();
        let imports = imports(text);
        let mut current: Option<(String, Vec<GoField>)> = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("type ").and_then(|l| l.strip_suffix(" struct {")) {
                current = Some((name.to_owned(), Vec::new()));
            } else if line == "}" {
                if let Some((name, fields)) = current.take() {
                    self.structs.insert((folder.to_owned(), name), fields);
                }
            } else if let Some((_, fields)) = &mut current
                && let Some(field) = field(line, &package, &imports)
            {
                fields.push(field);
            }
        }
    }
}

/// Alias → the last element of the import path, which is the package's name in messages.
fn imports(text: &str) -> HashMap<String, String> {
    let block = text.split_once("import (").and_then(|(_, rest)| rest.split_once(')'));
    let mut imports = HashMap::new();
    for line in block.map(|(block, _)| block).unwrap_or_default().lines() {
        let Some((alias, rest)) = line.trim().split_once('"') else { continue };
        let package = rest.trim_end_matches('"').rsplit('/').next().unwrap_or_default();
        let alias = if alias.trim().is_empty() { package } else { alias.trim() };
        imports.insert(alias.to_owned(), package.to_owned());
    }
    imports
}

fn field(line: &str, package: &str, imports: &HashMap<String, String>) -> Option<GoField> {
    let line = line.trim();
    if line.starts_with("//") {
        return None;
    }
    let (declaration, tags) = line.split_once('`')?;
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let written = *words.last()?;
    let json = tag(tags, "json")?;
    let mut parts = json.split(',');
    let name = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.collect();
    if name == "-" {
        return None;
    }
    let number = tag(tags, "protobuf").and_then(|t| t.split(',').nth(1)?.parse().ok());
    Some(GoField {
        json: if options.contains(&"inline") { String::new() } else { name.to_owned() },
        go_type: qualified(written.trim_start_matches('*'), package, imports),
        pointer: written.starts_with('*'),
        omit_empty: options.contains(&"omitempty"),
        omit_zero: options.contains(&"omitzero"),
        number,
    })
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tags.split_once(&format!("{name}:\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Writes a type the way Go's reflection prints it: `[]v1.Container`, `map[string]string`, `v1.PodSpec`.
fn qualified(written: &str, package: &str, imports: &HashMap<String, String>) -> String {
    if let Some(item) = written.strip_prefix("[]") {
        return format!("[]{}", qualified(item, package, imports));
    }
    if let Some((key, value)) = written.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        let key = qualified(key, package, imports);
        return format!("map[{key}]{}", qualified(value, package, imports));
    }
    if let Some(pointed) = written.strip_prefix('*') {
        return format!("*{}", qualified(pointed, package, imports));
    }
    match written.split_once('.') {
        Some((alias, name)) => {
            format!("{}.{name}", imports.get(alias).map_or(alias, String::as_str))
        }
        None if written.starts_with(|c: char| c.is_ascii_uppercase()) => format!("{package}.{written}"),
        // `byte` prints as its alias target, as reflection does.
        None if written == "byte" => "uint8".to_owned(),
        None => written.to_owned(),
    }
}
