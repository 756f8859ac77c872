//! [`NodeConnections`]: the bound on open connections to kubelets, Pods and Services, and their TLS configuration.
//!
//! A followed log, a tunnel or a proxied request holds an [`OpenConnection`] until it ends. These requests are idle most of the
//! time and take no seats of API priority and fairness; the bounds here, in total and per user ([`UserShares`]), take their
//! place. A request beyond them is rejected at once instead of waiting. Some places are for users with few connections
//! only: a user of one namespace can create many ServiceAccounts, and a tunnel stays for as long as its client wants.
//!
//! The connections are opened in `forward/`.

use std::sync::Arc;

use listwatch_wire::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::UserShares;
use crate::options::NodeOptions;
use crate::outbound::KubeletTls;

/// The connections of a user that may be among the reserved ones.
const FEW: usize = 8;
/// The reserved connections are this part of all, besides them.
const RESERVED_PART: usize = 4;

/// Connections to kubelets, Pods and Services: how many may be open, and their TLS.
#[derive(Debug)]
pub(crate) struct NodeConnections {
    pub(crate) tls: KubeletTls,
    enabled: bool,
    limit: usize,
    user_limit: usize,
    all: Arc<Semaphore>,
    /// Places for users with no more than [`FEW`] connections when the others are taken.
    reserved: Arc<Semaphore>,
    shares: UserShares<Arc<Semaphore>>,
}

/// The place of one open connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    _place: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
}

impl NodeConnections {
    /// The connections that the options allow.
    pub(crate) fn new(options: &NodeOptions, tls: KubeletTls) -> Self {
        let limit = options.connections.min(Semaphore::MAX_PERMITS);
        let share = options.user_connections.min(Semaphore::MAX_PERMITS);
        Self {
            tls,
            enabled: options.enabled,
            limit: limit + limit / RESERVED_PART,
            user_limit: share,
            all: Arc::new(Semaphore::new(limit)),
            reserved: Arc::new(Semaphore::new(limit / RESERVED_PART)),
            shares: UserShares::new(|| Arc::new(Semaphore::new(share))),
        }
    }

    /// Takes a place for a connection of a user.
    ///
    /// # Errors
    /// 500 if the server makes no such connections, 429 if there are too many.
    pub(crate) fn open(&self, user: &str) -> Result<OpenConnection, Status> {
        if !self.enabled {
            return Err(Status::unknown_reason(
                "this API server does not connect to nodes and Pods (--no-node-connections), so logs, exec, attach, port-forward and proxy are not available",
            ));
        }
        let too_many = || {
            Status::too_many_requests(
                "too many open connections to nodes and Pods, please try again later",
                1,
            )
        };
        let of_user = self.shares.of(user).ok_or_else(too_many)?;
        let share = Arc::clone(of_user).try_acquire_owned().map_err(|_| too_many())?;
        let has_few = self.user_limit.saturating_sub(of_user.available_permits()) <= FEW;
        let reserved = || Arc::clone(&self.reserved).try_acquire_owned().ok().filter(|_| has_few);
        let place = Arc::clone(&self.all).try_acquire_owned().ok().or_else(reserved).ok_or_else(too_many)?;
        Ok(OpenConnection { _place: place, _share: share })
    }

    /// The number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.limit.saturating_sub(self.all.available_permits() + self.reserved.available_permits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(options: &NodeOptions) -> NodeConnections {
        let key = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
        let tls = KubeletTls::new((&key.cert.pem(), &key.signing_key.serialize_pem()), None).unwrap();
        NodeConnections::new(options, tls)
    }

    #[test]
    fn one_user_cannot_take_the_connections_of_the_others() {
        let few = connections(&NodeOptions { connections: 3, user_connections: 2, ..NodeOptions::default() });
        let mut held = vec![few.open("a").unwrap(), few.open("a").unwrap()];
        assert_eq!(few.open("a").unwrap_err().code, 429);
        let other = (0..100).find_map(|n| few.open(&format!("user {n}")).ok()).expect("others find room");
        assert_eq!((few.count(), few.open("b").unwrap_err().code), (3, 429), "all are taken");
        held.clear();
        assert!(few.open("a").is_ok(), "given back");
        drop(other);
        assert_eq!(few.count(), 0);
    }

    /// Four ServiceAccounts with 1,000 tunnels each left no logs to anybody.
    #[test]
    fn users_with_few_connections_find_room() {
        let options = NodeOptions { connections: 400, user_connections: 100, ..NodeOptions::default() };
        let all = connections(&options);
        let held: Vec<_> = (0..40_000).filter_map(|n| all.open(&format!("sa{}", n % 8)).ok()).collect();
        assert!((400..=464).contains(&held.len()), "{}", held.len());
        let others = (0..20).filter(|n| all.open(&format!("user {n}")).is_ok()).count();
        assert!(others >= 15, "{others} of 20 find room; a few may share with one of the many");
        drop(held);
        assert_eq!(all.count(), 0);
    }

    #[test]
    fn a_server_with_disabled_node_connections_returns_an_error() {
        let none = connections(&NodeOptions { enabled: false, ..NodeOptions::default() });
        assert!(none.open("a").unwrap_err().message.contains("--no-node-connections"));
    }
}
