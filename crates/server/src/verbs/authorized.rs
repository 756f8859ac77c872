//! [`authorized`]: the authorization of a request, or of a watch in a stream.
//!
//! Used for requests (`chain/service.rs`) and for the watches of a stream, which are authorized one by one (`verbs/stream`). The
//! decision itself is made in `auth/authorization.rs`.

use std::sync::Arc;

use listwatch_wire::Status;

use crate::api::Api;
use crate::auth::{RULES_AT_ONCE, User};
use crate::request::info::RequestInfo;

/// Authorizes a request: at once, or beside the workers in a namespace with very many rules.
///
/// # Errors
///
/// 403, or 500 if an authorizer failed.
pub(crate) async fn authorized(
    api: &Arc<Api>,
    request: &Arc<RequestInfo>,
    user: &Arc<User>,
) -> Result<(), Status> {
    let size = request.with_attributes(|attributes| api.authorizer.size_in(attributes.namespace));
    if size <= RULES_AT_ONCE {
        return required(api, request, user).await;
    }
    let pool = api.blocking_for(&user.name);
    let (api, request, user) = (Arc::clone(api), Arc::clone(request), Arc::clone(user));
    pool.run(async move { required(&api, &request, &user).await }).await
}

async fn required(api: &Api, request: &RequestInfo, user: &User) -> Result<(), Status> {
    let decided = api
        .authorizer
        .decide(|authorizer| request.with_attributes(|attributes| authorizer.require(user, attributes)));
    decided.await
}
