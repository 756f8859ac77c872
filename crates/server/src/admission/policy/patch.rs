//! Applies the results of mutations to an object: apply configurations and JSON patches that CEL expressions return.
//!
//! An apply configuration is merged by the schema's merge keys, with force and without recording ownership: a policy
//! is not a field manager, and the object's `managedFields` stay those of the request. The size of a result is
//! bounded, because expressions can build values larger than any object. Merging itself is the strategy's `merge`;
//! evaluation is [`super::scope`].

use listwatch_cel::{Value, to_json};
use listwatch_kinds::tree::Tree;
use listwatch_merge::patch::{JsonPatch, PatchError};
use listwatch_wire::json::{self, Value as Json};

use crate::registry::Resource;

/// The most values that the result of a mutation may consist of; the largest object has fewer.
const PATCH_NODES: usize = 1_000_000;

/// Merges an apply configuration into an object, by the merge keys of its schema.
///
/// # Errors
///
/// A configuration that is too large, or that cannot be merged by the schema. It is a matter of the failure policy.
pub(super) fn apply(resource: &Resource, object: &Json, configuration: &Value<'_>) -> Result<Json, String> {
    let mut applied =
        to_json(configuration, &mut { PATCH_NODES }).map_err(|error| error.message().to_owned())?;
    for key in ["kind", "apiVersion"] {
        applied.put(key, object.at(key).clone());
    }
    let merged = resource.rules.merge(object, &applied);
    merged.map_err(|status| format!("error applying patch: {}", status.message))
}

/// Applies a list of JSON patch operations. A test that fails leaves the object as it is.
///
/// # Errors
///
/// A list that is no JSON patch, or one that cannot be applied for another reason than a failed `test`.
pub(super) fn json_patch(object: &Json, operations: &Value<'_>) -> Result<Json, String> {
    let operations = to_json(operations, &mut { PATCH_NODES }).map_err(|error| error.message().to_owned())?;
    let patch =
        JsonPatch::parse(&json::encode(&operations)).map_err(|status| format!("JSON Patch: {status}"))?;
    let mut patched = object.clone();
    match patch.apply(&mut patched) {
        Ok(()) => Ok(patched),
        Err(PatchError::TestFailed(_)) => Ok(object.clone()),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}
