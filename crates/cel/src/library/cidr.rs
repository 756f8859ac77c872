//! The `cidr` library: networks in CIDR notation.
//!
//! It follows Go's `netip.ParsePrefix`: no zones, no leading zeros in the length, no IPv4-mapped addresses. The address
//! is kept as written, so `cidr('192.168.1.5/24')` is not `masked()` by itself and compares unequal to
//! `192.168.1.0/24`. Containment never holds between address families.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Evaluated, Native, ip, netip, no_overload};
use crate::error::EvalError;
use crate::value::Value;

/// A network: an address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    /// The number of bytes of the prefix.
    ///
    /// The basis of the cost of `containsIP`, as Kubernetes counts it.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.bits).div_ceil(8)
    }

    /// A shift by the whole width is not a shift in Rust, so a prefix of zero bits is handled by `checked_shl`.
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        };
        Self { address, bits: self.bits }
    }

    fn contains(self, address: IpAddr) -> bool {
        let same_family = self.address.is_ipv4() == address.is_ipv4();
        same_family && Self { address, bits: self.bits }.masked().address == self.masked().address
    }
}

/// Returns the functions on network addresses.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "cidr" => |_, args| match args {
            [Value::String(text)] => parse(text).map(Value::Cidr),
            _ => Err(no_overload("cidr", args)),
        },
        "isCIDR" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
            _ => Err(no_overload("isCIDR", args)),
        },
        "containsIP" => |_, args| match args {
            [Value::Cidr(cidr), Value::Ip(ip)] => Ok(Value::Bool(cidr.contains(*ip))),
            [Value::Cidr(cidr), Value::String(text)] => Ok(Value::Bool(cidr.contains(ip::parse(text)?))),
            _ => Err(no_overload("containsIP", args)),
        },
        "containsCIDR" => |_, args| match args {
            [Value::Cidr(cidr), Value::Cidr(other)] => Ok(contains(*cidr, *other)),
            [Value::Cidr(cidr), Value::String(text)] => Ok(contains(*cidr, parse(text)?)),
            _ => Err(no_overload("containsCIDR", args)),
        },
        "prefixLength" => |_, args| of(args, "prefixLength", |cidr| Value::Int(cidr.bits.into())),
        "masked" => |_, args| of(args, "masked", |cidr| Value::Cidr(cidr.masked())),
        _ => return None,
    })
}

/// Applies a function to a network address, or reports the overload that does not exist.
fn of<'a>(args: &[Value<'a>], name: &str, part: fn(Cidr) -> Value<'a>) -> Evaluated<'a> {
    match args {
        [Value::Cidr(cidr)] => Ok(part(*cidr)),
        _ => Err(no_overload(name, args)),
    }
}

/// A range contains another if it is as wide and begins the same.
fn contains<'a>(cidr: Cidr, other: Cidr) -> Value<'a> {
    Value::Bool(cidr.bits <= other.bits && cidr.contains(other.address))
}

/// Parses a prefix as Go's `netip.ParsePrefix` does: no zone, no leading zeros in the length. Host bits are kept,
/// because `ip()` returns the address as written.
fn parse(text: &str) -> Result<Cidr, EvalError> {
    const WHAT: &str = "network address parse error during conversion from string";
    let is_address = |text: &str| ip::parse(text).is_ok();
    // The prefix occurs twice because kube-apiserver wraps the error twice.
    let wrong = || EvalError::new(format!("{WHAT}: {WHAT}: {}", netip::prefix_error(text, is_address)));
    let (address, bits) = text.rsplit_once('/').ok_or_else(wrong)?;
    let address = ip::parse(address).map_err(|_| wrong())?;
    let is_plain = netip::is_length(bits);
    let bits: u8 = bits.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most { Err(wrong()) } else { Ok(Cidr { address, bits }) }
}
