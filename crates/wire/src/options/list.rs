//! [`ListOptions`]: the query of a list, a watch or the deletion of a collection: selectors, resourceVersion, pages,
//! bookmarks.
//!
//! It is the type of both ends: the client writes it into a query, the server reads it from one. Reading is lenient, as
//! in kube-apiserver: an unknown parameter is ignored. [`ListOptions::check`] rejects the combinations that
//! kube-apiserver rejects, with its messages; what a resourceVersion means for a list or a watch is decided by the
//! server.

use super::query::{Query, QueryWriter};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{FieldError, Result, Status};

/// The meaning of [`ListOptions::resource_version`]: `resourceVersionMatch` of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "resourceVersionMatch")]
pub enum VersionMatch {
    /// Exactly that version.
    Exact,
    /// That version or a later one.
    NotOlderThan,
    /// Something else; validation refuses it.
    Unknown(String),
}

impl VersionMatch {
    /// Reads the parameter. An unknown value is kept, because the error of validation shows it.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "Exact" => Some(Self::Exact),
            "NotOlderThan" => Some(Self::NotOlderThan),
            other => Some(Self::Unknown(other.to_owned())),
        }
    }

    /// As on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
            Self::Unknown(text) => text,
        }
    }
}

/// The options of a list, a watch or a collection deletion.
///
/// ```
/// use listwatch_wire::options::{ListOptions, Query};
///
/// let options = ListOptions::parse(&Query::parse("labelSelector=app%3Dweb&limit=500"))?;
/// assert_eq!(options.limit, 500);
/// assert_eq!(options.to_query(), "labelSelector=app%3Dweb&limit=500");
/// options.check()?;
/// # Ok::<(), listwatch_wire::Status>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "metav1.ListOptions")]
pub struct ListOptions {
    /// Only objects whose labels match; empty for all.
    pub label_selector: LabelSelector,
    /// Only objects whose fields match; empty for all. The server refuses fields that it does not select by.
    pub field_selector: FieldSelector,
    /// Stream changes instead of returning a list.
    pub watch: bool,
    /// The watcher understands bookmarks.
    pub allow_watch_bookmarks: bool,
    /// Empty for the latest, `0` for any, else a position. Kept as text, as it may be no number.
    pub resource_version: String,
    /// The meaning of the version.
    pub resource_version_match: Option<VersionMatch>,
    /// The time after which the server ends a watch. With zero or none, the server chooses it.
    pub timeout_seconds: Option<u32>,
    /// At most so many items; zero for all.
    pub limit: u64,
    /// The `continue` token of the previous page; empty for the first.
    pub continue_token: String,
    /// Start a watch with the present state.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the options of a request.
    ///
    /// # Errors
    /// 400 if a selector or number cannot be parsed.
    pub fn parse(query: &Query<'_>) -> Result<Self> {
        // Numbers are read before selectors: with errors in both, kube-apiserver reports that of the number.
        let (seconds, limit) = (query.integer("timeoutSeconds")?, query.integer("limit")?);
        Ok(Self {
            label_selector: parsed(query.text("labelSelector"))?,
            field_selector: parsed(query.text("fieldSelector"))?,
            watch: query.flag("watch"),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: VersionMatch::parse(query.text("resourceVersionMatch")),
            timeout_seconds: seconds.map(|s| u32::try_from(s.max(0)).unwrap_or(u32::MAX)),
            // A negative limit is none.
            limit: u64::try_from(limit.unwrap_or(0)).unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        })
    }

    /// Sets what a watch without a position means: the present state first, then changes.
    ///
    /// Belongs between parsing and [`ListOptions::check`].
    pub fn set_watch_defaults(&mut self) {
        let anywhere = matches!(self.resource_version.as_str(), "" | "0");
        if self.watch
            && anywhere
            && self.send_initial_events.is_none()
            && self.resource_version_match.is_none()
        {
            self.send_initial_events = Some(true);
            self.resource_version_match = Some(VersionMatch::NotOlderThan);
        }
    }

    /// Validates according to [`ListOptions::watch`].
    ///
    /// # Errors
    /// 422 with a cause per field error.
    pub fn check(&self) -> Result<()> {
        let errors = if self.watch { self.validate_watch() } else { self.validate_list() };
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid_options("ListOptions", &errors)) }
    }

    /// Returns the field errors of a list's options. Empty if they are valid.
    #[must_use]
    pub fn validate_list(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(version_match) = &self.resource_version_match {
            if self.resource_version.is_empty() {
                errors.push(forbidden_match(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            errors.extend(self.match_with_continue());
            if let VersionMatch::Unknown(text) = version_match {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported("resourceVersionMatch", text.as_str(), &supported));
            }
            if *version_match == VersionMatch::Exact && self.resource_version == "0" {
                let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(forbidden_match(text));
            }
        }
        if self.send_initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    /// Returns the field errors of a watch's options. Empty if they are valid.
    #[must_use]
    pub fn validate_watch(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let not_older = self.resource_version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(forbidden_match(text));
        }
        if let Some(version_match) = &self.resource_version_match {
            if self.send_initial_events.is_none() {
                let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(forbidden_match(text));
            }
            if !not_older {
                let value = version_match.as_str();
                errors.push(FieldError::not_supported("resourceVersionMatch", value, &["NotOlderThan"]));
            }
            errors.extend(self.match_with_continue());
        }
        errors
    }

    fn match_with_continue(&self) -> Option<FieldError> {
        let text = "resourceVersionMatch is forbidden when continue is provided";
        (!self.continue_token.is_empty()).then(|| forbidden_match(text))
    }

    /// The query string of a request with these options.
    #[must_use]
    pub fn to_query(&self) -> String {
        QueryWriter::default()
            .text("labelSelector", &self.label_selector.to_string())
            .text("fieldSelector", &self.field_selector.to_string())
            .flag("watch", self.watch)
            .flag("allowWatchBookmarks", self.allow_watch_bookmarks)
            .text("resourceVersion", &self.resource_version)
            .text(
                "resourceVersionMatch",
                self.resource_version_match.as_ref().map_or("", VersionMatch::as_str),
            )
            .option("timeoutSeconds", self.timeout_seconds)
            .option("limit", (self.limit > 0).then_some(self.limit))
            .text("continue", &self.continue_token)
            .option("sendInitialEvents", self.send_initial_events)
            .finish()
    }
}

fn forbidden_match(text: &str) -> FieldError {
    FieldError::forbidden("resourceVersionMatch", text)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|e: T::Err| Status::bad_request(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(query: &str) -> String {
        ListOptions::parse(&Query::parse(query)).and_then(|o| o.check()).unwrap_err().message
    }

    #[test]
    fn rules_of_lists() {
        for (query, expected) in [
            (
                "resourceVersionMatch=Exact",
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersionMatch=Newest&resourceVersion=5",
                "Unsupported value: \"Newest\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=5&continue=x",
                "Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
        ] {
            let whole = format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {expected}");
            assert_eq!(message(query), whole);
        }
        assert!(message("sendInitialEvents=false").ends_with("sendInitialEvents is forbidden for list"));
    }

    #[test]
    fn rules_of_watches() {
        assert_eq!(
            message("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact"),
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires \
             setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": \
             supported values: \"NotOlderThan\"]"
        );
        assert!(
            message("watch=1&resourceVersionMatch=NotOlderThan")
                .ends_with("unless sendInitialEvents is provided")
        );
    }

    #[test]
    fn a_watch_without_a_revision_starts_with_the_present_state() {
        let mut options = ListOptions { watch: true, ..ListOptions::default() };
        options.set_watch_defaults();
        assert_eq!(options.send_initial_events, Some(true));
        assert!(options.check().is_ok());
        let mut later = ListOptions { watch: true, resource_version: "5".into(), ..ListOptions::default() };
        later.set_watch_defaults();
        assert_eq!(later.send_initial_events, None);
    }

    #[test]
    fn a_negative_limit_is_none() {
        assert_eq!(ListOptions::parse(&Query::parse("limit=-1")).unwrap().limit, 0);
    }
}
