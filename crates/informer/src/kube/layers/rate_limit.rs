//! A limit on requests per second, shareable between clients: client-go's `flowcontrol.RateLimiter` with `QPS` and
//! `Burst`.
//!
//! Watches are exempt: opening one is rare, and a watch that waits behind a burst of writes leaves a cache stale. The
//! default is not a limit, because API servers have priority and fairness. Use one for programs that write in bursts to a
//! server that others depend on.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::sync::Mutex;

/// A token bucket: so many requests per second, and so many at once after a pause.
///
/// ```
/// use std::time::Duration;
/// use listwatch::kube::layers::RateLimit;
/// use tokio::time::Instant;
///
/// let (limit, now) = (RateLimit::new(10.0, 2), Instant::now());
/// let waits: Vec<Duration> = (0..4).map(|_| limit.reserve(now)).collect();
/// assert_eq!(waits, [0, 0, 100, 200].map(Duration::from_millis));
/// ```
#[derive(Debug)]
pub struct RateLimit {
    interval: Duration,
    burst: u32,
    /// The time at which the bucket is full again if no more tokens are taken: the whole state of a token bucket.
    full_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// `qps` requests per second on average, `burst` at once. client-go's defaults are 5 and 10, which most
    /// controllers raise.
    #[must_use]
    pub fn new(qps: f64, burst: u32) -> Self {
        let interval = Duration::from_secs_f64(1.0 / qps.clamp(1e-6, 1e9));
        Self { interval, burst: burst.max(1), full_at: Mutex::new(None) }
    }

    /// Takes a token, and returns how long to wait before using it.
    pub fn reserve(&self, now: Instant) -> Duration {
        let mut full_at = self.full_at.lock();
        let next = full_at.unwrap_or(now).max(now) + self.interval;
        *full_at = Some(next);
        let debt = next.saturating_duration_since(now);
        debt.saturating_sub(self.interval.saturating_mul(self.burst))
    }
}

/// Puts a [`RateLimit`] around a client's service.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    limit: Arc<RateLimit>,
}

impl RateLimitLayer {
    /// Clones share one bucket: pass them to several clients to bound their sum.
    #[must_use]
    pub fn new(limit: Arc<RateLimit>) -> Self {
        Self { limit }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> RateLimited<S> {
        RateLimited { inner, limit: Arc::clone(&self.limit) }
    }
}

/// A service behind a [`RateLimit`].
#[derive(Clone)]
pub struct RateLimited<S> {
    inner: S,
    limit: Arc<RateLimit>,
}

impl<S> fmt::Debug for RateLimited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// A watch by its query: it is one request, however long it lasts.
fn is_watch<B>(request: &http::Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

impl<S, B> Service<http::Request<B>> for RateLimited<S>
where
    S: Service<http::Request<B>>,
    S::Future: Send + 'static,
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let wait = if is_watch(&request) { Duration::ZERO } else { self.limit.reserve(Instant::now()) };
        // A service may already work when it is called, before its future is polled: only those that do not (all
        // HTTP clients) are delayed to the letter.
        let response = self.inner.call(request);
        Box::pin(async move {
            if !wait.is_zero() {
                tracing::debug!(?wait, "request delayed by the client's rate limit");
                tokio::time::sleep(wait).await;
            }
            response.await
        })
    }
}
