//! `serve --config FILE`: flags in a YAML file, under their own names.
//!
//! The file becomes arguments in front of those on the command line, so that every flag has one definition, one parser and
//! one error message, and the command line overrides the file.
//!
//! ```yaml
//! bind: 127.0.0.1:6443
//! data-dir: /var/lib/listwatch
//! event-ttl: 2h
//! no-console: true
//! ```

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, bail};
use clap::Command;
use serde_json::Value;

/// A configuration file is a page, not a database.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the arguments with those of the file that `--config` names put before them.
///
/// Only if `serve` is the first argument: no other command takes a file.
///
/// # Errors
///
/// The file cannot be read, or is not a map of flags. Unknown flags are reported by the parser of flags.
pub(crate) fn expand(command: &Command, arguments: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let is_serve = arguments.get(1).is_some_and(|command| command == "serve");
    let Some(path) = named(&arguments).filter(|_| is_serve) else { return Ok(arguments) };
    let added = read(command, Path::new(&path)).with_context(|| format!("--config {}", path.display()))?;
    let mut expanded: Vec<OsString> = arguments.iter().take(2).cloned().collect();
    expanded.extend(added.into_iter().map(OsString::from));
    expanded.extend(arguments.into_iter().skip(2));
    Ok(expanded)
}

/// Returns the value of `--config`, in either of its forms.
pub(crate) fn named(arguments: &[OsString]) -> Option<OsString> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            return arguments.next().cloned();
        }
        if let Some(value) = argument.to_str().and_then(|text| text.strip_prefix("--config=")) {
            return Some(value.into());
        }
    }
    None
}

/// Reads the file into flags. Its size is bounded before it is read.
fn read(command: &Command, path: &Path) -> anyhow::Result<Vec<String>> {
    if std::fs::metadata(path)?.len() > MAX_BYTES {
        bail!("the file has more than {MAX_BYTES} bytes");
    }
    let text = std::fs::read_to_string(path)?;
    let value: Value = listwatch_server::parse_yaml(&text).map_err(anyhow::Error::msg)?;
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(flags) => flags
            .iter()
            .map(|(name, value)| flag(name, value, takes_value(command, name)))
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.concat()),
        _ => bail!("expected flags and their values, as in `bind: 127.0.0.1:6443`"),
    }
}

/// Distinguishes flags with a value (`--anonymous-auth=false`) from switches (`--no-console`).
fn takes_value(command: &Command, name: &str) -> bool {
    let mut flags = command.find_subcommand("serve").into_iter().flat_map(Command::get_arguments);
    flags.any(|flag| flag.get_long() == Some(name) && flag.get_action().takes_values())
}

/// A list becomes one value with commas, which is what flags with several values take. `false` leaves a switch out,
/// so that it can be turned off without deleting its line.
fn flag(name: &str, value: &Value, takes_value: bool) -> anyhow::Result<Vec<String>> {
    Ok(match value {
        Value::Bool(given) if takes_value => vec![format!("--{name}={given}")],
        Value::Bool(true) => vec![format!("--{name}")],
        Value::Bool(false) | Value::Null => Vec::new(),
        Value::Array(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(|item| scalar(name, item)).collect();
            vec![format!("--{name}={}", items?.join(","))]
        }
        other => vec![format!("--{name}={}", scalar(name, other)?)],
    })
}

/// Writes a value as the command line would have it.
///
/// # Errors
///
/// Something nested. The message names the flag.
fn scalar(name: &str, value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => bail!("{name}: expected a text, a number, true, false or a list of these"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn expanded(text: &str, typed: &[&str]) -> anyhow::Result<Vec<String>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        let mut arguments: Vec<OsString> =
            vec!["listwatch".into(), "serve".into(), "--config".into(), file.path().into()];
        arguments.extend(typed.iter().map(OsString::from));
        let all = expand(&crate::CliArguments::command(), arguments)?;
        Ok(all
            .iter()
            .skip(2)
            .filter(|argument| *argument != file.path())
            .map(|a| a.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn flags_of_the_file_come_before_those_typed() {
        let text = "bind: 127.0.0.1:1\nmemory: true\nno-console: false\netcd-endpoints: [a, b]\n";
        assert_eq!(
            expanded(text, &["--bind", ":2"]).unwrap(),
            ["--bind=127.0.0.1:1", "--etcd-endpoints=a,b", "--memory", "--config", "--bind", ":2"]
        );
    }

    /// Leaving the flag out would be the opposite of what the file says.
    #[test]
    fn false_of_a_flag_with_a_value_is_kept() {
        assert_eq!(expanded("anonymous-auth: false\n", &[]).unwrap(), ["--anonymous-auth=false", "--config"]);
    }

    #[test]
    fn configuration_files_without_a_list_of_flags_are_refused() {
        assert!(expanded("- a\n", &[]).is_err());
        assert!(expanded("bind: {a: 1}\n", &[]).is_err());
        assert!(expanded("a: [", &[]).is_err());
        assert!(expanded("", &[]).is_ok());
    }
}
