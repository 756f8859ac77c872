//! [`Pager`]: a whole list, page by page, fetching ahead.
//!
//! While one page is being worked on, the next is on its way; no more than [`PagerOptions::prefetch`] pages wait. It is
//! not a cache and does not watch. The reflector lists through it; it also suits programs that read a large collection
//! once.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};

use crate::lister_watcher::{ListRequest, ListerWatcher, SourceError, SourcePage};

/// A list that never ends, by a faulty or hostile server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndlessList {
    /// A page continues with the token that it was requested with.
    #[error("the server repeats a continue token, so that the list would never end")]
    Repeated,
    /// It has more pages than [`PagerOptions::max_pages`].
    #[error("the list has more than {0} pages")]
    TooLong(usize),
}

/// Checks that the pages of a list come to an end. For programs that read pages without a [`Pager`].
///
/// ```
/// use listwatch::pager::{EndlessList, PageCount};
///
/// let mut pages = PageCount::new(1000);
/// assert_eq!(pages.continue_with("", "a"), Ok(()));
/// assert_eq!(pages.continue_with("a", "a"), Err(EndlessList::Repeated));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageCount {
    max: usize,
    pages: usize,
}

impl PageCount {
    /// Counts up to so many pages.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, pages: 0 }
    }

    /// Takes note of a page: the token that it was requested with, and that of the next.
    ///
    /// # Errors
    /// The list does not end.
    pub fn continue_with(&mut self, asked: &str, next: &str) -> Result<(), EndlessList> {
        self.pages += 1;
        match next {
            "" => Ok(()),
            next if next == asked => Err(EndlessList::Repeated),
            _ if self.pages >= self.max => Err(EndlessList::TooLong(self.max)),
            _ => Ok(()),
        }
    }
}

/// The reaction to an expired continue token of a later page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExpired {
    /// Fail, as a cache must: the fetched and the remaining pages would belong to different states.
    #[default]
    Fail,
    /// Continue with the token that the server offers as a replacement: no object that existed all the time is missed,
    /// but the list is not the state of one revision. Fails if the server offers none.
    Continue,
}

/// Options of a [`Pager`]: a bound on memory, and a decision about consistency.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[doc(alias = "ListPager")]
pub struct PagerOptions {
    /// The most pages that may wait to be consumed. Default 2; a page is typically half a megabyte.
    pub prefetch: usize,
    /// The reaction to a list that expires on the way.
    pub on_expired: OnExpired,
    /// The most pages of a list; a longer one is an error. Default 100,000, which is fifty million objects in pages of 500:
    /// a server that always names a next page does not keep the pager busy for ever.
    pub max_pages: usize,
}

impl Default for PagerOptions {
    fn default() -> Self {
        Self { prefetch: 2, on_expired: OnExpired::Fail, max_pages: 100_000 }
    }
}

impl PagerOptions {
    /// Sets [`prefetch`](Self::prefetch).
    #[must_use]
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetch = pages.max(1);
        self
    }

    /// Sets [`max_pages`](Self::max_pages).
    #[must_use]
    pub fn max_pages(mut self, pages: usize) -> Self {
        self.max_pages = pages;
        self
    }

    /// Sets [`on_expired`](Self::on_expired).
    #[must_use]
    pub fn on_expired(mut self, on_expired: OnExpired) -> Self {
        self.on_expired = on_expired;
        self
    }
}

/// A stream of the pages of a list. After an error it ends.
///
/// One request is in flight at a time, because the continue token of a page is in the page before. It is sent while
/// earlier pages are still being worked on, up to [`PagerOptions::prefetch`] of them.
///
/// ```
/// use std::sync::Arc;
///
/// use futures::StreamExt;
/// use listwatch::lister_watcher::{InMemory, ListRequest, ListVersion};
/// use listwatch::pager::{Pager, PagerOptions};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let source = InMemory::new(100);
/// for i in 0..25 {
///     source.put(&json!({"metadata": {"name": format!("node-{i:02}")}}))?;
/// }
/// let first = ListRequest::first(ListVersion::MostRecent, Some(10));
/// let mut pages = Pager::new(Arc::new(source), first, PagerOptions::default());
/// let mut sizes = Vec::new();
/// while let Some(page) = pages.next().await {
///     sizes.push(page?.objects.len());
/// }
/// assert_eq!(sizes, [10, 10, 5]);
/// # Ok(())
/// # }
/// ```
pub struct Pager {
    source: Arc<dyn ListerWatcher>,
    options: PagerOptions,
    count: PageCount,
    /// The request in flight or the next one; none when the last page was fetched.
    next: Option<ListRequest>,
    in_flight: Option<BoxFuture<'static, Result<SourcePage, SourceError>>>,
    waiting: VecDeque<Result<SourcePage, SourceError>>,
}

impl fmt::Debug for Pager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Pager {
    /// Begins with this request; its version and limit hold for all pages. Nothing is fetched before the first poll.
    #[must_use]
    pub fn new(source: Arc<dyn ListerWatcher>, first: ListRequest, options: PagerOptions) -> Self {
        let count = PageCount::new(options.max_pages);
        Self { source, options, count, next: Some(first), in_flight: None, waiting: VecDeque::new() }
    }

    /// Sends the next request, if there is one, none is in flight and there is room for its page.
    fn request(&mut self) {
        let room = self.waiting.len() < self.options.prefetch;
        if let Some(request) = self.next.clone()
            && self.in_flight.is_none()
            && room
        {
            let source = Arc::clone(&self.source);
            self.in_flight = Some(async move { source.list(&request).await }.boxed());
        }
    }

    /// Takes the response: a page names the next request, an expired token may have a replacement, any other error ends
    /// the list.
    fn received(&mut self, result: Result<SourcePage, SourceError>) {
        let Some(asked) = self.next.take() else { return };
        let (next, is_page) = match &result {
            Ok(page) => (page.continue_token.clone(), true),
            Err(error) => (self.replacement(&asked, error), false),
        };
        if is_page || next.is_none() {
            self.waiting.push_back(result);
        }
        if let Some(token) = next {
            self.continued(&asked, token);
        }
    }

    /// Notes the next request, unless the list does not end; that is said after the pages that have come.
    fn continued(&mut self, asked: &ListRequest, token: String) {
        let before = asked.continue_token.as_deref().unwrap_or_default();
        match self.count.continue_with(before, &token) {
            Ok(()) => self.next = Some(after(asked, token)),
            Err(endless) => self.waiting.push_back(Err(SourceError::Malformed(endless.to_string()))),
        }
    }

    /// The token of the error with which to continue an expired list, if the options allow that.
    fn replacement(&self, asked: &ListRequest, error: &SourceError) -> Option<String> {
        let wanted = self.options.on_expired == OnExpired::Continue;
        asked.continue_token.as_ref().filter(|_| wanted && error.is_expired())?;
        let token = &error.status()?.metadata.continue_token;
        (!token.is_empty()).then(|| token.clone())
    }
}

fn after(asked: &ListRequest, token: String) -> ListRequest {
    ListRequest { continue_token: Some(token), ..asked.clone() }
}

impl Stream for Pager {
    type Item = Result<SourcePage, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            self.request();
            let Some(in_flight) = &mut self.in_flight else {
                return Poll::Ready(self.waiting.pop_front());
            };
            match in_flight.poll_unpin(cx) {
                Poll::Ready(result) => {
                    self.in_flight = None;
                    self.received(result);
                }
                Poll::Pending if self.waiting.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(self.waiting.pop_front()),
            }
        }
    }
}
