//! Reading configuration files and writing private ones, with errors that name the file.
//!
//! YAML is always parsed into a tree first, and the type is made from the tree: each type that is deserialized from
//! YAML directly would add another copy of the parser to the binary, some 100 KB. Bodies of requests, whose duplicate
//! keys are reported, are `pipeline/yaml.rs`; it reads the same tree.
//!
//! Private files (CA key, administrator's token) are written with mode 0600 under another name, synced and renamed,
//! so that neither a crash nor a reader ever sees a part of a key. Files are read once at the start, except for
//! serving certificates, which `listen/tls.rs` reads again.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use listwatch_wire::json::Value;
use serde::de::DeserializeOwned;

use crate::Error;

/// Reads a text file.
///
/// # Errors
/// [`Error::File`] with the path.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Writes a file that only its owner may read. The file is written under another name and renamed, so that a reader
/// never sees a part of it.
///
/// # Errors
/// [`Error::File`] with the path.
pub(crate) fn write_private(path: &Path, content: &str) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut draft = PathBuf::from(path);
    draft.as_mut_os_string().push(".new");
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)
}

/// Parses YAML into a tree. Depth, aliases and the number of nodes are bounded by the parser. `0644` is an octal number, as in
/// YAML 1.1, which Kubernetes reads.
///
/// # Errors
/// Text that is no YAML, or a mapping that has a key twice. The message shows the line, so it may contain a secret.
pub(crate) fn yaml_tree(text: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { legacy_octal_numbers: true })
}

/// Reads a configuration file in YAML as a type.
///
/// A member that is `null` is one that is not there, as in kube-apiserver: `users: null` is an empty list. Scalars are
/// those of YAML 1.1 and are not converted: `5` and `y` where the type has a string are errors, as there.
///
/// ```
/// let flags: std::collections::BTreeMap<String, bool> = listwatch_server::parse_yaml("memory: true\nbind:\n").unwrap();
/// assert!(flags["memory"] && !flags.contains_key("bind"));
/// ```
///
/// # Errors
/// Text that is no YAML, with the line, or a tree that is not of that type. Either may quote the text, secrets included.
pub fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let tree = yaml_tree(text).map_err(|error| error.to_string())?;
    serde_json::from_value(without_nulls(&tree)).map_err(|error| error.to_string())
}

/// Copies a tree without the members that are null. Elements of lists stay, since dropping one would move the others.
fn without_nulls(tree: &Value) -> serde_json::Value {
    match tree {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.to_string(), without_nulls(value)))
            .collect(),
        scalar => scalar.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kubectl writes `users: null` into a kubeconfig without users, and Go reads it as an empty list.
    #[test]
    fn a_member_that_is_null_is_absent() {
        #[derive(serde::Deserialize, Debug, PartialEq)]
        #[serde(default, deny_unknown_fields)]
        #[derive(Default)]
        struct Config {
            users: Vec<String>,
            name: String,
        }
        let read: Config = parse_yaml("users: null\nname: a").unwrap();
        assert_eq!(read, Config { name: "a".to_owned(), ..Config::default() });
        assert_eq!(parse_yaml::<Vec<Option<u8>>>("[1, null]").unwrap(), [Some(1), None]);
    }

    #[test]
    fn errors_name_the_line_or_the_field() {
        let syntax = parse_yaml::<Vec<String>>("a: 1\nb: [").unwrap_err();
        assert!(syntax.contains("line 2"), "{syntax}");
        let twice = parse_yaml::<Vec<String>>("a: 1\na: 2").unwrap_err();
        assert!(twice.contains("duplicate"), "{twice}");
        let typed = parse_yaml::<Vec<String>>("[a, 2]").unwrap_err();
        assert_eq!(typed, "invalid type: integer `2`, expected a string");
    }
}
