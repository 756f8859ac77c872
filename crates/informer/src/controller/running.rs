//! [`RunningController`]: the handle to a controller that was started, to watch and stop it.
//!
//! The controller itself runs in a task (`run`); this handle owns the task and ends it when it is dropped.

use std::fmt;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::run::ControllerError;
use super::status::ControllerMonitor;

/// A controller at work. Dropping it stops it; reconciles in progress have their grace.
///
/// It is the handle for tests and for programs with several controllers. A program with one awaits
/// [`Controller::run`](super::Controller::run) instead.
#[must_use = "dropping it stops the controller"]
pub struct RunningController {
    pub(super) monitor: ControllerMonitor,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<Result<(), ControllerError>>,
    /// Ends the task with this handle.
    pub(super) _guard: DropGuard,
}

impl fmt::Debug for RunningController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningController").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}

impl RunningController {
    /// Returns the monitor: counters, the work queue and the informers. It stays valid after the controller has ended.
    #[must_use]
    pub fn monitor(&self) -> &ControllerMonitor {
        &self.monitor
    }

    /// Waits until the controller ends by itself: its stop token was cancelled, a signal arrived or leadership was
    /// lost.
    ///
    /// # Errors
    /// See [`ControllerError`].
    pub async fn ended(self) -> Result<(), ControllerError> {
        match self.task.await {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Err(ControllerError::Panicked(crate::panics::message(&*panic))),
                Err(_) => Ok(()),
            },
        }
    }

    /// Stops it: keys that are due and reconciles in progress have the [grace](super::Controller::shutdown_grace).
    ///
    /// # Errors
    /// See [`ControllerError`].
    pub async fn stop(self) -> Result<(), ControllerError> {
        self.stop.cancel();
        self.ended().await
    }
}
