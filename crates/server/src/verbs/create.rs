//! CREATE (POST): dispatches to a subresource, to a kind that is answered rather than stored, or to the write
//! pipeline.
//!
//! Nothing is decided about the object here; all steps of a stored object are in `pipeline/create.rs`. Reviews and
//! bindings never reach the store ([`crate::subresources`]). Before it comes [`mod@super::write`], which has read the
//! body and taken the seats.

use listwatch_wire::Status;

use crate::api::Api;
use crate::pipeline::{self, Answer, WriteRequest};
use crate::subresources;

/// Creates an object, or answers a POST that stores nothing.
///
/// # Errors
/// The Status of the response: 400, 403, 404, 409, 422 or 5xx.
pub(crate) async fn create(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if let Some(name) = request.subresource.as_deref() {
        return Box::pin(subresources::create(api, &request, name)).await;
    }
    if request.resource.builtin.is_some_and(|kind| !kind.flags.stored) {
        return Box::pin(subresources::create_unstored(api, &request)).await;
    }
    pipeline::create::create(api, &request).await
}
