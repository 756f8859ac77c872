//! Selectors and resourceVersion of a list or watch: from query parameters to a [`Filter`] of the watch cache.
//!
//! The filter is compiled once per request, and watches with equal filters share their events
//! (`cache/view.rs`), so everything that restricts a collection (namespace, name, labels, fields) must be in
//! it. A field that the resource has no selectable field for is an error here, with kube-apiserver's wording, which
//! differs between kinds with and without further selectable fields.
//!
//! Parsing of the selector syntax itself is `listwatch_wire`; reading the collection is [`crate::verbs::list`] and
//! [`crate::verbs::watch`].

use listwatch_wire::options::ListOptions;
use listwatch_wire::{Revision, Status};

use crate::cache::Filter;
use crate::registry::Resource;

/// The filter of a list or watch.
///
/// Equal filters must compare equal, since watches share views by them; selectors are therefore kept parsed and not
/// as text.
///
/// # Errors
/// 400 for a field that cannot be selected by, or a name that contradicts the path.
pub(crate) fn filter(
    resource: &Resource,
    namespace: Option<&str>,
    name: Option<&str>,
    options: &ListOptions,
) -> Result<Filter, Status> {
    for term in options.field_selector.terms() {
        check_field(resource, &term.field)?;
    }
    let selector = &options.field_selector;
    if name.is_some() && !selector.terms().is_empty() && selector.exact("metadata.name") != name {
        return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    let filter = Filter::new(
        namespace,
        options.label_selector.clone(),
        options.field_selector.clone(),
        &resource.fields,
    );
    let filter = if resource.namespaced { filter } else { filter.cluster_scoped() };
    Ok(match name {
        Some(name) => filter.with_name(name),
        None => filter,
    })
}

/// Checks that the field can be selected by. The message differs for kinds without further selectable fields, as in
/// kube-apiserver.
fn check_field(resource: &Resource, field: &str) -> Result<(), Status> {
    // Custom kinds and kinds with fields of their own offer `metadata.namespace` only if they are namespaced.
    let placeless = !resource.namespaced && (resource.is_custom() || !resource.fields.is_empty());
    let known = match field {
        "metadata.name" => true,
        "metadata.namespace" => !placeless,
        _ => resource.fields.iter().any(|f| &*f.label == field),
    };
    if known {
        return Ok(());
    }
    let message = match &*resource.kind {
        _ if resource.is_custom() => format!("field label not supported: {field}"),
        _ if resource.fields.is_empty() => {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        "Job" => format!("field label {field:?} not supported for Job"),
        "ResourceSlice" => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
        }
        _ => format!("field label not supported: {field}"),
    };
    Err(Status::bad_request(message))
}

/// Parses a `resourceVersion` parameter. `None` if it is absent, which does not mean 0: absent asks for the newest
/// state, 0 for any.
///
/// # Errors
/// 400 if it is not a number.
pub(crate) fn parse_version(text: &str) -> Result<Option<Revision>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let quoted = listwatch_wire::go::quote(text);
        let why = format!("strconv.ParseUint: parsing {quoted}: invalid syntax");
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {quoted}: {why}"
        ))
    })
}
