//! The task of a handler: reads its backlog, calls the handler, and contains its panics.
//!
//! An event whose call panicked counts as delivered and is not repeated, since it would most likely panic again; after
//! `HandlerOptions::panic_pause` the next follows. Synchronous handlers get up to 64 calls before the task yields, so
//! that a runtime thread is not held by a long backlog. A handler with `RunOn::Thread` has a thread of its own and not
//! one of the blocking pool, for which the runtime would wait at shutdown.
//!
//! Removal without draining interrupts waiting and pauses at once, and a running async call after its grace.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::backlog::{HandlerWork, Replay};
use super::current;
use super::event::Event;
use super::handler::{AsyncEventHandler, EventHandler, RunOn};
use super::registry::Listener;
use crate::object::Object;

/// The number of calls a synchronous handler gets before other tasks of its thread may run.
const CALLS_AT_ONCE: usize = 64;

/// An [`AsyncEventHandler`] behind a pointer.
pub(crate) trait DynAsyncHandler<K>: Send {
    fn call(&mut self, event: Event<K>) -> BoxFuture<'_, ()>;
}

impl<K: 'static, H: AsyncEventHandler<K>> DynAsyncHandler<K> for H {
    fn call(&mut self, event: Event<K>) -> BoxFuture<'_, ()> {
        Box::pin(self.on_event(event))
    }
}

/// A handler: a function, or one that awaits.
pub(crate) enum Callee<K> {
    Sync(Box<dyn EventHandler<K>>),
    Async(Box<dyn DynAsyncHandler<K>>),
}

/// The progress of a handler.
#[derive(Default)]
struct HandlerProgress {
    count: usize,
    /// The last call panicked.
    panicked: bool,
}

impl<K: 'static> Callee<K> {
    /// Delivers as many of the events as it can without a pause: at least one, unless there is none.
    async fn call(&mut self, listener: &Listener<K>, events: &[Event<K>]) -> HandlerProgress {
        let progress = match self {
            Self::Sync(handler) => tokio::select! {
                biased;
                progress = poll_fn(|cx| poll_sync(handler.as_mut(), listener, events, cx)) => progress,
                () = listener.discarded() => HandlerProgress::default(),
            },
            Self::Async(handler) => {
                let Some(event) = events.first().cloned() else { return HandlerProgress::default() };
                let call = AssertUnwindSafe(async { handler.call(event).await }).catch_unwind();
                HandlerProgress {
                    count: 1,
                    panicked: within_grace(listener, call).await.is_some_and(|call| call.is_err()),
                }
            }
        };
        listener.counters.delivered.fetch_add(progress.count as u64, Ordering::Relaxed);
        listener.backlog.delivered(progress.count);
        progress
    }
}

/// Waits for a call, but once the handler has been removed no longer than its grace.
async fn within_grace<K, T>(listener: &Listener<K>, call: impl Future<Output = T>) -> Option<T> {
    let mut call = std::pin::pin!(call);
    tokio::select! {
        biased;
        done = &mut call => return Some(done),
        () = listener.discarded() => {}
    }
    let done = tokio::time::timeout(listener.options.stop_grace, call).await.ok();
    if done.is_none() {
        tracing::warn!(handler = %listener.name, "event handler did not end in its grace, its call was dropped");
    }
    done
}

/// Calls the handler for as many events as it is ready for. Pending if that is none.
fn poll_sync<K: 'static>(
    handler: &mut dyn EventHandler<K>,
    listener: &Listener<K>,
    events: &[Event<K>],
    cx: &mut Context<'_>,
) -> Poll<HandlerProgress> {
    let mut progress = HandlerProgress::default();
    for event in events.iter().take(CALLS_AT_ONCE) {
        if listener.is_discarded() {
            break;
        }
        let mut call = || handler.poll_ready(cx).map(|()| handler.on_event(event));
        match catch_unwind(AssertUnwindSafe(&mut call)) {
            Ok(Poll::Ready(())) => progress.count += 1,
            Ok(Poll::Pending) if progress.count == 0 => return Poll::Pending,
            Ok(Poll::Pending) => break,
            Err(_) => {
                progress.count += 1;
                progress.panicked = true;
                break;
            }
        }
    }
    Poll::Ready(progress)
}

/// Starts the handler in a task or on a thread of its own, as
/// [`HandlerOptions::run_on`](crate::processor::HandlerOptions::run_on) selects.
pub(crate) fn spawn<K: Send + Sync + 'static>(
    runtime: &Handle,
    listener: Arc<Listener<K>>,
    callee: Callee<K>,
) -> std::io::Result<()> {
    let threaded = listener.options.run_on == RunOn::Thread && matches!(callee, Callee::Sync(_));
    if !threaded {
        runtime.spawn(run(listener, callee));
        return Ok(());
    }
    // Not the runtime's blocking pool: the runtime waits for that one when it shuts down.
    let (runtime, name) = (runtime.clone(), listener.name.clone());
    std::thread::Builder::new().name(name).spawn(move || runtime.block_on(run(listener, callee)))?;
    Ok(())
}

/// Marks the handler as finished, even when its task is dropped with its runtime.
struct Finish<K>(Arc<Listener<K>>);

impl<K> Drop for Finish<K> {
    fn drop(&mut self) {
        self.0.set_finished();
    }
}

/// The task of a handler. However it ends, even by a panic, the registration is finished.
async fn run<K: Send + Sync + 'static>(listener: Arc<Listener<K>>, callee: Callee<K>) {
    let _finish = Finish(Arc::clone(&listener));
    current::scope(&listener, read(&listener, callee)).await;
}

/// Works off the backlog until it is closed.
async fn read<K: Send + Sync + 'static>(listener: &Listener<K>, mut callee: Callee<K>) {
    while let Some(work) = poll_fn(|cx| listener.backlog.poll_next(cx)).await {
        let started = Instant::now();
        match work {
            HandlerWork::Replay(replay) => deliver_replay(listener, &mut callee, &replay).await,
            HandlerWork::Events(events) => deliver(listener, &mut callee, &events).await,
            HandlerWork::Synced => {
                listener.set_synced();
                deliver(listener, &mut callee, &[Event::Synced]).await;
            }
        }
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        listener.counters.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The objects of a replay: all, or those of one namespace.
fn replayed<K>(replay: &Replay<K>) -> Box<dyn Iterator<Item = &Object<K>> + Send + '_>
where
    K: Send + Sync,
{
    match &replay.namespace {
        None => Box::new(replay.snapshot.iter()),
        Some(namespace) => Box::new(replay.snapshot.namespace(namespace)),
    }
}

/// Delivers a snapshot to a handler that joined late, in portions, and gives up between two of them if the handler is
/// removed.
async fn deliver_replay<K: Send + Sync + 'static>(
    listener: &Listener<K>,
    callee: &mut Callee<K>,
    replay: &Replay<K>,
) {
    let mut objects = replayed(replay);
    loop {
        let added = |object: &Object<K>| Event::Added { object: object.clone(), is_initial: true };
        let events: Vec<_> = objects.by_ref().take(CALLS_AT_ONCE).map(added).collect();
        if events.is_empty() || listener.is_discarded() {
            return;
        }
        deliver(listener, callee, &events).await;
    }
}

/// Delivers the events, until the handler is removed.
async fn deliver<K: Send + Sync + 'static>(
    listener: &Listener<K>,
    callee: &mut Callee<K>,
    events: &[Event<K>],
) {
    let mut rest = events;
    while !rest.is_empty() && !listener.is_discarded() {
        // Lets other tasks run now and then; costs a decrement.
        tokio::task::coop::consume_budget().await;
        let progress = callee.call(listener, rest).await;
        let last = progress.count.checked_sub(1).and_then(|last| rest.get(last));
        if let Some(event) = last {
            listener.saw(event);
        }
        if progress.panicked {
            listener.counters.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(handler = %listener.name, event = ?last, "event handler panicked");
            let _ = tokio::time::timeout(listener.options.panic_pause, listener.discarded()).await;
        }
        rest = rest.get(progress.count..).unwrap_or_default();
    }
}
