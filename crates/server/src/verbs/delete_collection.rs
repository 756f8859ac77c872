//! DELETECOLLECTION: lists what a selector matches, then deletes each object by itself.
//!
//! As in kube-apiserver it is not atomic: each deletion passes admission, preconditions and finalizers on its own, an
//! error ends it, and objects deleted before stay deleted. Objects that vanish meanwhile are not errors. Listing
//! reads the watch cache the way [`super::list`] does; one deletion is `pipeline/delete.rs`.

use listwatch_wire::Status;
use listwatch_wire::options::{ListOptions, VersionMatch};
use listwatch_wire::status::FieldError;

use crate::api::Api;
use crate::pipeline::delete::{DeletionAdmission, delete_target};
use crate::pipeline::target::Target;
use crate::pipeline::{Answer, AnswerBody, WriteRequest};
use crate::request::selectors;
use crate::verbs::delete::{read_options, warn_of_orphans};
use crate::verbs::list;

/// Deletes the objects that a list with the same options has. The response is that list, as it was before; objects
/// that finalizers hold are only marked.
///
/// Objects are deleted one after the other; kube-apiserver uses several workers. All listed objects are in memory
/// until the end, for the response.
///
/// # Errors
/// That of the first deletion that fails; objects deleted before it stay deleted.
pub(crate) async fn delete_collection(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let mut listing = ListOptions::parse(&request.query)?;
    listing.check()?;
    list_exactly(&mut listing);
    let resource = &*request.resource;
    let filter = selectors::filter(resource, request.namespace.as_deref(), None, &listing)?;
    let options = read_options(&request)?;
    if options.ignore_store_read_error_with_cluster_breaking_potential == Some(true) {
        let field = "ignoreStoreReadErrorWithClusterBreakingPotential";
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        let refused = FieldError::invalid(field, true, detail);
        return Err(Status::invalid_options("DeleteOptions", &[refused]));
    }
    warn_of_orphans(&request, &options);
    let listed = list::collect(api, resource, &filter, &listing).await?;
    for object in &listed.objects {
        let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
        let target = Target::new(&request.resource, namespace, object.name()).by(&request.user.name);
        match delete_target(api, &target, &options, request.writer(), DeletionAdmission::Collection).await {
            Ok(_) => {}
            // It was deleted concurrently.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer { code: 200, body: AnswerBody::List(listed), warnings: Vec::new() })
}

/// kube-apiserver lists in pages here, and the first page of a `resourceVersion` without a match is exactly of that version.
fn list_exactly(listing: &mut ListOptions) {
    let of_one_version =
        !matches!(listing.resource_version.as_str(), "" | "0") && listing.continue_token.is_empty();
    if of_one_version && listing.resource_version_match.is_none() {
        listing.resource_version_match = Some(VersionMatch::Exact);
    }
}
