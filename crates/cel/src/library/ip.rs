//! The `ip` library: IP addresses.
//!
//! It follows Kubernetes' rules on top of Go's `netip`: no zones and no IPv4-mapped IPv6 addresses, since both let two
//! texts mean one address and pass a check on the other. `ip.isCanonical` compares with the printed form. Networks are
//! in `cidr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Evaluated, Native, netip, no_overload};
use crate::error::EvalError;
use crate::value::Value;

/// Returns the functions on IP addresses.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "ip" => |_, args| match args {
            [Value::String(text)] => parse(text).map(Value::Ip),
            [Value::Cidr(cidr)] => Ok(Value::Ip(cidr.address)),
            _ => Err(no_overload("ip", args)),
        },
        "isIP" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
            _ => Err(no_overload("isIP", args)),
        },
        "ip.isCanonical" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse(text)?.to_string() == **text)),
            _ => Err(no_overload("ip.isCanonical", args)),
        },
        "family" => |_, args| match args {
            [Value::Ip(ip)] => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
            _ => Err(no_overload("family", args)),
        },
        "isUnspecified" => |_, args| test(args, "isUnspecified", IpAddr::is_unspecified),
        "isLoopback" => |_, args| test(args, "isLoopback", IpAddr::is_loopback),
        "isLinkLocalMulticast" => |_, args| test(args, "isLinkLocalMulticast", is_link_local_multicast),
        "isLinkLocalUnicast" => |_, args| test(args, "isLinkLocalUnicast", is_link_local_unicast),
        "isGlobalUnicast" => |_, args| test(args, "isGlobalUnicast", is_global_unicast),
        _ => return None,
    })
}

/// Reads an address. Zones and IPv4 addresses inside IPv6 ones are refused.
///
/// # Errors
///
/// For anything that Go's `netip` would not take, and for zones and mapped addresses.
pub(super) fn parse(text: &str) -> Result<IpAddr, EvalError> {
    if text.contains('%') {
        return Err(EvalError::new(format!("IP address {text:?} with zone value is not allowed")));
    }
    let wrong = |_| {
        let why = netip::address_error(text);
        EvalError::new(format!("IP Address {text:?} parse error during conversion from string: {why}"))
    };
    let ip: IpAddr = text.parse().map_err(wrong)?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(EvalError::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        _ => Ok(ip),
    }
}

/// Applies a predicate to an address, or reports the overload that does not exist.
fn test<'a>(args: &[Value<'a>], name: &str, test: fn(&IpAddr) -> bool) -> Evaluated<'a> {
    match args {
        [Value::Ip(ip)] => Ok(Value::Bool(test(ip))),
        _ => Err(no_overload(name, args)),
    }
}

/// True for 224.0.0.0/24 and for multicast addresses of IPv6 with link scope (`ff02::`), as Go's
/// `netip.Addr.IsLinkLocalMulticast`.
fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

/// True for 169.254.0.0/16 and `fe80::/10`.
fn is_link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Go's definition: private addresses count, although they are not global on the internet.
fn is_global_unicast(ip: &IpAddr) -> bool {
    let broadcast = *ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    let unspecified = *ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED) || *ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    !(broadcast || unspecified || ip.is_loopback() || ip.is_multicast() || is_link_local_unicast(ip))
}
