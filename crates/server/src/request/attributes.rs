//! What a request wants, as authorizers see it.

use listwatch_wire::selector::FieldSelector;

use crate::auth::Attributes;
use crate::http::request::Request;
use crate::request::info::{RequestInfo, ResourceInfo, Verb};

/// What the request wants, as authorizers see it.
pub(crate) fn with_attributes<T>(
    request: &Request,
    info: &RequestInfo,
    ask: impl FnOnce(&Attributes<'_>) -> T,
) -> T {
    match info {
        RequestInfo::Other => {
            let method = request.method.as_str().to_ascii_lowercase();
            ask(&Attributes { verb: &method, path: &request.path, ..Attributes::default() })
        }
        RequestInfo::Resource(resource) => {
            let fields = selector(request, resource);
            let lifted = fields.as_ref().and_then(|fields| lifted_name(fields, resource.verb));
            ask(&Attributes {
                verb: resource.verb.as_str(),
                group: &resource.group,
                version: &resource.version,
                resource: &resource.resource,
                subresource: resource.subresource.as_deref().unwrap_or_default(),
                namespace: resource.namespace.as_deref().unwrap_or_default(),
                name: resource.name.as_deref().or(lifted).unwrap_or_default(),
                path: &request.path,
                fields: fields.as_ref(),
            })
        }
    }
}

/// The field selector of a request for several objects, if it has one that can be read.
fn selector(request: &Request, info: &ResourceInfo) -> Option<FieldSelector> {
    let several = matches!(info.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
    if !several || !request.query.contains("fieldSelector") {
        return None;
    }
    request.query().text("fieldSelector").parse().ok()
}

/// A list or watch of one name counts as a request for that name, so that rights to single names work for it. A deletion
/// does not: a right to delete one object by its name is no right to delete collections.
fn lifted_name(selector: &FieldSelector, verb: Verb) -> Option<&str> {
    let name = selector.exact("metadata.name").filter(|_| verb != Verb::DeleteCollection)?;
    listwatch_kinds::names::path_segment(name, false).is_empty().then_some(name)
}
