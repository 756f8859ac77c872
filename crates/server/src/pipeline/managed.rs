//! Who wrote which field: what the server knows about a write that `metadata.managedFields` records.
//!
//! The sets of fields themselves, and what applying does with them, are in [`listwatch_wire::apply`].

use listwatch_wire::apply::{FieldManager, FieldSet, manager_from_user_agent};
use listwatch_wire::json::Value;
use listwatch_wire::options::WriteOptions;
use listwatch_wire::patch::Schema;

use crate::pipeline::{WriteRequest, now};

/// What is recorded about a write.
#[derive(Clone, Debug)]
pub(crate) struct Tracking<'a> {
    /// Who writes.
    pub(crate) manager: String,
    /// In which version.
    pub(crate) api_version: String,
    /// Through which subresource; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// When.
    pub(crate) time: String,
}

/// Who says nothing about itself is unknown.
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

    /// The manager of this write, for a kind of that schema.
    pub(crate) fn manager<'s, S: Schema>(
        &'s self,
        schema: S,
        zero: &'s Value,
        ignored: &'s FieldSet,
    ) -> FieldManager<'s, S> {
        FieldManager {
            schema,
            zero,
            ignored,
            manager: &self.manager,
            api_version: &self.api_version,
            subresource: self.subresource,
            now: &self.time,
        }
    }
}
