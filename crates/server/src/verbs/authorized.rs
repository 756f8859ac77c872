//! [`authorized`]: the authorization of a request, or of a watch in a stream.

use std::sync::Arc;

use listwatch_wire::Status;

use crate::api::Api;
use crate::auth::{RULES_AT_ONCE, User};
use crate::request::info::RequestInfo;

/// Authorizes a request: at once, or beside the workers in a namespace with very many rules.
///
/// # Errors
///
/// 403.
pub(crate) async fn authorized(
    api: &Arc<Api>,
    request: &Arc<RequestInfo>,
    user: &Arc<User>,
) -> Result<(), Status> {
    let size = request.with_attributes(|attributes| api.authorizer.size_in(attributes.namespace));
    if size <= RULES_AT_ONCE {
        return request.with_attributes(|attributes| api.authorizer.require(user, attributes));
    }
    let pool = api.blocking_for(&user.name);
    let (api, request, user) = (Arc::clone(api), Arc::clone(request), Arc::clone(user));
    let decided =
        async move { request.with_attributes(|attributes| api.authorizer.require(&user, attributes)) };
    pool.run(decided).await
}
