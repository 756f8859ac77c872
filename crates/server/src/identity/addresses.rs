//! The names and addresses that a serving certificate must cover, and the address that clients connect to.
//!
//! A certificate lists loopback, the names and cluster IP of the `kubernetes` Service, the address listened on (or
//! all of the machine's, when listening on all), the advertised address and what the options add. Addresses are read
//! from `/proc` instead of by a library; on other systems they must be given. The certificate is made by
//! [`super::authority`].

use std::net::{IpAddr, SocketAddr};

/// Returns the names and addresses under which clients may reach a server that listens here: those in `said`, the names and the
/// address of the `kubernetes` Service, and its own addresses.
pub(crate) fn names(
    listening: SocketAddr,
    advertised: Option<IpAddr>,
    service: IpAddr,
    said: &[String],
) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let domains = ["", ".default", ".default.svc", ".default.svc.cluster.local"];
    names.extend(domains.map(|rest| format!("kubernetes{rest}")));
    names.push(service.to_string());
    let ip = listening.ip();
    if ip.is_unspecified() {
        names.extend(own_addresses().into_iter().map(|ip| ip.to_string()));
        names.extend(host_name());
    } else {
        names.push(ip.to_string());
    }
    names.extend(advertised.map(|ip| ip.to_string()));
    names.extend(said.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// The address at which clients reach a server that listens here: `advertised`, or loopback if it listens on all addresses.
pub(crate) fn reachable(listening: SocketAddr, advertised: Option<IpAddr>) -> SocketAddr {
    let mut address = listening;
    if let Some(ip) = advertised {
        address.set_ip(ip);
    } else if listening.ip().is_unspecified() {
        address.set_ip(if listening.is_ipv4() { [127, 0, 0, 1].into() } else { IpAddr::V6(1.into()) });
    }
    address
}

/// The addresses of this machine, as Linux lists them. Elsewhere there are none, and they can be said.
fn own_addresses() -> Vec<IpAddr> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    ipv4(&read("/proc/net/fib_trie")).chain(ipv6(&read("/proc/net/if_inet6"))).collect()
}

/// Local addresses are those followed by a line that marks them as local.
fn ipv4(table: &str) -> impl Iterator<Item = IpAddr> {
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    let local = |pair: &[&str]| match pair {
        [address, kind] if *kind == "/32 host LOCAL" => address.strip_prefix("|-- ")?.parse().ok(),
        _ => None,
    };
    lines.windows(2).filter_map(local).collect::<Vec<IpAddr>>().into_iter()
}

/// 32 hexadecimal digits at the beginning of each line. Link-local addresses are left out: no client connects by them.
fn ipv6(table: &str) -> impl Iterator<Item = IpAddr> + '_ {
    let number = |line: &str| u128::from_str_radix(line.split(' ').next()?, 16).ok();
    let addresses = table.lines().filter_map(number).map(std::net::Ipv6Addr::from);
    addresses.filter(|ip| !ip.is_unicast_link_local()).map(IpAddr::from)
}

/// The host name, if it is valid in a certificate.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().to_ascii_lowercase();
    listwatch_wire::names::subdomain_errors(&name).is_empty().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_linux_lists_them() {
        let table = "  |-- 10.0.0.0\n     /24 link UNICAST\n  |-- 10.0.0.5\n     /32 host LOCAL\n";
        assert_eq!(ipv4(table).collect::<Vec<_>>(), ["10.0.0.5".parse::<IpAddr>().unwrap()]);
        let table = "fe800000000000000000000000000001 02 40 20 80 eth0\n20010db8000000000000000000000001 02 40 00 80 eth0\n";
        assert_eq!(ipv6(table).collect::<Vec<_>>(), ["2001:db8::1".parse::<IpAddr>().unwrap()]);
    }

    /// A server on 0.0.0.0 wrote a kubeconfig for 0.0.0.0, with a certificate for loopback only.
    #[test]
    fn a_server_on_all_addresses_is_reached_by_one() {
        let all = "0.0.0.0:6443".parse().unwrap();
        assert_eq!(reachable(all, None).to_string(), "127.0.0.1:6443");
        assert_eq!(reachable(all, Some([10, 0, 0, 1].into())).to_string(), "10.0.0.1:6443");
        let names =
            names(all, Some([10, 0, 0, 1].into()), [10, 96, 0, 1].into(), &["api.example.com".to_owned()]);
        for name in ["10.0.0.1", "10.96.0.1", "api.example.com", "127.0.0.1", "kubernetes.default.svc"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
