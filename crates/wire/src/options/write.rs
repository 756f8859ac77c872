//! [`WriteOptions`]: the query of a create, update or patch: dry run, field manager, field validation, force.
//!
//! One type serves `CreateOptions`, `UpdateOptions` and `PatchOptions`, whose fields are the same; [`WriteKind`]
//! selects the rules that differ (`fieldManager` is required for apply, `force` is forbidden elsewhere) and the name in
//! error texts. Options are kept as sent until they are validated, since errors quote them. A missing field manager is
//! replaced by the user agent in the server's pipeline.

use super::query::{Query, QueryWriter};
use crate::go;
use crate::status::{FieldError, Result, Status};

/// The most characters of a field manager, as in kube-apiserver.
const MANAGER_MAX: usize = 128;

/// The treatment of unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped silently; the behaviour of servers before 1.23.
    Ignore,
    /// They are dropped with a warning each.
    #[default]
    Warn,
    /// The request is refused with 400, with all of them in one message.
    Strict,
}

/// The format of a patch, chosen by the `Content-Type` of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Merge by the schema's keys and strategies.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The format named by a media type, parameters aside.
    #[must_use]
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        match media_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    /// The media type of the format.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// The write that the options belong to; the rules differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch(PatchType),
}

/// The options of a create, update or patch.
///
/// ```
/// use listwatch_wire::options::{PatchType, Query, WriteKind, WriteOptions};
///
/// let options = WriteOptions::parse(&Query::parse("fieldManager=me&force=true"));
/// assert!(options.check(WriteKind::Patch(PatchType::Apply)).is_ok());
/// let refused = options.check(WriteKind::Patch(PatchType::Merge)).unwrap_err();
/// assert_eq!(refused.code, 422);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `All` to do everything but the write.
    pub dry_run: Vec<String>,
    /// The manager that owns the fields set; empty to be named after the user agent.
    pub field_manager: String,
    /// As sent; see [`WriteOptions::validation`].
    pub field_validation: String,
    /// Take ownership of fields of other managers; only with apply.
    pub force: Option<bool>,
}

impl WriteOptions {
    /// Reads the options of a request; nothing in them can fail to parse.
    #[must_use]
    pub fn parse(query: &Query<'_>) -> Self {
        Self {
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
            field_manager: query.text("fieldManager").to_owned(),
            field_validation: query.text("fieldValidation").to_owned(),
            force: query.optional_flag("force"),
        }
    }

    /// Returns true if nothing may be written.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// The treatment of unknown fields.
    #[must_use]
    pub fn validation(&self) -> FieldValidation {
        match self.field_validation.as_str() {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        }
    }

    /// Validates the options for a kind of write.
    ///
    /// # Errors
    /// 422 with a cause per field error.
    pub fn check(&self, kind: WriteKind) -> Result<()> {
        let errors = self.validate(kind);
        if errors.is_empty() {
            return Ok(());
        }
        let name = match kind {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch(_) => "PatchOptions",
        };
        Err(Status::invalid_options(name, &errors))
    }

    /// The field errors of the options for a kind of write.
    #[must_use]
    pub fn validate(&self, kind: WriteKind) -> Vec<FieldError> {
        let mut errors = Vec::new();
        match kind {
            WriteKind::Patch(PatchType::Apply) if self.field_manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            WriteKind::Patch(PatchType::Apply) => {}
            WriteKind::Patch(_) if self.force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        errors.extend(field_manager_errors(&self.field_manager));
        errors.extend(dry_run_error(&self.dry_run));
        if !matches!(self.field_validation.as_str(), "" | "Ignore" | "Strict" | "Warn") {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported(
                "fieldValidation",
                self.field_validation.as_str(),
                &supported,
            ));
        }
        errors
    }

    /// The query string of a request with these options.
    #[must_use]
    pub fn to_query(&self) -> String {
        let mut writer = QueryWriter::default();
        for value in &self.dry_run {
            writer.text("dryRun", value);
        }
        writer
            .text("fieldManager", &self.field_manager)
            .text("fieldValidation", &self.field_validation)
            .option("force", self.force)
            .finish()
    }
}

/// Checks the name of a field manager: its length, and that Go considers every character printable.
fn field_manager_errors(manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MANAGER_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_MAX));
    }
    // One is enough: each error repeats the name.
    if let Some((at, character)) = manager.char_indices().find(|(_, character)| !go::is_print(*character)) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        errors.push(FieldError::invalid("fieldManager", manager, why));
    }
    errors
}

pub(super) fn dry_run_error(dry_run: &[String]) -> Option<FieldError> {
    dry_run.iter().any(|v| v != "All").then(|| FieldError::not_supported("dryRun", dry_run, &["All"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(query: &str, kind: WriteKind) -> String {
        WriteOptions::parse(&Query::parse(query)).check(kind).unwrap_err().message
    }

    #[test]
    fn recorded_refusals() {
        let apply = WriteKind::Patch(PatchType::Apply);
        let merge = WriteKind::Patch(PatchType::Merge);
        for (query, kind, expected) in [
            (
                "",
                apply,
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ),
            (
                "force=true",
                merge,
                "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
            ),
            (
                "fieldValidation=Maybe",
                WriteKind::Create,
                "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Maybe\": supported \
                 values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
            ),
        ] {
            assert_eq!(message(query, kind), expected);
        }
    }

    #[test]
    fn managers_are_short_and_printable() {
        let long = format!("fieldManager={}", "x".repeat(129));
        assert!(
            message(&long, WriteKind::Update)
                .ends_with("fieldManager: Too long: may not be more than 128 bytes")
        );
        assert!(
            message("fieldManager=a%07", WriteKind::Update)
                .ends_with("invalid character U+0007 (at position 1)")
        );
    }

    #[test]
    fn the_only_dry_run_is_all() {
        assert_eq!(
            message("dryRun=Some", WriteKind::Create),
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
        );
    }
}
