//! The targets of proxies: `scheme:name:port` in the path, and the addresses to which a proxy may connect.
//!
//! A proxy must not connect to loopback or link-local addresses: a user who can write the status of a Pod could otherwise reach
//! services of this machine. Names are resolved once, and the connection goes to the address that was checked.

use std::net::IpAddr;

use listwatch_wire::Status;

/// The name in a proxy's path, with scheme and port.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProxyName<'a> {
    pub(super) https: bool,
    pub(super) name: &'a str,
    /// A number or a name; empty if it is left out.
    pub(super) port: &'a str,
}

impl<'a> ProxyName<'a> {
    /// Reads `name`, `name:port` or `scheme:name:port`.
    ///
    /// # Errors
    /// 400 for anything else. `kind` is the word for it in the message.
    #[doc(alias = "SplitSchemeNamePort")]
    pub(super) fn read(text: &'a str, kind: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("?", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(Status::bad_request(format!("invalid {kind} request {text:?}")));
        }
        Ok(Self { https: scheme == "https", name, port })
    }
}

/// Returns true for an address that is neither loopback nor of a link nor otherwise special.
#[doc(alias = "IsGlobalUnicast")]
pub(super) fn is_global_unicast(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_loopback()
                || v4.is_multicast()
                || v4.is_link_local())
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.is_unicast_link_local())
        }
    }
}

/// Resolves a host name, and checks that it leads nowhere special.
///
/// # Errors
/// 400 if it is unknown or special.
#[doc(alias = "isProxyableHostname")]
pub(super) async fn proxyable(host: &str, special: bool) -> Result<IpAddr, Status> {
    let resolved = tokio::net::lookup_host((host, 0)).await;
    let resolved: Vec<IpAddr> = resolved
        .map_err(|_| Status::bad_request(format!("lookup {host}: no such host")))?
        .map(|address| address.ip())
        .collect();
    let Some(first) = resolved.first() else {
        return Err(Status::bad_request("no addresses for hostname"));
    };
    match special || resolved.iter().all(|address| is_global_unicast(*address)) {
        true => Ok(*first),
        false => Err(not_allowed()),
    }
}

/// The 400 for an address that is not proxied to.
pub(super) fn not_allowed() -> Status {
    Status::bad_request("address not allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_names_may_have_a_scheme_and_a_port() {
        for (text, expected) in [
            ("a", Some((false, "a", ""))),
            ("a:80", Some((false, "a", "80"))),
            ("https:a:web", Some((true, "a", "web"))),
            (":a:", Some((false, "a", ""))),
            ("http:a:80", Some((false, "a", "80"))),
            ("ftp:a:80", None),
            (":", None),
            ("a:b:c:d", None),
        ] {
            let read = ProxyName::read(text, "pod").ok().map(|name| (name.https, name.name, name.port));
            assert_eq!(read, expected, "{text}");
        }
        assert_eq!(ProxyName::read("ftp:a:1", "pod").unwrap_err().message, "invalid pod request \"ftp:a:1\"");
    }

    #[test]
    fn special_addresses_are_not_proxied_to() {
        for (address, allowed) in [
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("169.254.169.254", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_global_unicast(address.parse().unwrap()), allowed, "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_may_not_hide_a_special_address() {
        assert_eq!(proxyable("127.0.0.1", false).await.unwrap_err().message, "address not allowed");
        assert!(proxyable("127.0.0.1", true).await.is_ok());
        assert!(proxyable("10.1.2.3", false).await.is_ok());
    }
}
