//! [`ObjectChange`]: the steps of one write, top to bottom.
//!
//! A verb decodes its request and fills in defaults; then it calls [`ObjectChange::create`] or
//! [`ObjectChange::update`], which perform the remaining steps: field ownership, mutating admission, the strategy's
//! `prepare`, allocation, the strategy's validation, validating admission. `transaction` checks size and depth and
//! commits, and repeats these steps with the newer object if another writer was faster.
//!
//! Work on a large object pauses between the steps ([`blocking::pause`]), so that it ends if its request has timed out.
//!
//! A POST takes the steps of a new object one by one, because a generated name is chosen between them and may be taken.
//! Deletion has no new object and is in `delete`.

use listwatch_kinds::meta;
use listwatch_kinds::tree::Tree;
use listwatch_merge::apply::managed_fields_error;
use listwatch_wire::Status;
use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::FieldError;

use crate::allocate::reservation::Reservation;
use crate::allocate::services;
use crate::api::stored::Stored;
use crate::api::{Api, Operation, RequestOptions, blocking};
use crate::auth::{AuthorizerAttributes, certificates};
use crate::pipeline::claims;
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{Target, place};
use crate::pipeline::times::only_times_differ;
use crate::pipeline::transaction::Verdict;
use crate::pipeline::{WriteRequest, now};
use crate::registry::view::ObjectView;

/// A write of one object: everything that stays the same over all attempts.
///
/// Borrowed by each attempt. A step must not keep anything that depends on the stored object, because the next
/// attempt has another one.
#[doc(alias = "BeforeCreate")]
#[doc(alias = "BeforeUpdate")]
pub(crate) struct ObjectChange<'a> {
    pub(crate) api: &'a Api,
    pub(crate) request: &'a WriteRequest,
    pub(crate) options: RequestOptions<'a>,
    /// Manager and time that are recorded as the owner of changed fields.
    pub(crate) tracking: Tracking<'a>,
    /// The part of the object that the path lets a client change.
    pub(crate) view: ObjectView,
    /// The addresses and ports allocated to the object, if it is a Service.
    ///
    /// Released when the change is dropped: by then the claims are stored, or not needed.
    pub(crate) reservation: Reservation<'a>,
}

impl ObjectChange<'_> {
    /// Makes a new object of one that was sent for a free name by PUT or apply, decoded, with its defaults and owners.
    ///
    /// The name is that of the path and free at the moment; another writer may still be faster, and then `update` is
    /// asked.
    ///
    /// # Errors
    ///
    /// 403 without the right to create or by admission, 422 by validation.
    pub(crate) async fn create(
        &self,
        target: &Target<'_>,
        mut new: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Status> {
        self.may_create(target).await?;
        warnings.clear();
        let version = new.at("metadata").at("resourceVersion").clone();
        self.admit_new(&mut new, warnings).await?;
        warnings.extend(self.prepare_new(&self.reservation, target, &mut new).await?);
        self.validate_new(&new).await?;
        // Storing an object removes the version; a dry run returns it as kube-apiserver does.
        if let Some(meta) = new.inner("metadata").filter(|_| self.options.is_dry_run() && !version.is_null())
        {
            meta.put("resourceVersion", version);
        }
        Ok(Verdict::Create(new))
    }

    /// Makes an object, decoded and with its defaults, the successor of the stored one.
    ///
    /// # Errors
    ///
    /// 403 by admission, 422 by validation, those of webhooks.
    pub(crate) async fn update(
        &self,
        target: &Target<'_>,
        new: &mut Value,
        stored: &Stored,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Status> {
        let checked = match self.options {
            RequestOptions::Patch(_) => OwnersChecked::AfterAdmission,
            _ => OwnersChecked::AsSent,
        };
        carry_over(new, &stored.value, checked, warnings);
        target.resource.rules.track(&self.tracking, Some(&stored.value), new);
        self.update_owned(target, new, stored, warnings).await
    }

    /// The steps of [`ObjectChange::update`] after field ownership, which apply settles by itself.
    ///
    /// Validating admission sees the object as it will be stored, after `prepare` and validation, so a plugin need
    /// not repeat them.
    pub(crate) async fn update_owned(
        &self,
        target: &Target<'_>,
        new: &mut Value,
        stored: &Stored,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Status> {
        let Self { api, request, options, view, .. } = *self;
        let attributes = crate::api::Attributes {
            old_version: Some(stored.revision),
            ..request.attributes(api, Operation::Update, target.name, options, Some(&stored.value))
        };
        let sent = new.clone();
        blocking::pause().await;
        api.admission.admit(&attributes, new).await?;
        blocking::pause().await;
        settle(new, sent, target.namespace, Some(&stored.value), warnings)?;
        let rights = claims::errors_of_update(self, target, new, &stored.value).await?;
        let prepared = self.prepare(target, new, stored, rights).await;
        let ratcheted = target.resource.rules.ratcheted(view, new, &stored.value);
        if prepared.is_err() {
            request.record.warn_all(&ratcheted);
        }
        prepared?;
        warnings.extend(ratcheted);
        // A client that writes a subresource cannot change the fields that the warnings are about.
        if view == ObjectView::Whole {
            warnings.extend(target.resource.rules.warnings(new, Some(&stored.value)));
        }
        blocking::pause().await;
        api.admission.validate(&attributes, new).await?;
        Ok(verdict(new, stored))
    }

    /// [`prepare`] of an update. Like [`Self::allocate`], it is final for a Service only when the cache is as new as the store.
    async fn prepare(
        &self,
        target: &Target<'_>,
        new: &mut Value,
        stored: &Stored,
        rights: Vec<FieldError>,
    ) -> Result<(), Status> {
        let attempt =
            |new: &mut Value, rights| prepare(&self.reservation, target, self.view, new, stored, rights);
        if (&*target.resource.group, &*target.resource.kind) != ("", "Service") {
            return attempt(new, rights);
        }
        let sent = new.clone();
        if attempt(new, rights.clone()).is_ok() {
            return Ok(());
        }
        *new = sent;
        self.api.wait_for(None).await?;
        attempt(new, rights)
    }

    /// Mutating admission of a new object. Its name may still be to be generated.
    pub(crate) async fn admit_new(
        &self,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        warnings.extend(object.inner_or_new("metadata").and_then(meta::drop_duplicate_owners));
        let name = object.at("metadata").text("name").to_owned();
        let resource = &self.request.resource;
        if resource.custom.is_some() && !resource.allows("create") {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&resource.group, &resource.plural, &name, why));
        }
        let attributes = self.request.attributes(self.api, Operation::Create, &name, self.options, None);
        let sent = object.clone();
        blocking::pause().await;
        self.api.admission.admit(&attributes, object).await?;
        blocking::pause().await;
        settle(object, sent, self.request.namespace.as_deref(), None, warnings)
    }

    /// Identity, the strategy's `prepare`, allocation and validation of a new object. Returns warnings. A Service that
    /// comes into being by a write of its status gets no addresses, since in kube-apiserver the path of the status does
    /// not allocate.
    pub(crate) async fn prepare_new(
        &self,
        reservation: &Reservation<'_>,
        target: &Target<'_>,
        object: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let resource = target.resource;
        let mut warnings = Vec::new();
        if let Some(meta) = object.inner_or_new("metadata") {
            meta::stamp_new(meta, &uuid::Uuid::new_v4().to_string(), &now());
        }
        warnings.extend(resource.rules.warnings_as_sent(object));
        resource.rules.prepare_create(object);
        match (&*resource.group, &*resource.kind) {
            ("", "Service") if self.view == ObjectView::Whole => {
                self.allocate(reservation, target, object).await?
            }
            ("certificates.k8s.io", "CertificateSigningRequest") => {
                certificates::name_requester(&self.request.user, object);
            }
            _ => {}
        }
        let mut errors = claims::errors_of_new(self.api, resource, target.namespace, object).await?;
        errors.extend(resource.rules.validate_create(object));
        if !errors.is_empty() {
            return Err(target.invalid(&errors));
        }
        warnings.extend(resource.rules.warnings(object, None));
        if (&*resource.group, &*resource.kind) == ("batch", "Job") {
            listwatch_kinds::prepare::label_job(object);
        }
        Ok(warnings)
    }

    /// Allocates what a new Service needs. A value that seems taken may have been given back by a write that was acknowledged and
    /// that the cache has not seen, so a refusal is final only when the cache is as new as the store.
    async fn allocate(
        &self,
        reservation: &Reservation<'_>,
        target: &Target<'_>,
        object: &mut Value,
    ) -> Result<(), Status> {
        let sent = object.clone();
        if services::allocate(reservation, target, object).is_ok() {
            return Ok(());
        }
        *object = sent;
        self.api.wait_for(None).await?;
        services::allocate(reservation, target, object)
    }

    /// Validating admission of a new object that is ready to be stored.
    pub(crate) async fn validate_new(&self, object: &Value) -> Result<(), Status> {
        let name = object.at("metadata").text("name");
        let attributes = self.request.attributes(self.api, Operation::Create, name, self.options, None);
        blocking::pause().await;
        self.api.admission.validate(&attributes, object).await
    }

    /// An update or apply that creates needs the right to create, besides its own.
    ///
    /// The request was authorized as an update or patch before its target was known to be absent.
    async fn may_create(&self, target: &Target<'_>) -> Result<(), Status> {
        let create = AuthorizerAttributes {
            verb: "create",
            group: &target.resource.group,
            version: &target.resource.version,
            resource: &target.resource.plural,
            namespace: target.namespace.unwrap_or_default(),
            name: target.name,
            ..AuthorizerAttributes::default()
        };
        self.api.authorizer.require(&self.request.user, &create).await
    }
}

/// After admission: sets the namespace of the request, restores immutable metadata from the stored object, and removes
/// duplicate owner references.
///
/// # Errors
/// 400 if it is in another namespace now: the object would be stored under the wrong key.
fn settle(
    object: &mut Value,
    sent: Value,
    namespace: Option<&str>,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let is_untouched = object.is_same(&sent);
    let managed = sent.at("metadata").at("managedFields").clone();
    // Dropped here: while it shares containers with the object, each change of the object would copy them.
    drop(sent);
    if is_untouched {
        return Ok(());
    }
    place(object, namespace)?;
    let before = old.and_then(|old| old.at("metadata").as_object());
    if let (Some(meta), Some(before)) = (object.inner("metadata"), before) {
        meta::carry_over(meta, before);
    }
    if let Some(meta) = object.inner("metadata") {
        warnings.extend(reset_invalid_owners(meta, managed));
        warnings.extend(OwnersChecked::AfterAdmission.drop_repeated(meta));
    }
    Ok(())
}

/// Restores `managedFields` that a webhook has made unreadable, and returns the warning about it.
fn reset_invalid_owners(meta: &mut Map, before: Value) -> Option<String> {
    let now = meta.get("managedFields").filter(|now| **now != before)?;
    let why = managed_fields_error(now.as_array().map_or(&[], Vec::as_slice))?;
    match before.is_null() {
        true => drop(meta.remove("managedFields")),
        false => drop(meta.insert("managedFields", before)),
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
    ))
}

/// The strategy's `prepare`, allocation and validation of the successor of a stored object. `rights` are the errors of
/// fields that the user may not change, which precede those of validation.
pub(crate) fn prepare(
    reservation: &Reservation<'_>,
    target: &Target<'_>,
    view: ObjectView,
    new: &mut Value,
    stored: &Stored,
    rights: Vec<FieldError>,
) -> Result<(), Status> {
    let (rules, old) = (&target.resource.rules, &stored.value);
    rules.prepare_update(view, new, old);
    if view == ObjectView::Whole && (&*target.resource.group, &*target.resource.kind) == ("", "Service") {
        services::reallocate(reservation, target, new, old)?;
    }
    if view == ObjectView::Status
        && (&*target.resource.group, &*target.resource.kind) == ("", "PersistentVolume")
    {
        listwatch_kinds::prepare::note_phase(new, old, &now());
    }
    let mut errors = rights;
    errors.extend(rules.validate_update(view, new, old));
    target.valid(&errors)
}

/// Decides about a valid successor: keep, write, or remove if it is being deleted and nothing holds it.
///
/// Equal trees, apart from the times of managers, mean that nothing is written: no revision, no event. kube-apiserver
/// answers such an update without a write as well.
pub(crate) fn verdict(new: &mut Value, stored: &Stored) -> Verdict {
    if *new == stored.value || only_times_differ(new, &stored.value) {
        return Verdict::Keep;
    }
    let new = std::mem::take(new);
    if is_done(&new) { Verdict::Remove(new) } else { Verdict::Write(new) }
}

/// Fills in the metadata that an update leaves out or cannot change.
///
/// Runs before field ownership is recorded, so that fields which the server keeps do not change their owner.
pub(crate) fn carry_over(new: &mut Value, old: &Value, checked: OwnersChecked, warnings: &mut Vec<String>) {
    let (Some(meta), Some(before)) = (new.inner_or_new("metadata"), old.at("metadata").as_object()) else {
        return;
    };
    meta.remove("resourceVersion");
    meta::carry_over(meta, before);
    warnings.extend(checked.drop_repeated(meta));
}

/// The time at which kube-apiserver looks for repeated owners, which its warning names: those of a patch are not looked
/// at before admission.
#[derive(Clone, Copy)]
pub(crate) enum OwnersChecked {
    AsSent,
    AfterAdmission,
}

impl OwnersChecked {
    /// Drops repeated owners and returns the warning about them.
    fn drop_repeated(self, meta: &mut Map) -> Option<String> {
        let text = meta::drop_duplicate_owners(meta)?;
        let after = "contains duplicate entries after mutating admission happens;";
        Some(match self {
            Self::AsSent => text,
            Self::AfterAdmission => text.replacen("contains duplicate entries;", after, 1),
        })
    }
}

/// Returns true if an object that is being deleted has nothing left to wait for.
///
/// The one place that decides when a marked object is deleted, for writes of clients and of controllers alike.
pub(crate) fn is_done(object: &Value) -> bool {
    let meta = object.at("metadata");
    let is_held = || {
        meta.count("finalizers") > 0
            || (object.text("kind") == "Namespace"
                && object.text("apiVersion") == "v1"
                && object.at("spec").count("finalizers") > 0)
    };
    meta.has("deletionTimestamp") && !is_held() && meta.int("deletionGracePeriodSeconds").unwrap_or(0) == 0
}
