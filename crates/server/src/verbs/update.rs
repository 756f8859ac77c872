//! UPDATE (PUT): replaces an object, or the view of it that a subresource such as `status` shows.
//!
//! An update may carry a `resourceVersion` as a condition; without one it is unconditional where the kind's strategy
//! allows that. Some kinds are created by PUT, which needs the permission to create as well. If another writer was
//! faster, [`crate::pipeline::transaction`] calls `decide` again with the newer object, so every step after decoding
//! must be repeatable. Defaults, admission and validation are [`crate::pipeline`]; `scale` is
//! [`crate::subresources`].

use listwatch_kinds::meta;
use listwatch_kinds::tree::Tree;
use listwatch_storage::Write;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{WriteKind, WriteOptions};
use listwatch_wire::status::FieldError;

use crate::allocate::reservation::Reservation;
use crate::api::stored::Stored;
use crate::api::{Api, RequestOptions};
use crate::pipeline::change::ObjectChange;
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{Target, expected};
use crate::pipeline::transaction::{self, Decide, Verdict};
use crate::pipeline::{Answer, WriteRequest, body};
use crate::registry::view::ObjectView;
use crate::subresources;
use crate::subresources::scale;

/// Replaces an object, or creates it where the kind allows.
///
/// # Errors
/// The Status of the response: 400, 403, 404, 409 for a `resourceVersion` or uid that is not the stored one, 422 or
/// 5xx.
pub(crate) async fn update(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if request.subresource.as_deref() == Some("scale") {
        return Box::pin(scale::update(api, &request)).await;
    }
    let view =
        ObjectView::of(request.subresource.as_deref()).ok_or_else(|| subresources::unsupported(&request))?;
    let options = WriteOptions::parse(&request.query);
    options.check(WriteKind::Update)?;
    let target = request.target();
    // These warnings are returned even if the object does not exist.
    let (sent, warnings) = read_sent(&request, &target, &options)?;
    let change = ObjectChange {
        api,
        request: &request,
        options: RequestOptions::Update(&options),
        tracking: Tracking::new(&request, &options),
        view,
        reservation: Reservation::new(&api.allocator),
    };
    let mut replacing = Replacing { change, target: &target, sent, warnings: Vec::new() };
    let done = transaction::change(api, &target, options.is_dry_run(), &mut replacing).await;
    let warnings = [warnings, replacing.warnings].concat();
    match done {
        Ok(done) => Ok(done.answer().with_warnings(warnings)),
        Err(status) => {
            warnings.into_iter().for_each(|warning| request.record.warn(warning));
            Err(status)
        }
    }
}

/// Decodes and completes the body, and checks it against the path. Returns it with the warnings about it.
fn read_sent(
    request: &WriteRequest,
    target: &Target<'_>,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>), Status> {
    let resource = &*request.resource;
    let content_type = request.content_type.as_deref();
    body::check_media_type(content_type, expected(resource))?;
    let check = |object: &mut Value| resource.rules.decode(object, None);
    let (decoded, wrong_kind) =
        body::decode_any_kind(content_type, &request.body, expected(resource), &check, options.validation())?;
    let (mut sent, mut warnings) = (decoded.object, decoded.warnings);
    let identified = target.check_identity(&mut sent).and(wrong_kind.map_or(Ok(()), Err));
    identified.inspect_err(|_| request.record.warn_all(&warnings))?;
    warnings.extend(sent.inner("metadata").and_then(meta::drop_duplicate_owners));
    resource.rules.complete(&mut sent, None);
    Ok((sent, warnings))
}

/// A PUT.
struct Replacing<'a> {
    change: ObjectChange<'a>,
    target: &'a Target<'a>,
    /// The object as sent, decoded and with its defaults.
    sent: Value,
    warnings: Vec<String>,
}

impl Decide for &mut Replacing<'_> {
    fn charges(&mut self) -> Vec<Write> {
        self.change.request.record.take_charges()
    }

    async fn decide(&mut self, stored: Option<&Stored>) -> Result<Verdict, Status> {
        let Replacing { change, target, sent, warnings } = &mut **self;
        warnings.clear();
        match stored {
            Some(stored) => {
                check_conditions(target, sent, stored)?;
                // The steps below skip what the object shares with the stored one.
                sent.share(&stored.value);
                let mut new = sent.clone();
                change.update(target, &mut new, stored, warnings).await
            }
            None if !creates(change.view, target) => Err(target.not_found()),
            // A body with a uid is for an existing object: it must not create another one.
            None if !sent.at("metadata").text("uid").is_empty() => {
                target.check_uid(sent.at("metadata").text("uid"), &Value::Null)?;
                Err(target.not_found())
            }
            None => {
                let version = sent.at("metadata").text("resourceVersion");
                if !version.is_empty() {
                    listwatch_wire::go::parse_uint(version).map_err(Status::bad_request)?;
                }
                let mut new = sent.clone();
                target.resource.rules.track(&change.tracking, None, &mut new);
                change.create(target, new, warnings).await
            }
        }
    }
}

/// Returns true if a PUT to a free name creates. In kube-apiserver the status of a Service is written with the strategy of
/// the Service, which does.
pub(super) fn creates(view: ObjectView, target: &Target<'_>) -> bool {
    let resource = target.resource;
    let by_status = view == ObjectView::Status && &*resource.plural == "services" && !resource.is_custom();
    (view == ObjectView::Whole || by_status) && resource.rules.create_on_update()
}

/// Checks the uid and resourceVersion in the body against the stored object.
///
/// # Errors
///
/// 409 for another uid or version, 422 if the kind needs a version and there is none.
fn check_conditions(target: &Target<'_>, sent: &Value, stored: &Stored) -> Result<(), Status> {
    let meta = sent.at("metadata");
    target.check_uid(meta.text("uid"), &stored.value)?;
    check_version(target, meta.text("resourceVersion"), stored)
}

/// Checks the resourceVersion of an update against the stored object.
///
/// # Errors
///
/// 409 for another version, 422 if the kind needs a version and there is none.
pub(super) fn check_version(target: &Target<'_>, version: &str, stored: &Stored) -> Result<(), Status> {
    if matches!(version, "" | "0") && !target.resource.rules.unconditional_update() {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        // Only here kube-apiserver names the resource instead of the kind.
        let Target { resource, name, .. } = target;
        return Err(Status::invalid(&resource.group, &resource.plural, name, &[error]));
    }
    target.check_version(version, stored.revision)
}
