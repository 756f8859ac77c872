//! [`EtcdOptions`]: addresses, credentials and bounds of the etcd engine.
//!
//! `deadline` bounds what a caller waits, `attempt` what one member may take of it, so that a read can still go to
//! another member. A write is repeated only after a failure that shows that it did not happen. `progress` bounds a
//! consistent read on an idle cluster: etcd sends no event for revisions of other prefixes, so the engine requests a
//! progress notification. Compaction is not configured here: etcd's `--auto-compaction-retention` decides how long
//! history stays.

use std::fmt;
use std::time::Duration;

/// Addresses, credentials and bounds of an [`EtcdEngine`](super::EtcdEngine).
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members, for example `http://10.0.0.1:2379`. All belong to one cluster; any that responds will do.
    pub endpoints: Vec<String>,
    /// The prefix of every key in etcd. All servers on one cluster that serve the same objects use the same.
    ///
    /// Two sets of servers with different prefixes share an etcd and nothing else but its revisions.
    pub prefix: String,
    /// For endpoints with `https`.
    pub tls: Option<EtcdTls>,
    /// For clusters with authentication.
    pub user: Option<EtcdUser>,
    /// The longest time for one operation, retries included.
    pub deadline: Duration,
    /// The longest time for one attempt of a read, so that there is time for another member.
    ///
    /// Also the longest wait for a ping's answer before a connection counts as dead.
    pub attempt: Duration,
    /// The longest time to wait for a connection to a member.
    pub connect: Duration,
    /// The time in which the log should reach a revision by itself, before a progress request is sent to etcd.
    ///
    /// Smaller values make consistent lists of an idle store sooner and, with an etcd before 3.4.31 or 3.5.13, cost a
    /// write each.
    pub progress: Duration,
    /// The bytes of the newest changes that stay in memory. Cursors further behind read from etcd.
    ///
    /// Cursors follow closely in general, so this is for short pauses of the cache rather than for history.
    pub tail_bytes: usize,
    /// The number of changes that stay in memory, if that is less.
    pub tail_changes: usize,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            prefix: "/listwatch".to_owned(),
            tls: None,
            user: None,
            deadline: Duration::from_secs(10),
            attempt: Duration::from_secs(3),
            connect: Duration::from_secs(2),
            progress: Duration::from_millis(20),
            tail_bytes: 16 << 20,
            tail_changes: 65_536,
        }
    }
}

/// Certificates for etcd, all in PEM. Private keys are never shown.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// The CA that signed etcd's certificates.
    pub ca: Option<Vec<u8>>,
    /// Our certificate and key, if etcd requires client certificates.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in etcd's certificates, if it is not that of the endpoints.
    pub server_name: Option<String>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.identity.is_some();
        f.debug_struct("EtcdTls")
            .field("own", &own)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// A name and a password for etcd.
#[derive(Clone)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// The password, which is never shown.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}
