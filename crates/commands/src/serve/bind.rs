//! The address to listen on, in the forms people type: `127.0.0.1:6443`, `localhost:6443`, `[::1]:6443`, `:6443`.
//!
//! A name is resolved once, at the start, and IPv4 is preferred, because certificate and kubeconfig then show the usual
//! address. A missing host means all IPv4 interfaces, as Go programs read `:6443`; a missing port is kube-apiserver's.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Parses an address. A missing host means all IPv4 interfaces, as in Go; a missing port means 6443.
///
/// # Errors
///
/// A port that is none, or a name that cannot be resolved.
pub(super) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| format!("{port:?} is no port; ports are 0 to 65535"))?;
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    // The resolver takes a number for an IPv4 address: 6443 would be 0.0.25.43.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("expected HOST:PORT, or :{text} for all interfaces"));
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
        assert!(parse("6443").is_err_and(|hint| hint.contains(":6443")) && parse("").is_err());
    }
}
