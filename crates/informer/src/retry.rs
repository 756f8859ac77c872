//! [`retry_on_conflict`]: optimistic concurrency, as `retry.RetryOnConflict` of client-go.
//!
//! An update carries the resourceVersion that it is based on and is answered with 409 `Conflict` if another writer came
//! first. The closure must therefore read the object from the server again on each try; from an informer's cache it
//! would likely get the same old version. 409 `AlreadyExists` is not a conflict of versions and is returned at once.
//!
//! Server-side apply and patches without a resourceVersion need none of this.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

/// Limits on the tries of an update. Each try reads the object again, so the number of tries is the number of other
/// writers that may win in between.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[doc(alias = "DefaultRetry")]
pub struct ConflictRetry {
    /// The number of tries. Default 5, as in client-go: five conflicts in a row point to another writer that competes for
    /// the same object.
    pub tries: u32,
    /// The pause before each further try. Default 10 ms: the winner has written already.
    pub pause: Duration,
}

impl Default for ConflictRetry {
    fn default() -> Self {
        Self { tries: 5, pause: Duration::from_millis(10) }
    }
}

/// Runs `update` until it is not answered with a conflict, five times at most. It must read the object again each time.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, PostParams};
/// use listwatch::retry::retry_on_conflict;
///
/// # async fn example(maps: Api<ConfigMap>) -> Result<(), kube::Error> {
/// retry_on_conflict(|| async {
///     let mut map = maps.get("settings").await?;
///     map.data.get_or_insert_default().insert("colour".into(), "blue".into());
///     maps.replace("settings", &PostParams::default(), &map).await
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// That of the last try; others than conflicts at once.
#[doc(alias = "RetryOnConflict")]
pub async fn retry_on_conflict<T, F>(update: impl FnMut() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    retry_on_conflict_with(ConflictRetry::default(), update).await
}

/// [`retry_on_conflict`] with other options.
///
/// # Errors
/// As there.
pub async fn retry_on_conflict_with<T, F>(
    retry: ConflictRetry,
    mut update: impl FnMut() -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    for _ in 1..retry.tries {
        match update().await {
            Err(error) if is_conflict(&error) => sleep(retry.pause).await,
            result => return result,
        }
    }
    update().await
}

/// A conflict of versions; an object that exists already has the same code.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    async fn tries(reason: &str, conflicts: u32) -> (u32, bool) {
        let mut tries = 0;
        let result = retry_on_conflict(|| {
            tries += 1;
            let error = Status::failure("no", reason).with_code(409).boxed();
            std::future::ready(if tries <= conflicts { Err(kube::Error::Api(error)) } else { Ok(()) })
        })
        .await;
        (tries, result.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_tried_again_and_nothing_else() {
        assert_eq!(tries("Conflict", 0).await, (1, true));
        assert_eq!(tries("Conflict", 3).await, (4, true));
        assert_eq!(tries("Conflict", 9).await, (5, false));
        assert_eq!(tries("AlreadyExists", 3).await, (1, false));
    }
}
