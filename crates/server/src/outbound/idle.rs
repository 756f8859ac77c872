//! [`IdleConnections`]: connections to webhooks that are kept open between calls.
//!
//! A target may never be called again: its configuration was deleted, or names another address now. So a connection
//! that was unused for the idle timeout is closed by a timer. Connections are opened in `mod.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::WebhookConnection;

/// Connections that are not in use, by target and trust.
#[derive(Debug)]
pub(super) struct IdleConnections {
    /// Connections kept per target.
    limit: usize,
    timeout: Duration,
    kept: Mutex<KeptConnections>,
}

/// Behind one lock, which is held for a lookup and never while a connection is used.
#[derive(Debug, Default)]
struct KeptConnections {
    /// Each with the time of its last use; the latest is the last.
    by_target: HashMap<String, Vec<(Instant, WebhookConnection)>>,
    /// True while a task closes what is too old.
    is_watched: bool,
}

impl IdleConnections {
    /// `limit` is per target; `timeout` is the time after which an unused connection is closed.
    pub(super) fn new(limit: usize, timeout: Duration) -> Self {
        Self { limit, timeout, kept: Mutex::default() }
    }

    /// The one that was used last, since it is the least likely to be closed. Closed ones are dropped on the way.
    pub(super) fn take(&self, target: &str) -> Option<WebhookConnection> {
        let mut kept = self.kept.lock();
        let connections = kept.by_target.get_mut(target)?;
        while let Some((_, connection)) = connections.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        kept.by_target.remove(target);
        None
    }

    /// Keeps a connection. Beyond the limit it is closed.
    pub(super) fn put(self: &Arc<Self>, target: String, connection: WebhookConnection) {
        let mut kept = self.kept.lock();
        let connections = kept.by_target.entry(target).or_default();
        if connections.len() < self.limit {
            connections.push((Instant::now(), connection));
        }
        if !std::mem::replace(&mut kept.is_watched, true) {
            tokio::spawn(close_unused(Arc::downgrade(self), Instant::now() + self.timeout));
        }
    }

    /// Closes what is too old or was closed by the other end. Returns the time at which the next one is too old, if there is one.
    fn close_older(&self, now: Instant) -> Option<Instant> {
        let mut kept = self.kept.lock();
        kept.by_target.retain(|_, connections| {
            connections.retain(|(since, connection)| *since + self.timeout > now && connection.is_ready());
            !connections.is_empty()
        });
        let oldest = kept.by_target.values().flatten().map(|(since, _)| *since).min();
        kept.is_watched = oldest.is_some();
        oldest.map(|oldest| oldest + self.timeout)
    }
}

/// Closes connections when they have been unused for too long, as long as there are any.
async fn close_unused(connections: Weak<IdleConnections>, mut due: Instant) {
    loop {
        sleep_until(due).await;
        let next = connections.upgrade().and_then(|connections| connections.close_older(Instant::now()));
        let Some(next) = next else { return };
        due = next;
    }
}

#[cfg(test)]
mod tests {
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(90);

    async fn connection() -> (WebhookConnection, DuplexStream) {
        let (here, there) = tokio::io::duplex(1024);
        let (sender, connection) = http1::handshake(TokioIo::new(here)).await.unwrap();
        tokio::spawn(connection);
        (sender, there)
    }

    async fn is_open(end: &mut DuplexStream) -> bool {
        tokio::time::timeout(Duration::from_millis(1), end.read_u8()).await.is_err()
    }

    /// The connections to a webhook whose configuration was deleted stayed open for as long as no other webhook was called.
    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed() {
        let idle = Arc::new(IdleConnections::new(2, TIMEOUT));
        let ((first, mut there), (second, mut other)) = (connection().await, connection().await);
        idle.put("a".to_owned(), first);
        tokio::time::sleep(TIMEOUT / 2).await;
        idle.put("b".to_owned(), second);
        assert!(is_open(&mut there).await && is_open(&mut other).await);
        tokio::time::sleep(TIMEOUT / 2).await;
        assert!(!is_open(&mut there).await && is_open(&mut other).await, "only the first is old");
        let again = idle.take("b").expect("kept");
        tokio::time::sleep(TIMEOUT).await;
        assert!(is_open(&mut other).await, "in use");
        idle.put("b".to_owned(), again);
        tokio::time::sleep(TIMEOUT + Duration::from_secs(1)).await;
        assert!(!is_open(&mut other).await && idle.kept.lock().by_target.is_empty());
    }

    #[tokio::test]
    async fn beyond_the_limit_a_connection_is_closed_and_the_latest_is_used_first() {
        let idle = Arc::new(IdleConnections::new(1, TIMEOUT));
        let ((first, _there), (second, mut other)) = (connection().await, connection().await);
        idle.put("a".to_owned(), first);
        idle.put("a".to_owned(), second);
        assert_eq!(other.read(&mut [0; 1]).await.unwrap(), 0, "one too many");
        assert!(idle.take("a").is_some() && idle.take("a").is_none() && idle.take("b").is_none());
    }
}
