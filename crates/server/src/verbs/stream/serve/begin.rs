//! The beginning of subscriptions: admission, one after the other, then the initial state.
//!
//! A subscription with initial events begins at the revision of that state: events of other subscriptions up to that revision
//! are sent before it, later ones after it.

use std::sync::Arc;

use bytes::BytesMut;
use futures::future::{BoxFuture, pending};
use listwatch_wire::stream::{StreamFrame, SubscriptionStart, enclose, event_prefix};
use listwatch_wire::{Revision, Status};
use tokio::time::Instant;

use super::ServedStream;
use crate::verbs::stream::admit::{AdmittedWatch, watches};
use crate::verbs::stream::subscriptions::JoiningWatch;
use crate::verbs::watch::plan::{BegunWatch, recheck};

/// A subscription that is being admitted.
pub(super) struct Admitting {
    pub(super) id: String,
    pub(super) watches: usize,
    outcome: BoxFuture<'static, Result<Vec<AdmittedWatch>, Status>>,
}

/// One watch of a subscription that may begin.
pub(super) struct StartingWatch {
    pub(super) id: Arc<str>,
    watch: AdmittedWatch,
    /// It is the first, or the last, of its subscription.
    first: bool,
    last: bool,
    /// Set once its turn has come.
    begun: Option<BegunWatch>,
}

impl ServedStream {
    /// One at a time, and in order.
    pub(super) fn admit_next(&mut self) {
        if self.admitting.is_some() {
            return;
        }
        let Some(asked) = self.wanted.pop_front() else { return };
        let (id, watches) = (asked.id.clone(), watches(&asked));
        let outcome = Box::pin(self.admission.clone().admit(asked));
        self.admitting = Some(Admitting { id, watches, outcome });
    }

    /// Watches of one subscription start in the order of its list, and none of them before all are admitted.
    pub(super) fn admitted(&mut self, (id, outcome): (String, Result<Vec<AdmittedWatch>, Status>)) {
        self.admitting = None;
        match outcome {
            Ok(watches) => {
                let (id, last): (Arc<str>, _) = (id.into(), watches.len().saturating_sub(1));
                let starting = watches.into_iter().enumerate().map(|(n, watch)| StartingWatch {
                    id: Arc::clone(&id),
                    watch,
                    first: n == 0,
                    last: n == last,
                    begun: None,
                });
                self.starting.extend(starting);
            }
            Err(status) => self.fail(&id, status),
        }
        self.admit_next();
    }

    /// Continues to start the first of the watches that may start.
    pub(super) async fn start(&mut self) {
        let (api, portion) = (Arc::clone(self.api()), self.portion());
        let Some(starting) = self.starting.front_mut() else { return };
        let begun =
            starting.begun.get_or_insert_with(|| starting.watch.plan.begin(&api, &starting.watch.target));
        let Some(initial) = &mut begun.initial else { return self.join(false) };
        // Events of other subscriptions up to the revision of the initial state are sent before it.
        match self.live.next(portion, initial.revision).await {
            Ok(events) if events.is_empty() => {}
            events => return self.take(events),
        }
        if std::mem::take(&mut starting.first) {
            started(starting, &mut self.out);
        }
        let Some(BegunWatch { writer, initial: Some(initial), .. }) = &mut starting.begun else { return };
        initial.end_bookmark = starting.last;
        match writer.initial(&api, initial).await {
            Ok(lines) => {
                enclose(&event_prefix(&starting.id), &lines, &mut self.out);
                writer.sent(&[lines.freeze()], initial.revision);
                if initial.done {
                    self.join(true);
                }
            }
            Err(status) => {
                let id = Arc::clone(&starting.id);
                self.fail(&id, status);
            }
        }
    }

    /// The first of the watches that may begin joins the others.
    pub(super) fn join(&mut self, complete: bool) {
        let Some(mut starting) = self.starting.pop_front() else { return };
        if std::mem::take(&mut starting.first) {
            started(&starting, &mut self.out);
        }
        let StartingWatch { id, watch, begun: Some(begun), .. } = starting else { return };
        let guard = recheck(self.api(), &watch.target);
        let deadline = watch.plan.timeout.map(|timeout| Instant::now() + timeout);
        let BegunWatch { cursor, writer, position, .. } = begun;
        self.live.join(JoiningWatch { id, cursor, writer, guard, deadline });
        self.told = if complete { self.told.max(position) } else { self.told };
        if !complete {
            // The bookmark marks the end of the initial state.
            self.want_bookmark(Revision::ZERO);
        }
        self.schedule();
    }
}

/// The outcome of the admission that is under way, if one is.
pub(super) async fn admitted(
    admitting: &mut Option<Admitting>,
) -> (String, Result<Vec<AdmittedWatch>, Status>) {
    match admitting {
        Some(Admitting { id, outcome, .. }) => (id.clone(), outcome.as_mut().await),
        None => pending().await,
    }
}

/// The message at the start of a subscription.
fn started(starting: &StartingWatch, out: &mut BytesMut) {
    let Some(begun) = &starting.begun else { return };
    let start = SubscriptionStart {
        resource_version: begun.position.to_string(),
        content_type: starting.watch.plan.form.stream_type().to_owned(),
    };
    StreamFrame::Started { subscription: starting.id.to_string(), start }.write(out);
}
