//! [`ApplyError`] and [`Conflict`]: refusals of an applied configuration.
//!
//! Texts and codes are kube-apiserver's: kubectl prints the message of a conflict with advice about
//! `--force-conflicts`, and the causes (`FieldManagerConflict`) name manager and field for programs. A configuration
//! that does not fit the schema is a 500 there, and therefore here.

use super::field_set::FieldSet;
use super::record::{ManagerEntry, ManagerOperation};
use listwatch_json::go;
use listwatch_wire::status::{Status, StatusCause, StatusDetails, StatusReason};

/// The most bytes of field paths that the response to a conflict lists, in its message and again in its causes.
/// kube-apiserver lists all; but paths repeat what is above them, so that an object of 1 MB could lead to a response of
/// any size. The bound is far above what people read.
const MAX_LISTED_BYTES: usize = 64 << 10;

/// Fields that another manager owns and that the configuration sets differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as error texts show it.
    pub manager: String,
    /// The fields.
    pub fields: FieldSet,
}

impl Conflict {
    /// A conflict with the owner of some fields, named as kube-apiserver's error names it.
    pub(super) fn new(entry: &ManagerEntry, fields: FieldSet) -> Self {
        let mut manager = go::quote(&entry.manager);
        if !entry.subresource.is_empty() {
            manager.push_str(&format!(" with subresource {}", go::quote(&entry.subresource)));
        }
        if entry.operation == ManagerOperation::Update {
            manager.push_str(&format!(" using {}", entry.api_version));
        }
        Self { manager, fields }
    }
}

/// The reason for which an applied configuration was refused, with the HTTP status that it leads to.
///
/// The object is untouched in each case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The configuration has `managedFields`: a 400. They are the server's to write.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsPresent,
    /// The configuration does not fit the schema: a 500, as in kube-apiserver.
    #[error("failed to create typed patch object ({object}): {}", join(.errors))]
    Untypable {
        /// The object, as the message names it.
        object: String,
        /// Every error with its path.
        errors: Vec<String>,
    },
    /// The live object no longer fits the schema, which was changed since it was written: a 500, as in kube-apiserver.
    #[error("failed to create typed live object ({object}): {}", join(.errors))]
    UntypableLive {
        /// The object, as the message names it.
        object: String,
        /// Every error with its path.
        errors: Vec<String>,
    },
    /// The object cannot be converted to the version of another manager: a 500, as in kube-apiserver.
    #[error("{0}")]
    Unconvertible(String),
    /// Other managers own what the configuration sets differently: a 409. Give way, or force.
    #[error("{}", message(.0))]
    Conflicts(Vec<Conflict>),
}

fn join(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        many => many.iter().fold("errors:".to_owned(), |text, error| text + "\n  " + error),
    }
}

/// One field of a conflict, as it is listed.
struct ListedConflict<'a> {
    manager: &'a str,
    path: String,
}

/// The first fields of all conflicts, as many as are listed.
fn listed(conflicts: &[Conflict]) -> Vec<ListedConflict<'_>> {
    let mut left = MAX_LISTED_BYTES;
    let mut out = Vec::new();
    for conflict in conflicts {
        let manager = conflict.manager.as_str();
        for path in conflict.fields.first_paths(left) {
            left = left.saturating_sub(path.len() + manager.len());
            out.push(ListedConflict { manager, path });
            if left == 0 {
                return out;
            }
        }
    }
    out
}

/// The message of the 409 of a server-side apply, grouped by manager. kubectl prints it and adds its advice.
fn message(conflicts: &[Conflict]) -> String {
    let count: usize = conflicts.iter().map(|conflict| conflict.fields.len()).sum();
    let listed = listed(conflicts);
    if let ([only], 1) = (listed.as_slice(), count) {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
    }
    let mut lines = Vec::new();
    let mut last = None;
    for conflict in &listed {
        if last != Some(conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(conflict.manager);
        }
        lines.push(format!("- {}", conflict.path));
    }
    if count > listed.len() {
        lines.push(format!("and {} more", count - listed.len()));
    }
    format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Self {
        let text = error.to_string();
        match error {
            ApplyError::ManagedFieldsPresent => Self::bad_request(text),
            ApplyError::Untypable { .. }
            | ApplyError::UntypableLive { .. }
            | ApplyError::Unconvertible(_) => Self::unknown_reason(text),
            ApplyError::Conflicts(conflicts) => {
                let causes = listed(&conflicts).into_iter().map(|conflict| StatusCause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: format!("conflict with {}", conflict.manager),
                    field: conflict.path,
                });
                let details = StatusDetails { causes: causes.collect(), ..StatusDetails::default() };
                Self::failure(409, StatusReason::Conflict, text).with_details(details)
            }
        }
    }
}
