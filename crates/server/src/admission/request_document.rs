//! An admission request as JSON: the `request` of an AdmissionReview, and the variable `request` of policy expressions.
//!
//! Both show the same fields, so that a rule can move from one to the other. A webhook also gets the objects and a uid
//! ([`super::webhook`]); expressions have variables for them ([`super::policy`]).

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};

use super::Attributes;
use super::matching::MatchForm;

/// Returns the fields of an admission request, without its objects.
pub(super) fn request_document(request: &Attributes<'_>, form: &MatchForm) -> Value {
    let (sent, shown) = (request.resource, form.resource(request));
    let mut document = json!({
        "kind": kind_of(shown, request.subresource),
        "resource": {"group": &*shown.group, "version": &*shown.version, "resource": &*shown.plural},
        "requestKind": kind_of(sent, request.subresource),
        "requestResource": {"group": &*sent.group, "version": &*sent.version, "resource": &*sent.plural},
        "operation": request.operation.name(),
        "userInfo": request.user.info(),
        "dryRun": request.is_dry_run(),
        "options": request.options.document(request.operation)
    });
    for (key, text) in [
        ("name", request.name),
        ("namespace", request.namespace),
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
    ] {
        if !text.is_empty() {
            document.put(key, text);
        }
    }
    document
}

/// Group, version and kind of the object of a request.
fn kind_of(resource: &crate::registry::Resource, subresource: &str) -> Value {
    let own =
        resource.subresource(subresource).filter(|own| !own.group.is_empty() || !own.version.is_empty());
    match own {
        Some(own) => json!({"group": &*own.group, "version": &*own.version, "kind": &*own.kind}),
        None => {
            let named = resource.subresource(subresource).map_or(&resource.kind, |own| &own.kind);
            json!({"group": &*resource.group, "version": &*resource.version, "kind": &**named})
        }
    }
}
