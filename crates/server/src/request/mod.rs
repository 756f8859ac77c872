//! A request as Kubernetes sees it: [`info`] (verb, resource, name), read once; the negotiated form of the response
//! ([`negotiate`]), the [`deadline`], the [`history`] of an object, [`stream`]s of many watches and the [`selectors`]
//! of lists and watches.
//!
//! Values only: nothing here answers a request. The handler chain (`chain/`) makes these values, the verbs (`verbs/`) use them.

pub(crate) mod accept;
pub(crate) mod deadline;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod negotiate;
pub(crate) mod selectors;
pub(crate) mod stream;

use std::sync::Arc;

use crate::auth::User;
use crate::fairness::Flow;
use crate::registry::Resource;
use crate::request::info::{RequestInfo, ResourceInfo};

/// The user of a request, and the flow in which it waits for seats.
pub(crate) type UserFlow = (Arc<User>, Flow);

/// An authorized request for a resource that is served. It is made after authentication and authorization: by the handler chain,
/// and by `verbs/stream` for each watch of a stream.
#[derive(Debug)]
pub(crate) struct ResourceRequest {
    /// The resource, looked up once: it stays the same if the definition changes during the request.
    pub(crate) resource: Arc<Resource>,
    pub(crate) info: Arc<ResourceInfo>,
    /// The rest of what was read of it: headers, query, audit event.
    pub(crate) request: Arc<RequestInfo>,
    /// The user after impersonation.
    pub(crate) user: Arc<User>,
    /// The flow of API priority and fairness in which it waits for seats.
    pub(crate) flow: Flow,
}

impl ResourceRequest {
    /// The namespace to look in; `None` for all, and for cluster-scoped resources.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.info.namespace.as_deref().filter(|_| self.resource.namespaced)
    }
}
