//! [`Labels`]: the labels of request metrics, with kube-apiserver's names and order.
//!
//! They identify a series, so every value must come from a bounded set: served resources, fixed verbs, known paths.
//! `chain/labels.rs` makes them from a request and `chain/service.rs` replaces what is not served by
//! [`Labels::anything`]; `requests.rs` bounds the number of series once more.

use std::borrow::Cow;
use std::fmt;

/// The part of kube-apiserver that would have answered.
pub(crate) const COMPONENT: &str = "apiserver";

/// The metric labels of a request.
/// Borrowed from the request while the series is looked up, and owned once it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Labels<'a> {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    pub(crate) resource: Cow<'a, str>,
    pub(crate) subresource: Cow<'a, str>,
    /// `resource`, `namespace`, `cluster` or empty, as in kube-apiserver.
    pub(crate) scope: &'static str,
}

impl<'a> Labels<'a> {
    /// Returns the labels with the verb only, for requests whose other labels must not create a series.
    pub(crate) fn anything(&self) -> Self {
        Self { verb: self.verb, ..Self::default() }
    }

    /// Labels that outlive the request, for watches that end later.
    pub(crate) fn into_owned(self) -> Labels<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Labels {
            verb: self.verb,
            dry_run: self.dry_run,
            group: owned(self.group),
            version: owned(self.version),
            resource: owned(self.resource),
            subresource: owned(self.subresource),
            scope: self.scope,
        }
    }
}

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, dry_run, scope, .. } = self;
        write!(
            f,
            "verb=\"{verb}\",dry_run=\"{dry_run}\",{}",
            ResourceLabels(&self.group, &self.version, &self.resource)
        )?;
        write!(
            f,
            ",subresource=\"{}\",scope=\"{scope}\",component=\"{COMPONENT}\"",
            escape(&self.subresource)
        )
    }
}

/// The labels of a resource: group, version and plural.
pub(crate) struct ResourceLabels<'a>(pub(crate) &'a str, pub(crate) &'a str, pub(crate) &'a str);

impl fmt::Display for ResourceLabels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(group, version, resource) = self;
        let [group, version, resource] = [group, version, resource].map(|text| escape(text));
        write!(f, "group=\"{group}\",version=\"{version}\",resource=\"{resource}\"")
    }
}

/// Escapes a label value for the Prometheus text form. Borrowed if there is nothing to escape, which is nearly
/// always.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return text.into();
    }
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
}
