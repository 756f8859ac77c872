//! [`DeleteOptions`]: grace period, preconditions and propagation of a deletion.
//!
//! The body of a DELETE wins over its query: kube-apiserver reads the query only if there is no body. The older
//! `orphanDependents` and `propagationPolicy` exclude each other. Their effect (finalizers `orphan` and
//! `foregroundDeletion`, `deletionTimestamp`) is implemented by the server; this is only their format and validation.

use serde::{Deserialize, Serialize};

use super::query::{Query, QueryWriter};
use super::write::dry_run_error;
use crate::status::{FieldError, Result, Status};

/// The propagation of a deletion to dependents: `DeletionPropagation` of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "DeletionPropagation")]
pub enum Propagation {
    /// The object goes at once; the garbage collector deletes dependents afterwards.
    Background,
    /// The object stays, with the finalizer `foregroundDeletion`, until its blocking dependents are deleted.
    Foreground,
    /// Dependents stay and lose their owner reference.
    Orphan,
}

/// The preconditions of a deletion. One that does not hold is answered with 409.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    /// The uid that the object must have, so that a namesake created later is not deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource version that the object must have, so that nothing is deleted that the caller has not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// The options of a deletion. They come in the body of a DELETE or, if there is none, in its query.
///
/// ```
/// use listwatch_wire::options::{DeleteOptions, Propagation};
///
/// let body = br#"{"propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#;
/// let options: DeleteOptions = serde_json::from_slice(body)?;
/// assert_eq!(options.propagation(), Some(Propagation::Foreground));
/// assert!(options.check().is_ok());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[doc(alias = "metav1.DeleteOptions")]
pub struct DeleteOptions {
    /// The grace period in seconds; zero deletes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// The preconditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// The deprecated form of the policy: true is `Orphan`, false is `Background`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_dependents: Option<bool>,
    /// As sent; see [`DeleteOptions::propagation`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    /// `All` to do everything but the deletion.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    /// Delete what can no longer be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl DeleteOptions {
    /// Reads the options of a request without a body. Preconditions are `uid` and `resourceVersion` there, and empty ones are
    /// none.
    ///
    /// # Errors
    /// 400 if the grace period is not a number.
    pub fn parse(query: &Query<'_>) -> Result<Self> {
        let text = |name| query.first(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let conditions = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
        Ok(Self {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            preconditions: (conditions != Preconditions::default()).then_some(conditions),
            orphan_dependents: query.optional_flag("orphanDependents"),
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
            ignore_store_read_error_with_cluster_breaking_potential: query
                .optional_flag("ignoreStoreReadErrorWithClusterBreakingPotential"),
        })
    }

    /// Returns true if nothing may be deleted.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// The propagation policy, if the request has one in either form.
    #[must_use]
    pub fn propagation(&self) -> Option<Propagation> {
        match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            _ => None,
        }
    }

    /// Validates the options.
    ///
    /// # Errors
    /// 422 with a cause per field error.
    pub fn check(&self) -> Result<()> {
        let errors = self.validate();
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid_options("DeleteOptions", &errors)) }
    }

    /// Returns the field errors of the options, in kube-apiserver's order. Empty if they are valid.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), text));
        }
        if let Some(policy) = &self.propagation_policy
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", policy.as_str(), &supported));
        }
        errors.extend(dry_run_error(&self.dry_run));
        self.validate_unreadable(&mut errors);
        errors
    }

    /// An object that cannot be read is removed without looking at it, so nothing that needs its contents goes with it.
    fn validate_unreadable(&self, errors: &mut Vec<FieldError>) {
        const FIELD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
        if self.ignore_store_read_error_with_cluster_breaking_potential != Some(true) {
            return;
        }
        let mut refuse = |is_set: bool, other: &str| {
            if is_set {
                let detail = format!("cannot be set together with .{other}");
                errors.push(FieldError::invalid(FIELD, true, detail));
            }
        };
        refuse(self.propagation_policy.is_some(), "propagationPolicy");
        refuse(self.orphan_dependents.is_some(), "orphanDependents");
        refuse(self.grace_period_seconds.is_some(), "gracePeriodSeconds");
        refuse(self.preconditions.is_some(), "preconditions");
    }

    /// The query string of a request with these options; preconditions need a body.
    #[must_use]
    pub fn to_query(&self) -> String {
        let mut writer = QueryWriter::default();
        writer
            .option("gracePeriodSeconds", self.grace_period_seconds)
            .option("orphanDependents", self.orphan_dependents)
            .option("propagationPolicy", self.propagation_policy.as_deref());
        for value in &self.dry_run {
            writer.text("dryRun", value);
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_refusals() {
        let refused =
            |query| DeleteOptions::parse(&Query::parse(query)).unwrap().check().unwrap_err().message;
        assert_eq!(
            refused("propagationPolicy=Sideways"),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported \
             values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        );
        assert_eq!(
            refused("propagationPolicy=Orphan&orphanDependents=true"),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents \
             and deletionPropagation cannot be both set"
        );
    }

    /// An empty value of the parameter was overlooked, and the object deleted.
    #[test]
    fn a_dry_run_of_nothing_is_refused() {
        let refused = DeleteOptions::parse(&Query::parse("dryRun=")).unwrap().check().unwrap_err();
        assert!(refused.message.ends_with("dryRun: Unsupported value: [\"\"]: supported values: \"All\""));
    }

    #[test]
    fn unreadable_objects_are_deleted_without_preconditions() {
        let check = |query| DeleteOptions::parse(&Query::parse(query)).unwrap().validate().len();
        let ignore = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
        assert_eq!((check(ignore), check(&format!("{ignore}&gracePeriodSeconds=0"))), (0, 1));
    }

    #[test]
    fn preconditions_may_be_in_the_query() {
        let parse = |query| DeleteOptions::parse(&Query::parse(query)).unwrap().preconditions;
        let uid = Preconditions { uid: Some("u".to_owned()), resource_version: None };
        assert_eq!(parse("uid=u&resourceVersion="), Some(uid));
        assert_eq!(parse("uid="), None);
    }

    #[test]
    fn bodies_may_hold_nulls() {
        let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","dryRun":null,"gracePeriodSeconds":0}"#;
        let options: DeleteOptions = serde_json::from_str(body).unwrap();
        assert_eq!((options.grace_period_seconds, options.is_dry_run()), (Some(0), false));
    }
}
