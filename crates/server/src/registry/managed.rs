//! [`Tracking`]: the part of a request that `metadata.managedFields` records: manager, version, subresource, time.
//!
//! It is in this module because strategies take it; `pipeline/managed.rs` makes one from a request. The sets of fields,
//! and what server-side apply does with them, are in [`listwatch_merge::apply`].

use listwatch_merge::apply::{FieldManager, FieldSet, KindVersions};
use listwatch_merge::patch::MergeSchema;
use listwatch_wire::json::Value;

/// The part of a request that `metadata.managedFields` records.
///
/// Made once per request, so that all attempts record the same time.
#[derive(Clone, Debug)]
pub(crate) struct Tracking<'a> {
    /// The field manager.
    pub(crate) manager: String,
    /// The API version of the request.
    pub(crate) api_version: String,
    /// The subresource of the request; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The time of the request.
    pub(crate) time: String,
}

impl Tracking<'_> {
    /// The manager of this write, for a kind of that schema.
    pub(crate) fn manager<'s, S: MergeSchema>(
        &'s self,
        schema: S,
        zero: &'s Value,
        ignored: &'s FieldSet,
        versions: &'s KindVersions,
    ) -> FieldManager<'s, S> {
        FieldManager {
            schema,
            zero,
            ignored,
            versions,
            manager: &self.manager,
            api_version: &self.api_version,
            subresource: self.subresource,
            now: &self.time,
        }
    }
}
