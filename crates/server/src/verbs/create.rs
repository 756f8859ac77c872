//! POST: a new object, or what a subresource or an unstored kind makes of one.

use listwatch_wire::Status;

use crate::api::Api;
use crate::pipeline::{self, Answer, WriteRequest};
use crate::subresources;

/// POST.
///
/// # Errors
/// The Status to answer with.
pub(crate) async fn create(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if let Some(name) = request.subresource.as_deref() {
        return subresources::create(api, &request, name).await;
    }
    if request.resource.builtin.is_some_and(|kind| !kind.flags.stored) {
        return subresources::create_unstored(api, &request).await;
    }
    pipeline::create::create(api, &request).await
}
