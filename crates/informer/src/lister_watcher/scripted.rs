//! [`Scripted`]: a source with prepared answers, which records the requests that it gets.
//!
//! Tests of the reflector state a conversation: the answers in advance, the requests as one line each afterwards. A
//! request without a response waits for ever instead of failing, so that a paused clock runs into the reflector's own
//! timeouts. For a collection with objects and history use [`InMemory`](super::InMemory).

use std::collections::VecDeque;

use futures::{StreamExt, stream};

use super::{ListRequest, ListerWatcher, SourceError, SourcePage, WatchEvent, WatchRequest, WatchStream};
use crate::sync::Mutex;

/// The response to one request.
#[derive(Debug)]
pub enum ScriptedAnswer {
    /// A page, to a list.
    Page(SourcePage),
    /// Events, to a watch, and whether the stream stays open after them.
    Events {
        /// The events, in one batch.
        events: Vec<WatchEvent>,
        /// True if the stream then stays open and silent.
        stay_open: bool,
    },
    /// An error, to either.
    Error(SourceError),
    /// No response at all, to either.
    Silence,
}

#[derive(Debug, Default)]
struct Script {
    lists: VecDeque<ScriptedAnswer>,
    watches: VecDeque<ScriptedAnswer>,
    log: Vec<String>,
}

/// A source for tests: lists and watches are answered from two queues, in order. When a queue is empty, the request
/// is left without a response.
///
/// ```
/// use listwatch::lister_watcher::{ScriptedAnswer, SourcePage, Scripted};
///
/// let source = Scripted::default();
/// source.on_list(ScriptedAnswer::Page(SourcePage::default()));
/// source.on_watch(ScriptedAnswer::Silence);
/// assert!(source.requests().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Scripted {
    script: Mutex<Script>,
    lists_only: bool,
}

impl Scripted {
    /// A source that cannot stream the initial state, so the reflector lists instead.
    #[must_use]
    pub fn lists_only() -> Self {
        Self { lists_only: true, ..Self::default() }
    }

    /// Answers the next unanswered list.
    pub fn on_list(&self, answer: ScriptedAnswer) {
        self.script.lock().lists.push_back(answer);
    }

    /// Answers the next unanswered watch.
    pub fn on_watch(&self, answer: ScriptedAnswer) {
        self.script.lock().watches.push_back(answer);
    }

    /// The requests so far, one line each.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.script.lock().log.clone()
    }
}

/// One line: `list rv=0 limit=500`.
pub(crate) fn describe_list(request: &ListRequest) -> String {
    let mut line = format!("list rv={}", request.version);
    if let Some(limit) = request.limit {
        line += &format!(" limit={limit}");
    }
    if let Some(token) = &request.continue_token {
        line += &format!(" continue={token}");
    }
    line
}

/// One line: `watch rv=7` or `watch-list rv=""`.
pub(crate) fn describe_watch(request: &WatchRequest) -> String {
    let verb = if request.initial_events { "watch-list" } else { "watch" };
    let revision = request.revision.map_or_else(|| "\"\"".to_owned(), |revision| revision.to_string());
    format!("{verb} rv={revision}")
}

#[async_trait::async_trait]
impl ListerWatcher for Scripted {
    async fn list(&self, request: &ListRequest) -> Result<SourcePage, SourceError> {
        let answer = {
            let mut script = self.script.lock();
            script.log.push(describe_list(request));
            script.lists.pop_front()
        };
        match answer {
            Some(ScriptedAnswer::Page(page)) => Ok(page),
            Some(ScriptedAnswer::Error(error)) => Err(error),
            Some(ScriptedAnswer::Events { .. }) => {
                Err(SourceError::Malformed("events scripted for a list".to_owned()))
            }
            Some(ScriptedAnswer::Silence) | None => std::future::pending().await,
        }
    }

    async fn watch(&self, request: &WatchRequest) -> Result<WatchStream, SourceError> {
        let answer = {
            let mut script = self.script.lock();
            script.log.push(describe_watch(request));
            script.watches.pop_front()
        };
        match answer {
            Some(ScriptedAnswer::Events { events, stay_open: false }) => {
                Ok(WatchStream::new(stream::iter([Ok(events)])))
            }
            Some(ScriptedAnswer::Events { events, stay_open: true }) => {
                Ok(WatchStream::new(stream::iter([Ok(events)]).chain(stream::pending())))
            }
            Some(ScriptedAnswer::Error(error)) => Err(error),
            Some(ScriptedAnswer::Page(_)) => {
                Err(SourceError::Malformed("a page scripted for a watch".to_owned()))
            }
            Some(ScriptedAnswer::Silence) | None => std::future::pending().await,
        }
    }

    fn streams_initial_events(&self) -> bool {
        !self.lists_only
    }
}
