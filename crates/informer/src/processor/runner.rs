//! Running a handler: reads its backlog, calls it, survives it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::backlog::{Replay, Work};
use super::event::Event;
use super::handler::{AsyncEventHandler, EventHandler, RunOn};
use super::registry::Listener;
use crate::object::Object;

/// An [`AsyncEventHandler`] behind a pointer.
pub(crate) trait DynAsyncHandler<K>: Send {
    fn call(&mut self, event: Event<K>) -> BoxFuture<'_, ()>;
}

impl<K: 'static, H: AsyncEventHandler<K>> DynAsyncHandler<K> for H {
    fn call(&mut self, event: Event<K>) -> BoxFuture<'_, ()> {
        Box::pin(self.on_event(event))
    }
}

pub(crate) enum Callee<K> {
    Sync(Box<dyn EventHandler<K>>),
    Async(Box<dyn DynAsyncHandler<K>>),
}

impl<K: 'static> Callee<K> {
    /// False if it panicked.
    async fn call(&mut self, event: &Event<K>) -> bool {
        match self {
            Self::Sync(handler) => {
                // Lets other tasks run now and then; costs a decrement.
                tokio::task::coop::consume_budget().await;
                catch_unwind(AssertUnwindSafe(|| handler.on_event(event))).is_ok()
            }
            Self::Async(handler) => {
                AssertUnwindSafe(async { handler.call(event.clone()).await }).catch_unwind().await.is_ok()
            }
        }
    }
}

/// Starts the handler where its options want it.
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

/// Says that the handler is finished, even when its task is dropped with its runtime.
struct Finish<K>(Arc<Listener<K>>);

impl<K> Drop for Finish<K> {
    fn drop(&mut self) {
        self.0.set_finished();
    }
}

async fn run<K: Send + Sync + 'static>(listener: Arc<Listener<K>>, mut callee: Callee<K>) {
    let _finish = Finish(Arc::clone(&listener));
    while let Some(work) = poll_fn(|cx| listener.backlog.poll_next(cx)).await {
        let started = Instant::now();
        match work {
            Work::Replay(replay) => tell_replay(&listener, &mut callee, &replay).await,
            Work::Shared(events) => tell_all(&listener, &mut callee, &events).await,
            Work::Owned(events) => tell_all(&listener, &mut callee, &events).await,
            Work::Synced => {
                listener.set_synced();
                tell(&listener, &mut callee, &Event::Synced).await;
            }
        }
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        listener.counters.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

pub(crate) fn replayed<K>(replay: &Replay<K>) -> Box<dyn Iterator<Item = &Object<K>> + Send + '_>
where
    K: Send + Sync,
{
    match &replay.namespace {
        None => Box::new(replay.snapshot.iter()),
        Some(namespace) => Box::new(replay.snapshot.namespace(namespace)),
    }
}

async fn tell_replay<K: Send + Sync + 'static>(
    listener: &Listener<K>,
    callee: &mut Callee<K>,
    replay: &Replay<K>,
) {
    for object in replayed(replay) {
        let event = Event::Added { object: object.clone(), is_initial: true };
        if !tell(listener, callee, &event).await {
            return;
        }
    }
}

async fn tell_all<K: Send + Sync + 'static>(
    listener: &Listener<K>,
    callee: &mut Callee<K>,
    events: &[Event<K>],
) {
    for event in events {
        if !tell(listener, callee, event).await {
            return;
        }
    }
    if let Some(last) = events.last() {
        listener.saw(last);
    }
}

/// False if the handler was removed meanwhile.
async fn tell<K: Send + Sync + 'static>(
    listener: &Listener<K>,
    callee: &mut Callee<K>,
    event: &Event<K>,
) -> bool {
    if listener.counters.discard.load(Ordering::Acquire) {
        return false;
    }
    let survived = callee.call(event).await;
    listener.counters.delivered.fetch_add(1, Ordering::Relaxed);
    if !survived {
        listener.counters.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(handler = %listener.name, %event, "event handler panicked");
        tokio::time::sleep(listener.options.panic_pause).await;
    }
    true
}
