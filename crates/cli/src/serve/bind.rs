//! The address to listen on, in the forms people type: `127.0.0.1:6443`, `localhost:6443`, `[::1]:6443`, `:6443`.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Parses an address. A missing host means all IPv4 interfaces, as in Go; a missing port means 6443.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| format!("{port:?} is no port; ports are 0 to 65535"))?;
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(address) = text.parse() {
        return Ok(SocketAddr::new(address, DEFAULT_PORT));
    }
    let named = if text.contains(':') { text.to_owned() } else { format!("{text}:{DEFAULT_PORT}") };
    let found = named.to_socket_addrs().map_err(|error| format!("{text:?}: {error}"))?;
    // IPv4 first: the certificate and the kubeconfig are easier to read, and both mean this host.
    let found: Vec<_> = found.collect();
    let preferred = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
    preferred.copied().ok_or_else(|| format!("{text:?} has no address"))
}

/// The port of kube-apiserver.
const DEFAULT_PORT: u16 = 6443;

/// Describes the process that already listens on a port, for the error message. Linux only, and only processes that this
/// user may look at; anything else is an empty text.
pub(super) fn owner(port: u16) -> String {
    owner_of(port).map_or_else(String::new, |(pid, name)| format!(" (in use by {name}, process {pid})"))
}

fn owner_of(port: u16) -> Option<(u32, String)> {
    let inodes = listening(port);
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        let holds = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok()).any(|link| {
            let link = link.to_string_lossy();
            inodes.iter().any(|inode| link == format!("socket:[{inode}]"))
        });
        if holds {
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

    #[test]
    fn addresses_are_read_in_every_usual_form() {
        for (text, expected) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            (":6443", "0.0.0.0:6443"),
            ("localhost:7000", "127.0.0.1:7000"),
            ("localhost", "127.0.0.1:6443"),
            ("10.0.0.1", "10.0.0.1:6443"),
            ("[::1]:1", "[::1]:1"),
        ] {
            assert_eq!(parse(text).map(|address| address.to_string()).as_deref(), Ok(expected), "{text}");
        }
        assert!(parse(":99999").is_err() && parse("no such host:1").is_err());
    }

    #[test]
    fn the_owner_of_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(owner_of(port).map(|(pid, _)| pid), Some(std::process::id()));
        drop(listener);
        assert_eq!(owner(port), "");
    }
}
