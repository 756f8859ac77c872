//! A fixed number of pieces of work, several at a time: client-go's `ParallelizeUntil`.
//!
//! Not a queue: every piece is known from the start by its number and is run once, whether it succeeds or fails.

use std::future::{Future, pending, poll_fn};
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::task::JoinSet;

use super::attempt::{catching, message};

/// Runs a function for the numbers 0 to n, several at a time.
///
/// ```
/// use listwatch_workqueue::Parallel;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let names = ["web-0", "web-1", "web-2"];
/// let pieces = Parallel::new(2).run(names.len(), move |piece| async move { println!("{}", names[piece]) }).await;
/// assert_eq!(pieces.done, 3);
/// # }
/// ```
#[must_use = "it does nothing until it is run"]
#[derive(Debug, Clone, Copy)]
#[doc(alias = "ParallelizeUntil")]
pub struct Parallel {
    workers: NonZeroUsize,
    chunk: NonZeroUsize,
}

/// The outcome of all pieces. One that panicked does not keep the others from running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pieces {
    /// The number of pieces that were run to the end.
    pub done: usize,
    /// The numbers of those that panicked, in order.
    pub panicked: Vec<usize>,
}

struct PieceWork<F> {
    function: F,
    pieces: usize,
    chunk: usize,
    /// The start of the next chunk.
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl Parallel {
    /// So many tasks at most; fewer if there are fewer chunks.
    pub fn new(workers: usize) -> Self {
        Self { workers: at_least_one(workers), chunk: NonZeroUsize::MIN }
    }

    /// The number of pieces a task takes at a time. Default 1; more if a piece is so small that taking it counts.
    pub fn chunk(mut self, pieces: usize) -> Self {
        self.chunk = at_least_one(pieces);
        self
    }

    /// Runs all pieces, on the current tokio runtime. Dropping the future stops them at their next await.
    pub async fn run<F, Fut>(self, pieces: usize, function: F) -> Pieces
    where
        F: Fn(usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.run_until(pending::<()>(), pieces, function).await
    }

    /// [`Self::run`], but begins no piece any more when `stop` is ready. Those that have begun are waited for.
    pub async fn run_until<F, Fut>(self, stop: impl Future, pieces: usize, function: F) -> Pieces
    where
        F: Fn(usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut stop = pin!(stop);
        if is_ready(stop.as_mut()).await {
            return Pieces::default();
        }
        let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = Arc::new(PieceWork { function, pieces, chunk: self.chunk.get(), next, stopped });
        let mut tasks = JoinSet::new();
        for _ in 0..self.workers.get().min(pieces.div_ceil(work.chunk)) {
            tasks.spawn(Arc::clone(&work).run());
        }
        let mut total = Pieces::default();
        tokio::select! {
            () = collect(&mut tasks, &mut total) => {}
            _ = stop => work.stopped.store(true, Ordering::Relaxed),
        }
        collect(&mut tasks, &mut total).await;
        total.panicked.sort_unstable();
        total
    }
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// Adds up what the tasks have done, until all have ended. May be interrupted between two.
async fn collect(tasks: &mut JoinSet<Pieces>, total: &mut Pieces) {
    while let Some(ended) = tasks.join_next().await {
        let part = ended.unwrap_or_default();
        total.done += part.done;
        total.panicked.extend(part.panicked);
    }
}

impl<F, Fut> PieceWork<F>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = ()>,
{
    /// Takes chunks until there are none left.
    async fn run(self: Arc<Self>) -> Pieces {
        let mut part = Pieces::default();
        while let Some(from) = self.next_chunk() {
            for piece in from..self.pieces.min(from.saturating_add(self.chunk)) {
                if self.stopped.load(Ordering::Relaxed) {
                    return part;
                }
                self.run_piece(piece, &mut part).await;
            }
        }
        part
    }

    fn next_chunk(&self) -> Option<usize> {
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            (next < self.pieces).then(|| next.saturating_add(self.chunk))
        });
        taken.ok()
    }

    /// Runs a piece. A panic is its result and ends no other piece.
    async fn run_piece(&self, piece: usize, part: &mut Pieces) {
        match catching(|| (self.function)(piece)).await {
            Ok(()) => part.done += 1,
            Err(panic) => {
                tracing::error!(piece, panic = message(&*panic), "a piece of parallel work panicked");
                part.panicked.push(piece);
            }
        }
        // A function that never awaits anything must not keep the other tasks of its thread from running.
        tokio::task::coop::consume_budget().await;
    }
}
