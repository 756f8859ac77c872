//! Starting a [`Controller`]: in tasks of the runtime, or until it is stopped.
//!
//! Here the builder becomes a queue, a worker and a monitor. What they do then is in [`run`].

use std::future::Future;
use std::sync::Arc;

use listwatch_workqueue::{Options, Outcome, Queue};

use super::run::{self, ControllerError, OnError, Reconcile};
use super::running::RunningController;
use super::status::ControllerMonitor;
use super::{BoxError, Controller, Setup};

impl<K: Send + Sync + 'static, J: Send + Sync + 'static> Controller<K, J> {
    /// Starts it in tasks of the current runtime, and returns a handle to watch and stop it: for tests, and for programs
    /// with several controllers.
    ///
    /// # Errors
    /// [`ControllerError::Informer`] if an informer cannot be started.
    pub fn start<F, E>(
        self,
        reconcile: impl Fn(Reconcile<K>) -> F + Send + Sync + 'static,
    ) -> Result<RunningController, ControllerError>
    where
        F: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        self.start_with(reconcile, |_: &E, _| OnError::Backoff)
    }

    /// [`start`](Self::start), and `on_error` decides what follows an error, by the error and the number of errors before.
    ///
    /// # Errors
    /// As there.
    pub fn start_with<F, E>(
        self,
        reconcile: impl Fn(Reconcile<K>) -> F + Send + Sync + 'static,
        on_error: impl Fn(&E, u32) -> OnError + Send + Sync + 'static,
    ) -> Result<RunningController, ControllerError>
    where
        F: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let Self { setup, informer, mut watched, last, finalize, deleted, .. } = self;
        watched.push(Box::new(last));
        let queue = Queue::new(setup.queue.name(setup.name.clone()));
        let setup = Setup { queue: Options::new(), ..setup };
        let monitor = ControllerMonitor::new(setup.name.clone(), queue);
        let worker =
            run::Worker { informer, finalize, deleted, reconcile, on_error, monitor: monitor.clone() };
        run::start(setup, watched, Arc::new(worker), monitor)
    }

    /// Runs until it is stopped, and then until the reconciles in progress have ended.
    ///
    /// # Errors
    /// See [`ControllerError`].
    pub async fn run<F, E>(
        self,
        reconcile: impl Fn(Reconcile<K>) -> F + Send + Sync + 'static,
    ) -> Result<(), ControllerError>
    where
        F: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        self.start(reconcile)?.ended().await
    }

    /// [`run`](Self::run), and `on_error` decides what follows an error, by the error and the number of errors before.
    ///
    /// # Errors
    /// See [`ControllerError`].
    pub async fn run_with<F, E>(
        self,
        reconcile: impl Fn(Reconcile<K>) -> F + Send + Sync + 'static,
        on_error: impl Fn(&E, u32) -> OnError + Send + Sync + 'static,
    ) -> Result<(), ControllerError>
    where
        F: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        self.start_with(reconcile, on_error)?.ended().await
    }
}
