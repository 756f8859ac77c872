//! [`WarningLayer`]: a tower layer that calls a hook for each `Warning` header of a response.
//!
//! API servers use code 299 for deprecated API versions, unknown fields and admission warnings; other codes are of
//! proxies and are passed over. client-go calls the hook a `WarningHandler`. The header is visible on responses only: a
//! watch gets its warnings once, when it is opened. Add it to the client as [`layers`](super) shows.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tower::{Layer, Service};

/// Called for each `Warning` header, such as for a deprecated version.
type WarningHook = dyn Fn(&str) + Send + Sync;

/// Calls a hook with the text of each warning.
#[derive(Clone)]
#[doc(alias = "WarningHandler")]
pub struct WarningLayer {
    hook: Arc<WarningHook>,
}

impl fmt::Debug for WarningLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WarningLayer")
    }
}

impl WarningLayer {
    /// The hook is called as the response arrives, and must not block.
    #[must_use]
    pub fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { hook: Arc::new(hook) }
    }
}

impl<S> Layer<S> for WarningLayer {
    type Service = Warnings<S>;

    fn layer(&self, inner: S) -> Warnings<S> {
        Warnings { inner, hook: Arc::clone(&self.hook) }
    }
}

/// A service whose responses are searched for warnings.
#[derive(Clone)]
pub struct Warnings<S> {
    inner: S,
    hook: Arc<WarningHook>,
}

impl<S> fmt::Debug for Warnings<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Warnings")
    }
}

/// The text of a header like `299 - "policy/v1beta1 is deprecated"`.
fn text(header: &str) -> Option<String> {
    let quoted = header.trim().strip_prefix("299 ")?.split_once('"')?.1;
    let end = quoted.rfind('"')?;
    Some(quoted.get(..end)?.replace("\\\"", "\"").replace("\\\\", "\\"))
}

impl<S, B, R> Service<http::Request<B>> for Warnings<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    R: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let hook = Arc::clone(&self.hook);
        let response: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(self.inner.call(request));
        Box::pin(async move {
            let response = response.await?;
            for header in response.headers().get_all(http::header::WARNING) {
                if let Some(text) = header.to_str().ok().and_then(text) {
                    hook(&text);
                }
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_text_is_what_stands_between_the_quotes() {
        assert_eq!(text(r#"299 - "old \"api\"""#).as_deref(), Some("old \"api\""));
        assert_eq!(text("110 - \"stale\""), None);
        assert_eq!(text("299 -"), None);
    }
}
