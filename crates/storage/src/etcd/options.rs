//! How to reach etcd, and the bounds of the engine on it.

use std::fmt;
use std::time::Duration;

/// How to reach etcd, and the bounds of an [`EtcdEngine`](super::EtcdEngine).
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members, for example `http://10.0.0.1:2379`. All belong to one cluster; any that answers will do.
    pub endpoints: Vec<String>,
    /// What every key starts with in etcd. All servers on one cluster that show the same objects use the same.
    pub prefix: String,
    /// For endpoints with `https`.
    pub tls: Option<EtcdTls>,
    /// For clusters with authentication.
    pub user: Option<EtcdUser>,
    /// How long one operation may take in all, with whatever is tried again.
    pub deadline: Duration,
    /// How long one attempt of a read may take, so that there is time for another member.
    pub attempt: Duration,
    /// How long to wait for a connection to a member.
    pub connect: Duration,
    /// How long the log waits to reach a revision by itself before it asks etcd to move it on.
    pub progress: Duration,
    /// How many bytes of the newest changes stay in memory. Whoever is further behind reads from etcd.
    pub tail_bytes: usize,
    /// How many changes stay in memory, if that is less.
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

/// Certificates for etcd, all in PEM.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// Who signed etcd's certificates.
    pub ca: Option<Vec<u8>>,
    /// Our certificate and key, if etcd asks for them.
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
