//! The field manager of a request: its `fieldManager`, or the first part of its User-Agent.

use listwatch_merge::apply::manager_from_user_agent;
use listwatch_wire::options::WriteOptions;

use crate::pipeline::{WriteRequest, now};
pub(crate) use crate::registry::managed::Tracking;

/// The field manager recorded for requests without a `fieldManager` and a User-Agent.
const UNKNOWN: &str = "unknown";

fn manager(request: &WriteRequest, options: &WriteOptions) -> String {
    if !options.field_manager.is_empty() {
        return options.field_manager.clone();
    }
    let agent = manager_from_user_agent(&request.user_agent);
    if agent.is_empty() { UNKNOWN.to_owned() } else { agent }
}

impl<'a> Tracking<'a> {
    pub(crate) fn new(request: &'a WriteRequest, options: &WriteOptions) -> Self {
        Self {
            manager: manager(request, options),
            api_version: request.resource.api_version(),
            subresource: request.subresource.as_deref().unwrap_or_default(),
            time: now(),
        }
    }
}
