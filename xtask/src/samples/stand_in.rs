//! The `listwatch` command of `sh` blocks: the real program, except that `serve` does not block the script.
//!
//! A document shows `listwatch serve --bind :6443 …` as people type it. Here it gets a free port, since another server may
//! use that one. In the foreground it would run for ever: [`until_ready`] starts it in the background, and the script
//! continues when the server is ready; the end of the script ends it. The flags are otherwise the document's, and a start
//! that fails fails the sample.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The folder of the stand-in, which comes first on the PATH.
const FOLDER: &str = "stand-in";

/// Makes the stand-in check flags and do nothing.
const FLAGS_ONLY: &str = "LISTWATCH_FLAGS_ONLY";

/// Later flags win, so that the port can be appended. With `--help` at the end, flags before it are parsed and nothing is run.
const PROGRAM: &str = r#"#!/usr/bin/env bash
if [ -n "${LISTWATCH_FLAGS_ONLY:-}" ]; then exec "$REAL" "$@" --help >/dev/null; fi
if [ "${1:-}" = serve ]; then exec "$REAL" "$@" --bind 127.0.0.1:0; fi
exec "$REAL" "$@"
"#;

/// Follows a server that was started in the foreground.
const WAIT: &str = r#" 2>serve.log &
until grep -q '^ready ' serve.log; do kill -0 $! 2>/dev/null || { cat serve.log >&2; exit 1; }; sleep 0.1; done"#;

/// Writes the stand-in of a binary into a folder of its own.
pub(super) fn write(folder: &Path, binary: &Path) -> anyhow::Result<()> {
    let program = folder.join(FOLDER).join("listwatch");
    std::fs::create_dir_all(folder.join(FOLDER))?;
    std::fs::write(&program, PROGRAM.replace("$REAL", &binary.display().to_string()))?;
    Ok(std::fs::set_permissions(program, PermissionsExt::from_mode(0o755))?)
}

/// Makes a shell find the stand-in before the program.
pub(super) fn put_first(shell: &mut Command, folder: &Path, flags_only: bool) {
    let known = shell.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = known.unwrap_or_default().to_string_lossy().into_owned();
    shell.env("PATH", format!("{}:{path}", folder.join(FOLDER).display()));
    if flags_only {
        shell.env(FLAGS_ONLY, "1");
    }
}

/// Makes the script continue when a server that it starts in the foreground is ready.
pub(super) fn until_ready(script: &str) -> String {
    let mut text = String::new();
    let mut is_serving = false;
    for line in script.lines() {
        if line.starts_with("listwatch serve") {
            is_serving = true;
            // The server of an earlier block was ready, too, and this one may not have opened the file yet.
            text.push_str(": > serve.log\n");
        }
        text.push_str(line);
        if is_serving && !line.ends_with('\\') {
            is_serving = false;
            text.push_str(if line.ends_with('&') { "" } else { WAIT });
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script with the stand-in of a program that prints its arguments, and keeps running like a server.
    fn said(script: &str, flags_only: bool) -> (bool, String) {
        let folder = std::env::temp_dir().join(format!("listwatch-{}-{}", std::process::id(), script.len()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        let text = "#!/bin/sh\n[ \"$2\" = --wrong ] && exit 2\necho ready \"$@\" >&2\n[ \"$3\" = --bind ] && sleep 1\ntrue\n";
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        write(&folder, &program).unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-ec", script]).current_dir(&folder).env("PATH", std::env::var("PATH").unwrap());
        put_first(&mut shell, &folder, flags_only);
        let output = shell.output().unwrap();
        std::fs::remove_dir_all(&folder).ok();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn a_server_gets_a_free_port_and_lets_the_script_go_on() {
        let script = until_ready("listwatch serve \\\n  --memory\ncat serve.log >&2\n");
        assert_eq!(said(&script, false), (true, "ready serve --memory --bind 127.0.0.1:0\n".to_owned()));
        assert_eq!(said("listwatch list pods", false), (true, "ready list pods\n".to_owned()));
        assert!(until_ready("listwatch serve &\nx\n").ends_with("listwatch serve &\nx\n"));
    }

    #[test]
    fn a_start_that_fails_and_a_wrong_flag_fail_the_script() {
        assert!(!said(&until_ready("listwatch serve --wrong\n"), false).0);
        assert!(!said("listwatch serve --wrong", true).0);
        assert_eq!(said("listwatch serve --right", true), (true, "ready serve --right --help\n".to_owned()));
    }
}
