//! What the writer publishes and everyone else reads.

use std::sync::Arc;

use parking_lot::RwLock;

use super::index::Index;
use crate::tail::Tail;
use crate::{Error, Health};

/// What the writer publishes and everyone else reads.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) index: RwLock<Index>,
    pub(super) tail: Arc<Tail>,
    pub(super) health: RwLock<Health>,
}

impl Shared {
    /// Fails once the store is closed.
    pub(super) fn open(&self) -> Result<(), Error> {
        if self.tail.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }
}
