//! PUT: an object in place of another, or a view of it.

use listwatch_kinds::meta;
use listwatch_kinds::tree::Tree;
use listwatch_storage::Write;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{Query, WriteKind, WriteOptions};
use listwatch_wire::status::FieldError;

use crate::admission::rights;
use crate::admission::{Operation, RequestOptions};
use crate::allocate::services::{self, Reservation};
use crate::api::Api;
use crate::api::stored::Stored;
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{Target, expected};
use crate::pipeline::transaction::{Decide, Done, Verdict, change};
use crate::pipeline::{Answer, WriteRequest, body};
use crate::registry::view::View;
use crate::subresources;
use crate::subresources::scale;
use crate::verbs::create;

/// PUT.
///
/// # Errors
/// The Status to answer with.
pub(crate) async fn update(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    if request.subresource.as_deref() == Some("scale") {
        return scale::update(api, &request).await;
    }
    let view = View::of(request.subresource.as_deref()).ok_or_else(|| subresources::unsupported(&request))?;
    let resource = &*request.resource;
    let options = WriteOptions::parse(&Query::parse(&request.query));
    options.check(WriteKind::Update)?;
    let content_type = request.content_type.as_deref();
    let check = |object: &mut Value| resource.rules.decode(object, None);
    let decoded =
        body::decode(content_type, &request.body, expected(resource), &check, options.validation())?;
    let mut sent = decoded.object;
    let target =
        Target::new(resource, request.namespace.as_deref(), request.name.as_deref().unwrap_or_default());
    target.check_identity(&mut sent)?;
    resource.rules.complete(&mut sent, None);
    let mut warnings = decoded.warnings;
    let updating = Updating {
        api,
        request: &request,
        target: &target,
        options: RequestOptions::Update(&options),
        tracking: Tracking::new(&request, &options),
        view,
        reservation: Reservation::new(&api.allocator),
    };
    let mut replacing = Replacing { updating, sent, warnings: Vec::new() };
    let done = change(api, &target, options.is_dry_run(), &mut replacing).await?;
    replacing.updating.keep(&done);
    warnings.append(&mut replacing.warnings);
    Ok(done.answer().with_warnings(warnings))
}

/// A PUT.
struct Replacing<'a> {
    updating: Updating<'a>,
    /// The object as sent, decoded and completed.
    sent: Value,
    warnings: Vec<String>,
}

impl Decide for &mut Replacing<'_> {
    fn charges(&mut self) -> Vec<Write> {
        self.updating.request.record.take_charges()
    }

    async fn decide(&mut self, stored: Option<&Stored>) -> Result<Verdict, Status> {
        let (updating, sent) = (&self.updating, &self.sent);
        let Updating { target, view, .. } = *updating;
        self.warnings.clear();
        match stored {
            Some(stored) => {
                check_conditions(target, sent, stored)?;
                let mut new = sent.clone();
                updating.successor(&mut new, stored, &mut self.warnings).await
            }
            // A request for a certain object is refused although others would be created.
            None if !sent.at("metadata").text("uid").is_empty() => {
                target.check_uid(sent.at("metadata").text("uid"), &Value::Null)?;
                Err(target.not_found())
            }
            None if view == View::Whole && target.resource.rules.create_on_update() => {
                let mut new = sent.clone();
                target.resource.rules.track(&updating.tracking, None, &mut new);
                updating.create(new, &mut self.warnings).await
            }
            None => Err(target.not_found()),
        }
    }
}

/// What the sender says about the object it means to replace must be true.
fn check_conditions(target: &Target<'_>, sent: &Value, stored: &Stored) -> Result<(), Status> {
    let meta = sent.at("metadata");
    target.check_uid(meta.text("uid"), &stored.value)?;
    let version = meta.text("resourceVersion");
    if matches!(version, "" | "0") && !target.resource.rules.unconditional_update() {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        // Only here the reference names the resource instead of the kind.
        let Target { resource, name, .. } = target;
        return Err(Status::invalid(&resource.group, &resource.plural, name, &[error]));
    }
    target.check_version(version, stored.revision)
}

/// An update, however it is described: what is the same for every attempt.
pub(crate) struct Updating<'a> {
    pub(crate) api: &'a Api,
    pub(crate) request: &'a WriteRequest,
    pub(crate) target: &'a Target<'a>,
    pub(crate) options: RequestOptions<'a>,
    pub(crate) tracking: Tracking<'a>,
    pub(crate) view: View,
    /// What the object was given, if it is a Service.
    pub(crate) reservation: Reservation<'a>,
}

impl Updating<'_> {
    /// Lets a stored object have what it was given. A dry run gives it back.
    pub(crate) fn keep(&self, done: &Done) {
        if matches!(done, Done::Stored { .. }) {
            self.reservation.keep();
        }
    }

    /// Turns a decoded and completed object into the successor of the stored one.
    pub(crate) async fn successor(
        &self,
        new: &mut Value,
        stored: &Stored,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Status> {
        carry_over(new, &stored.value, warnings);
        self.target.resource.rules.track(&self.tracking, Some(&stored.value), new);
        self.settle(new, stored, warnings).await
    }

    /// The part of [`Updating::successor`] after the owners of fields are known.
    pub(crate) async fn settle(
        &self,
        new: &mut Value,
        stored: &Stored,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Status> {
        let Self { api, request, target, options, view, ref reservation, .. } = *self;
        let attributes =
            request.attributes(api, Operation::Update, target.name, options, Some(&stored.value));
        api.admission.admit(&attributes, new).await?;
        rights::may_grant(api, request, target, new, Some(&stored.value)).await?;
        prepare(reservation, target, view, new, stored)?;
        api.admission.validate(&attributes, new).await?;
        Ok(verdict(target, view, new, stored, warnings))
    }

    /// Makes a new object of one that was sent for a free name.
    pub(crate) async fn create(&self, mut new: Value, warnings: &mut Vec<String>) -> Result<Verdict, Status> {
        let Self { api, request, target, options, ref reservation, .. } = *self;
        rights::may_create(api, request, target)?;
        create::admit_new(api, request, options, &mut new).await?;
        rights::may_grant(api, request, target, &new, None).await?;
        *warnings = create::finish_new(reservation, target, request, &mut new)?;
        create::validate_new(api, request, options, &new).await?;
        Ok(Verdict::Create(new))
    }
}

/// Makes an object the successor of the stored one, and validates it.
pub(crate) fn prepare(
    reservation: &Reservation<'_>,
    target: &Target<'_>,
    view: View,
    new: &mut Value,
    stored: &Stored,
) -> Result<(), Status> {
    let (rules, old) = (&target.resource.rules, &stored.value);
    rules.prepare_update(view, new, old);
    if view == View::Whole && (&*target.resource.group, &*target.resource.kind) == ("", "Service") {
        services::reallocate(reservation, target, new, old)?;
    }
    target.valid(&rules.validate_update(view, new, old))
}

/// The decision about a valid successor.
pub(crate) fn verdict(
    target: &Target<'_>,
    view: View,
    new: &mut Value,
    stored: &Stored,
    warnings: &mut Vec<String>,
) -> Verdict {
    let old = &stored.value;
    if new == old {
        return Verdict::Keep;
    }
    // Writers of a view are programs that cannot do anything about the rest.
    if view == View::Whole {
        warnings.extend(target.resource.rules.warnings(new, Some(old)));
    }
    let new = std::mem::take(new);
    if is_done(&new) { Verdict::Remove(new) } else { Verdict::Write(new) }
}

/// Fills in the metadata that an update leaves out or cannot change.
pub(crate) fn carry_over(new: &mut Value, old: &Value, warnings: &mut Vec<String>) {
    let (Some(meta), Some(before)) = (new.inner_or_new("metadata"), old.at("metadata").as_object()) else {
        return;
    };
    meta.remove("resourceVersion");
    meta::carry_over(meta, before);
    warnings.extend(meta::drop_duplicate_owners(meta));
}

/// Whether an object that is being deleted has nothing left to wait for.
pub(crate) fn is_done(object: &Value) -> bool {
    let meta = object.at("metadata");
    let held = meta.count("finalizers") > 0
        || (object.text("kind") == "Namespace"
            && object.text("apiVersion") == "v1"
            && object.at("spec").count("finalizers") > 0);
    meta.has("deletionTimestamp") && !held && meta.int("deletionGracePeriodSeconds").unwrap_or(0) == 0
}
