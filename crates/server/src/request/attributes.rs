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
            let lifted = lifted_name(request, info);
            ask(&Attributes {
                verb: resource.verb.as_str(),
                group: &resource.group,
                version: &resource.version,
                resource: &resource.resource,
                subresource: resource.subresource.as_deref().unwrap_or_default(),
                namespace: resource.namespace.as_deref().unwrap_or_default(),
                name: resource.name.as_deref().or(lifted.as_deref()).unwrap_or_default(),
                path: &request.path,
            })
        }
    }
}

/// A list or watch of one name counts as a request for that name, so that rights to single names work for it. A deletion
/// does not: a right to delete one object by its name is no right to delete collections.
fn lifted_name(request: &Request, info: &RequestInfo) -> Option<String> {
    let RequestInfo::Resource(ResourceInfo { verb: Verb::List | Verb::Watch, .. }) = info else {
        return None;
    };
    let query = request.query();
    let selector: FieldSelector = query.text("fieldSelector").parse().ok()?;
    let name = selector.exact("metadata.name")?;
    listwatch_kinds::names::path_segment(name, false).is_empty().then(|| name.to_owned())
}
