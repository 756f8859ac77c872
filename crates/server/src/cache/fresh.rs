//! Waiting until the cache is as new as a request asks for, and storage errors as clients see them.
//!
//! A list or get without a resourceVersion must see every write that was acknowledged before it. The engine's
//! revision is asked for, and the cache waited for, instead of reading the objects from the store (kube-apiserver's
//! consistent reads from cache).

use std::time::Duration;

use listwatch_wire::{Revision, Status};

use super::Cache;

impl Cache {
    /// Waits until the cache is as new as requested: the latest without a version, any for zero, else at least as new.
    ///
    /// # Errors
    /// 504 if it takes longer than `patience`, 5xx if the store fails.
    #[doc(alias = "waitUntilFresh")]
    #[doc(alias = "ConsistentListFromCache")]
    pub(crate) async fn wait_until_fresh(
        &self,
        version: Option<Revision>,
        patience: Duration,
    ) -> Result<(), Status> {
        let position = self.position();
        match version {
            Some(Revision::ZERO) => Ok(()),
            Some(version) if position.wait_for(version, patience).await => Ok(()),
            Some(version) => Err(Status::too_large_resource_version(version.0, position.get().0, 1)),
            None => match self.sync(patience).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(Status::timeout("the cache does not keep up with the store", 1)),
                Err(error) => Err(storage_status(&error)),
            },
        }
    }
}

/// Returns the Status for a storage error.
pub(crate) fn storage_status(error: &listwatch_storage::Error) -> Status {
    use listwatch_storage::Error;
    match error {
        Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        Error::Future { asked, current } => Status::too_large_resource_version(asked.0, current.0, 1),
        Error::Unavailable(_) | Error::ReadOnly(_) | Error::Closed => {
            Status::service_unavailable(error.to_string()).with_retry_after(1)
        }
        _ => Status::internal(error),
    }
}
