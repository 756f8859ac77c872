//! PATCH: JSON patch, merge patch, strategic merge patch and server-side apply.
//!
//! The first three are applied to the stored object and the result takes the steps of a PUT; apply merges by field
//! ownership, and creates the object if it does not exist. The body is parsed once, but applied again to each newer
//! version of the object if another writer was faster. A patch without `resourceVersion` therefore never fails with a
//! conflict. That an object does not exist is reported before errors in the patch, as in kube-apiserver.
//!
//! Parsing is `pipeline/patch.rs`, the merges are `listwatch_merge`.

use listwatch_kinds::tree::Tree;
use listwatch_merge::patch::merge_patch;
use listwatch_storage::Write;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{FieldValidation, PatchType, WriteKind, WriteOptions};
use listwatch_wire::status::{FieldError, StatusDetails};

use crate::allocate::reservation::Reservation;
use crate::api::stored::{Stored, fresh};
use crate::api::{Api, RequestOptions};
use crate::pipeline::change::{ObjectChange, OwnersChecked, carry_over};
use crate::pipeline::managed::Tracking;
use crate::pipeline::patch::{ParsedPatch, Patch, as_converted, check_patched, parse, refused};
use crate::pipeline::target::{Target, expected, place};
use crate::pipeline::transaction::{self, Decide, Verdict, with_version};
use crate::pipeline::{Answer, WriteRequest, body, yaml};
use crate::registry::view::ObjectView;
use crate::registry::{Resource, custom};
use crate::subresources;
use crate::subresources::scale;
use crate::verbs::update::{check_version, creates};

/// Applies a patch of any of the four types.
///
/// # Errors
/// The Status of the response: 400, 404, 409 for conflicts of apply or versions, 415 for an unknown patch type, 422
/// or 5xx.
pub(crate) async fn patch(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let (kind, options) = read_options(&request)?;
    if request.subresource.as_deref() == Some("scale") {
        return Box::pin(scale::patch(api, &request, kind, &options)).await;
    }
    let view =
        ObjectView::of(request.subresource.as_deref()).ok_or_else(|| subresources::unsupported(&request))?;
    let target = request.target();
    let parsed = match parse(kind, &request) {
        Ok(parsed) => parsed,
        Err(status) => return Err(refusal(api, &target, (kind, &*request.body), status).await?),
    };
    let change = ObjectChange {
        api,
        request: &request,
        options: RequestOptions::Patch(&options),
        tracking: Tracking::new(&request, &options),
        view,
        reservation: Reservation::new(&api.allocator),
    };
    let mut work = PatchWork { change, target: &target, options: &options, parsed, told: Vec::new() };
    match transaction::change(api, &target, options.is_dry_run(), &mut work).await {
        Ok(done) => Ok(done.answer().with_warnings(work.told)),
        Err(status) => {
            // Warnings about the patch are returned although the write failed for another reason.
            work.told.into_iter().for_each(|warning| request.record.warn(warning));
            Err(status)
        }
    }
}

impl Decide for &mut PatchWork<'_> {
    fn charges(&mut self) -> Vec<Write> {
        self.change.request.record.take_charges()
    }

    async fn decide(&mut self, stored: Option<&Stored>) -> Result<Verdict, Status> {
        let mut told = Vec::new();
        let verdict = match (&self.parsed.patch, stored) {
            (Patch::Apply(applied), Some(stored)) => {
                self.strictly(self.apply(applied, stored, &mut told).await, &mut told)
            }
            (Patch::Apply(applied), None)
                if self.change.view == ObjectView::Whole || creates(self.change.view, self.target) =>
            {
                self.strictly(self.apply_new(applied, &mut told).await, &mut told)
            }
            (_, None) => Err(self.target.not_found()),
            (_, Some(stored)) => self.patched(stored, &mut told).await,
        };
        self.told = told;
        verdict
    }
}

/// Returns the error of a patch that could not be parsed: 404 if the object does not exist, which is reported before
/// everything but a body that is no JSON.
async fn refusal(
    api: &Api,
    target: &Target<'_>,
    (kind, body): (PatchType, &[u8]),
    status: Status,
) -> Result<Status, Status> {
    let early = kind == PatchType::Apply || listwatch_wire::json::parse(body).is_err();
    let missing = !early && fresh(api, target).await?.is_none();
    Ok(if missing { target.not_found() } else { status })
}

/// The media types of patches of built-in kinds, in the order of kube-apiserver's error.
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The type of a patch and its options. Unlike other media types, those of patches are compared by case, too.
fn read_options(request: &WriteRequest) -> Result<(PatchType, WriteOptions), Status> {
    let content_type = request.content_type.as_deref().unwrap_or_default();
    let kind = media_types(content_type, ';')
        .next()
        .and_then(PatchType::from_media_type)
        .filter(|kind| *kind != PatchType::Strategic || !request.resource.is_custom());
    let Some(kind) = kind else { return Err(unsupported(&request.resource, content_type)) };
    let options = WriteOptions::parse(&request.query);
    options.check(WriteKind::Patch(kind))?;
    Ok((kind, options))
}

/// The parts of a Content-Type, without the space around them.
fn media_types(content_type: &str, separator: char) -> impl Iterator<Item = &str> {
    content_type.split(separator).map(str::trim)
}

/// The 415 of a patch. The handlers name the types they accept; those of built-in kinds are behind a route, which takes
/// one of several types and refuses others without a word.
fn unsupported(resource: &Resource, content_type: &str) -> Status {
    if resource.is_custom() {
        return Status::unsupported_media_type(custom::PATCH_TYPES);
    }
    let routed = |one: &str| media_types(one, ';').next().is_some_and(|ty| PATCH_TYPES.contains(&ty));
    if media_types(content_type, ',').any(routed) {
        return Status::unsupported_media_type(&PATCH_TYPES);
    }
    let mut status = Status::unsupported_media_type(&[]).with_details(StatusDetails::default());
    status.message = "415: Unsupported Media Type".to_owned();
    status
}

/// The part of a patch that is the same for every attempt.
struct PatchWork<'a> {
    change: ObjectChange<'a>,
    target: &'a Target<'a>,
    options: &'a WriteOptions,
    parsed: ParsedPatch,
    /// Warnings of the last attempt.
    told: Vec<String>,
}

impl PatchWork<'_> {
    /// A JSON, merge or strategic patch of an object.
    ///
    /// Costs a copy of the stored tree, of which unchanged parts are shared.
    async fn patched(&self, stored: &Stored, told: &mut Vec<String>) -> Result<Verdict, Status> {
        let (parsed, target) = (&self.parsed, self.target);
        let rules = &target.resource.rules;
        let mut new = stored.value.clone();
        with_version(&mut new, stored.revision);
        match &parsed.patch {
            Patch::Json(patch) => patch.apply(&mut new)?,
            Patch::Merge(patch) => merge_patch(&mut new, patch.clone()),
            Patch::Strategic(patch) => rules.strategic(&mut new, patch)?,
            Patch::Apply(_) => {}
        }
        if ["kind", "apiVersion"].iter().any(|key| new.has(key) && new.at(key).as_str().is_none()) {
            let why = "json: cannot unmarshal the type of the object into Go value of type string";
            return Err(refused(why.to_owned()));
        }
        match parsed.patch {
            // The result is of the stored object's kind, even if the patch sets another `kind` or `apiVersion`.
            Patch::Strategic(_) => self.name_type(&mut new),
            _ => self.check_type(&mut new, told)?,
        }
        told.extend(check_patched(
            &mut new,
            &parsed.strict_decoding_errors,
            self.options.validation(),
            |object| {
                let mut report = rules.decode(object, Some(&stored.value));
                if let Patch::Strategic(_) = parsed.patch {
                    report.error = report.error.map(|why| as_converted(&why));
                }
                report
            },
        )?);
        target.check_identity(&mut new)?;
        check_version(target, new.at("metadata").text("resourceVersion"), stored)?;
        rules.complete(&mut new, Some(&stored.value));
        self.change.update(target, &mut new, stored, told).await
    }

    /// A merge patch may leave out kind and version; a patched object has those of the path.
    fn name_type(&self, new: &mut Value) {
        let wanted = expected(self.target.resource);
        new.put("kind", wanted.kind);
        new.put("apiVersion", wanted.api_version().into_owned());
    }

    /// Checks the type in a patched object. A built-in kind may leave it out; of a custom kind the path of
    /// the status takes only the status.
    ///
    /// # Errors
    ///
    /// The refusal of a patch that makes another kind of the object.
    fn check_type(&self, new: &mut Value, told: &mut Vec<String>) -> Result<(), Status> {
        let (custom, wanted) = (self.target.resource.is_custom(), expected(self.target.resource));
        let (kind, version) = (new.text("kind"), new.text("apiVersion"));
        if version == wanted.api_version() && (kind == wanted.kind || (kind.is_empty() && !custom)) {
            self.name_type(new);
            return Ok(());
        }
        if !custom && version.is_empty() {
            told.extend(self.internal_fields(new)?);
            return Err(undeterminable(self.target.name));
        }
        if !custom || kind.is_empty() || version.is_empty() {
            let found = format!("{version} {kind}");
            let why = format!("a patch cannot make a {found} of a {} {}", wanted.api_version(), wanted.kind);
            return Err(refused(why));
        }
        if self.change.view != ObjectView::Whole {
            self.name_type(new);
            return Ok(());
        }
        // Errors in its name come first.
        self.target.check_identity(&mut new.clone())?;
        let error = if kind == wanted.kind {
            FieldError::invalid("apiVersion", version, format!("must be {}", wanted.api_version()))
        } else {
            FieldError::invalid("kind", kind, format!("must be {}", wanted.kind))
        };
        let group = version.split_once('/').map_or("", |(group, _)| group);
        Err(Status::invalid(group, kind, self.target.name, &[error]))
    }

    /// Returns warnings about all fields of an object without a version: kube-apiserver reads it as its internal type,
    /// whose fields have other names.
    ///
    /// # Errors
    ///
    /// 422 for strict validation.
    fn internal_fields(&self, new: &Value) -> Result<Vec<String>, Status> {
        let fields = new.as_object().into_iter().flatten();
        let unknown: Vec<String> = fields
            .map(|(key, _)| key.to_string())
            .filter(|key| key != "kind" && key != "apiVersion")
            .collect();
        let errors =
            body::strict_decoding_errors(self.parsed.strict_decoding_errors.iter().cloned(), &unknown);
        body::apply_field_validation(errors, self.options.validation()).map_err(refused)
    }

    /// Strict field validation of an applied configuration comes after it was merged.
    ///
    /// kube-apiserver decodes strictly after merging, so a conflict is reported before a duplicate key.
    fn strictly(&self, applied: Result<Verdict, Status>, told: &mut Vec<String>) -> Result<Verdict, Status> {
        let (verdict, parsed) = (applied?, &self.parsed);
        match self.options.validation() {
            FieldValidation::Strict if !parsed.strict_decoding_errors.is_empty() => {
                let why = yaml::unmarshal_errors(&parsed.strict_decoding_errors);
                Err(Status::bad_request(format!(
                    "error strict decoding patch: error converting YAML to JSON: {why}"
                )))
            }
            FieldValidation::Ignore => Ok(verdict),
            _ => {
                told.splice(0..0, parsed.strict_decoding_errors.iter().cloned());
                Ok(verdict)
            }
        }
    }

    /// Apply to an object that exists.
    ///
    /// # Errors
    ///
    /// 409 for conflicts with other managers unless forced, and for another `resourceVersion`.
    async fn apply(&self, sent: &Value, stored: &Stored, told: &mut Vec<String>) -> Result<Verdict, Status> {
        let target = self.target;
        let rules = &target.resource.rules;
        self.check_identity_types(sent)?;
        let force = self.options.force.unwrap_or(false);
        // Conflicts come before a name or namespace that is not the path's, and these before another version.
        let mut new = rules.apply(&self.change.tracking, Some(&stored.value), sent, force)?.object;
        self.identify(&mut new)?;
        refuse_wrong_types(rules.decode(&mut new, Some(&stored.value)).error)?;
        // An empty version is one that an update of a custom object must not have.
        match sent.at("metadata").at("resourceVersion").as_str() {
            Some(version) => check_version(target, version, stored)?,
            None => target.check_version("", stored.revision)?,
        }
        rules.complete_applied(&mut new, Some(&stored.value));
        carry_over(&mut new, &stored.value, OwnersChecked::AfterAdmission, told);
        self.change.update_owned(target, &mut new, stored, told).await
    }

    /// Apply of an object that does not exist.
    ///
    /// A uid in the configuration means that a certain object was meant, so nothing is created.
    async fn apply_new(&self, sent: &Value, told: &mut Vec<String>) -> Result<Verdict, Status> {
        let target = self.target;
        let rules = &target.resource.rules;
        let mut applied = sent.clone();
        self.check_identity_types(&applied)?;
        let uid = applied.at("metadata").text("uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(target.conflict(&why));
        }
        // A new object must have its name, though the path has it, too.
        target.check_identity(&mut applied)?;
        let merged = rules.apply(&self.change.tracking, None, &applied, true);
        let mut new = merged.map_err(|status| as_sent(status, sent, target.namespace))?.object;
        refuse_wrong_types(rules.decode(&mut new, None).error)?;
        self.identify(&mut new)?;
        rules.complete_applied(&mut new, None);
        if let Some(meta) = new.inner("metadata").filter(|_| sent.at("metadata").has("resourceVersion")) {
            meta.put("resourceVersion", sent.at("metadata").at("resourceVersion").clone());
        }
        self.change.create(target, new, told).await
    }

    /// Checks that what identifies the object is text. The rest of the metadata is checked with the schema, when these are
    /// filled in.
    fn check_identity_types(&self, applied: &Value) -> Result<(), Status> {
        let meta = applied.at("metadata");
        let mut keys = ["name", "namespace", "resourceVersion", "uid"].into_iter();
        let Some(key) = keys.find(|key| meta.has(key) && meta.at(key).as_str().is_none()) else {
            return Ok(());
        };
        let wanted = expected(self.target.resource);
        Err(Status::bad_request(format!(
            "failed to create typed patch object (/; {}, Kind={}): .metadata.{key}: expected string",
            wanted.api_version(),
            wanted.kind
        )))
    }

    /// An applied configuration may leave out the name, which is in the path.
    fn identify(&self, object: &mut Value) -> Result<(), Status> {
        if object.at("metadata").text("name").is_empty()
            && let Some(meta) = object.inner_or_new("metadata")
        {
            meta.put("name", self.target.name);
        }
        place(object, self.target.namespace)?;
        self.target.check_identity(object)?;
        if let Some(meta) = object.inner("metadata") {
            meta.remove("resourceVersion");
        }
        Ok(())
    }
}

/// kube-apiserver fills in the namespace after the configuration was merged: errors about one without it do not name it.
fn as_sent(mut status: Status, sent: &Value, namespace: Option<&str>) -> Status {
    /// The beginning of the errors of an apply configuration that does not fit its schema, as in kube-apiserver.
    const PREFIX: &str = "failed to create typed patch object (";
    if let Some(namespace) = namespace
        && sent.at("metadata").text("namespace").is_empty()
        && let Some(rest) = status.message.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(namespace))
    {
        status.message = format!("{PREFIX}{rest}");
    }
    status
}

/// kube-apiserver does not recognize an object that a patch has taken the version from, and finds no name in it.
fn undeterminable(name: &str) -> Status {
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

fn refuse_wrong_types(error: Option<String>) -> Result<(), Status> {
    error.map_or(Ok(()), |error| Err(Status::bad_request(error)))
}
