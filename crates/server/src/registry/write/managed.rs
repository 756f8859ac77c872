//! Who wrote which field: the server's side of `metadata.managedFields`.

use listwatch_kinds::schema::Node;
use listwatch_wire::Status;
use listwatch_wire::options::WriteOptions;
use listwatch_wire::patch::strategic_merge_patch;
use serde_json::Value;

use super::{WriteRequest, now};

/// The longest manager name, as in the reference.
const MANAGER_MAX: usize = 128;

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

impl<'a> Tracking<'a> {
    pub(super) fn new(request: &'a WriteRequest, options: &WriteOptions) -> Self {
        Self {
            manager: manager(&options.field_manager, &request.user_agent),
            api_version: request.resource.api_version(),
            subresource: request.subresource.as_deref().unwrap_or_default(),
            time: now(),
        }
    }
}

/// The manager named in the request, or the program that sent it.
fn manager(given: &str, user_agent: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut name: String = name.chars().filter(|c| listwatch_wire::go::is_print(*c)).collect();
    while name.len() > MANAGER_MAX {
        name.pop();
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// What an apply led to.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The merged object; `None` if nothing changed.
    pub(crate) object: Option<Value>,
}

/// Merges a strategic merge patch.
pub(super) fn strategic(node: Node, object: &mut Value, patch: &Value) -> Result<(), Status> {
    Ok(strategic_merge_patch(object, patch.clone(), node)?)
}

pub(super) fn track(
    _node: Node,
    _tracking: &Tracking<'_>,
    _reset: &[&[&str]],
    _live: Option<&Value>,
    _new: &mut Value,
) -> Result<(), Status> {
    Ok(())
}

pub(super) fn apply(
    _node: Node,
    _tracking: &Tracking<'_>,
    _reset: &[&[&str]],
    _live: &Value,
    _applied: &Value,
    _force: bool,
) -> Result<Applied, Status> {
    Err(Status::internal("server-side apply is not available"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_named_after_its_program() {
        for (given, agent, expected) in [
            ("me", "kubectl/v1", "me"),
            ("", "my-tool/v1.2 (linux)", "my-tool"),
            ("", "other-tool", "other-tool"),
            ("", "", "unknown"),
        ] {
            assert_eq!(manager(given, agent), expected);
        }
    }
}
