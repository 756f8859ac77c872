//! The process that holds a port or a file, for error messages.
//!
//! "Address already in use" and a locked data directory are the most common failures of a start, and mostly an earlier
//! server still runs. It reads `/proc`, so it works on Linux, and only for processes of this user; elsewhere the
//! message does not name the process. Nothing depends on the result.

use std::path::Path;

/// Describes the process that listens on a port; empty if it is not known.
pub(crate) fn of_port(port: u16) -> String {
    let sockets: Vec<String> = listening(port).iter().map(|inode| format!("socket:[{inode}]")).collect();
    describe(|link| sockets.iter().any(|socket| link == Path::new(socket)))
}

/// Describes the process that has a file open; empty if it is not known.
fn of_file(file: &Path) -> String {
    match file.canonicalize() {
        Ok(file) => describe(|link| link == file),
        Err(_) => String::new(),
    }
}

/// The file in a data directory that the process which has it keeps open.
const LOCK: &str = "store.lock";

/// Adds to a failure to open a store which process has it, if one has.
pub(crate) fn explain(error: anyhow::Error, directory: &Path) -> anyhow::Error {
    match of_file(&directory.join(LOCK)) {
        owner if owner.is_empty() => error,
        owner => error.context(format!(
            "the data directory is taken{owner}; stop that server or choose another with --data-dir"
        )),
    }
}

/// With a leading space, to be put behind a name.
fn describe(holds: impl Fn(&Path) -> bool) -> String {
    find(holds).map_or_else(String::new, |(pid, name)| format!(" (in use by {name}, process {pid})"))
}

/// Finds the process with an open file that the predicate accepts by the target of its link in `/proc`. Looks at every
/// process, which takes milliseconds and happens only before an error.
fn find(holds: impl Fn(&Path) -> bool) -> Option<(u32, String)> {
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        if files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok()).any(|link| holds(&link)) {
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            return Some((pid, name.trim().to_owned()));
        }
    }
    None
}

/// Returns the inodes of sockets in state LISTEN on a port.
fn listening(port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let fields = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| {
            fields.get(1).is_some_and(|local| local.ends_with(&wanted)) && fields.get(3) == Some(&LISTEN)
        })
        .filter_map(|fields| fields.get(9).map(|inode| (*inode).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> String {
        format!("process {})", std::process::id())
    }

    #[test]
    fn the_owner_of_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(of_port(port).ends_with(&me()), "{}", of_port(port));
        drop(listener);
        assert_eq!(of_port(port), "");
    }

    #[test]
    fn the_owner_of_a_file_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(of_file(file.path()).ends_with(&me()));
        assert_eq!(of_file(Path::new("/nowhere")), "");
    }
}
