//! File descriptors: the soft limit is raised to the hard one, and connections are limited below it.
//!
//! A server that runs out of descriptors cannot open its database or log either, so the limit on connections leaves
//! room for them. The check is against the limit and not against current use. Elsewhere than on Linux the wanted number
//! is taken as it is.

/// Descriptors kept for the store, the log and the listener.
/// With a limit below 200, half of it.
const RESERVED: u64 = 100;

/// Raises the soft limit to the hard one; how many of the wanted connections there may be.
///
/// A shell often gives a program 1024 or fewer, which a few hundred watches and silent connections use up.
pub(super) fn connections(wanted: usize) -> usize {
    let Some(allowed) = raised() else { return wanted };
    let room = usize::try_from(allowed.saturating_sub(RESERVED).max(allowed / 2)).unwrap_or(usize::MAX);
    wanted.min(room)
}

/// The limit after raising it, where it is known.
#[cfg(target_os = "linux")]
fn raised() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Some(if raised { hard } else { soft })
}

#[cfg(not(target_os = "linux"))]
fn raised() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        let allowed = raised().unwrap();
        assert!((connections(usize::MAX) as u64) < allowed, "{allowed}");
        assert_eq!(connections(10), 10);
        assert_eq!(raised(), Some(allowed), "raised once");
    }
}
