//! `listwatch reference`: the page `docs/reference/flags.md`, made from the same definitions as `--help`.
//!
//! The command is hidden; `cargo xtask reference` runs it, and CI compares the page. Every visible command and flag
//! gets a row, with default and possible values, so a flag cannot be added without its documentation. Text is taken
//! from the doc comments of the arguments: they are user documentation and not comments for maintainers.

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};

use crate::terminal;

const HEAD: &str = "# Command line\n\n\
    Made by `cargo xtask reference` from the definitions that `--help`, the man pages (`listwatch man COMMAND`) and the\n\
    completions (`listwatch completions SHELL`) are made from. Flags of `serve` can be given in a YAML file under the same\n\
    names: `--config FILE`.\n";

/// Prints the page of all commands and flags.
pub(crate) fn print<C: CommandFactory>() -> anyhow::Result<ExitCode> {
    let mut all = C::command();
    all.build();
    terminal::print(page(&all))?;
    Ok(ExitCode::SUCCESS)
}

/// Depends on the definitions alone, so that the page is the same on every machine.
fn page(all: &Command) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&notes(all));
    commands(all, &mut text);
    text
}

/// Describes the commands below one, depth first.
fn commands(parent: &Command, text: &mut String) {
    for command in
        parent.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        describe(command, text);
        commands(command, text);
    }
}

/// Writes one command: usage, a table per heading of flags, and notes.
fn describe(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## {name}\n\n{about}.\n");
    let usage = command.clone().render_usage().to_string();
    let _ = write!(text, "\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let mut headings: Vec<&str> = Vec::new();
    for argument in shown(command) {
        let heading = argument.get_help_heading().unwrap_or("Options");
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(text, "\n| {heading} | default | |\n|---|---|---|\n");
        shown(command)
            .filter(|argument| argument.get_help_heading().unwrap_or("Options") == heading)
            .for_each(|argument| row(argument, text));
    }
    text.push_str(&notes(command));
}

/// Positional arguments too; `help` and `version` are the same for every command.
fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
    })
}

/// Writes one flag as a row of a table, with its default and possible values.
fn row(argument: &Arg, text: &mut String) {
    let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.filter(|_| argument.get_action().takes_values()).unwrap_or_default();
    let name = match (argument.get_long(), argument.get_short()) {
        (Some(long), Some(short)) => format!("`-{short}`, `--{long}`"),
        (Some(long), None) => format!("`--{long}`"),
        _ => String::new(),
    };
    let name = match (name.is_empty(), value.is_empty()) {
        (true, _) => format!("`{value}`"),
        (false, true) => name,
        (false, false) => format!("{} {value}`", name.trim_end_matches('`')),
    };
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = match defaults.join(",") {
        none if none.is_empty()
            || argument.is_hide_default_value_set()
            || !argument.get_action().takes_values() =>
        {
            String::new()
        }
        some => format!("`{some}`"),
    };
    let values: Vec<_> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let values = if values.is_empty() || !argument.get_action().takes_values() {
        String::new()
    } else {
        format!(": {}", values.join(", "))
    };
    let _ = writeln!(text, "| {name} | {default} | {help}{values} |");
}

/// The examples and notes after the flags.
fn notes(command: &Command) -> String {
    command.get_after_help().map(|notes| format!("\n```text\n{notes}\n```\n")).unwrap_or_default()
}
