//! The flags that a command was started with, by name, for `/flagz` of the server.
//!
//! Flags from `--config`, from the command line and defaults are listed alike. A flag without a value has an empty one, a
//! switch is `true` or `false`.

use clap::{ArgAction, ArgMatches, Command};

/// Stands for a value that must not be shown, in kube-apiserver's word.
const CLASSIFIED: &str = "CLASSIFIED";

/// Returns names and values of all flags of the subcommand that was given.
pub(crate) fn of(command: &Command, matches: &ArgMatches) -> Vec<(String, String)> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let Some(command) = command.find_subcommand(name) else { return Vec::new() };
    let visible = command.get_arguments().filter_map(|argument| Some((argument.get_long()?, argument)));
    let set = visible.filter(|(long, _)| !matches!(*long, "help" | "version"));
    set.map(|(long, argument)| {
        (long.to_owned(), value(argument.get_id().as_str(), argument.get_action(), matches))
    })
    .collect()
}

/// The value as it was given, several of them with commas. URLs may contain a password.
fn value(id: &str, action: &ArgAction, matches: &ArgMatches) -> String {
    match action {
        ArgAction::SetTrue => matches.get_flag(id).to_string(),
        ArgAction::Count => matches.get_count(id).to_string(),
        _ => {
            let raw = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
            let text = raw.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
            if text.contains("://") && text.contains('@') { CLASSIFIED.to_owned() } else { text }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::CliArguments;

    #[test]
    fn flags_are_shown_with_defaults_and_without_passwords() {
        let mut command = CliArguments::command();
        let given = ["listwatch", "serve", "--etcd-endpoints", "http://a:b@c:2379", "--no-console"];
        let matches = command.try_get_matches_from_mut(given).unwrap();
        let flags = of(&command, &matches);
        let get = |name: &str| flags.iter().find(|(flag, _)| flag == name).map(|(_, value)| value.as_str());
        assert_eq!(get("etcd-endpoints"), Some("CLASSIFIED"));
        assert_eq!((get("bind"), get("no-console")), (Some("127.0.0.1:6443"), Some("true")));
        assert_eq!((get("memory"), get("tls-cert-file"), get("help")), (Some("false"), Some(""), None));
    }
}
