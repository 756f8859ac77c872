//! The field manager of a request: its `fieldManager` parameter, or the part of the User-Agent before the slash, as
//! in kube-apiserver.
//!
//! Server-side apply compares owners by this name, so it must be the same for every request of one client. Recording
//! ownership in `managedFields` is the strategy's ([`crate::registry`]) and the merge itself `listwatch_merge`; this
//! is only the name, version, subresource and time that are recorded.

use listwatch_merge::apply::manager_from_user_agent;
use listwatch_wire::options::WriteOptions;

use crate::pipeline::{WriteRequest, now};
pub(crate) use crate::registry::managed::Tracking;

/// The field manager recorded for requests without a `fieldManager` and a User-Agent.
const UNKNOWN: &str = "unknown";

/// The field manager of a request: as given, else the User-Agent up to its first slash.
fn manager(request: &WriteRequest, options: &WriteOptions) -> String {
    if !options.field_manager.is_empty() {
        return options.field_manager.clone();
    }
    let agent = manager_from_user_agent(&request.user_agent);
    if agent.is_empty() { UNKNOWN.to_owned() } else { agent }
}

impl<'a> Tracking<'a> {
    /// The field manager, version, subresource and time that `managedFields` records for this request.
    pub(crate) fn new(request: &'a WriteRequest, options: &WriteOptions) -> Self {
        Self {
            manager: manager(request, options),
            api_version: request.resource.api_version(),
            subresource: request.subresource.as_deref().unwrap_or_default(),
            time: now(),
        }
    }
}
