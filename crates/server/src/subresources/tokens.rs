//! TokenRequest: issues a token of a ServiceAccount (`serviceaccounts/token`).
//!
//! A token may be bound to a Pod, Secret or Node, which must exist and, for a Pod, run as this account; it ends with
//! that object. Lifetimes are bounded: ten minutes at least, as in kube-apiserver, and
//! `IdentityOptions::max_token_age` at most, with a warning if a request is shortened. The token is in the response
//! only and never stored. Signing and checking are [`crate::auth::ServiceAccounts`]; what kubelets may ask for is
//! limited by the NodeRestriction plugin.

use jiff::Timestamp;
use listwatch_kinds::tree::Tree;
use listwatch_kinds::{schema, typecheck};
use listwatch_merge::apply::{FieldSet, KindVersions};
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::{WriteKind, WriteOptions};
use listwatch_wire::status::FieldError;

use crate::api::Api;
use crate::api::stored::fresh;
use crate::auth::{Bound, ISSUER, Identity, Ticket};
use crate::pipeline::body::{self, Expected};
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::Target;
use crate::pipeline::{Answer, WriteRequest, seconds};
use crate::subresources;
use crate::subresources::pods::read_body;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const EXPECTED: Expected<'static> = Expected { group: GROUP, version: "v1", kind: KIND, builtin: true };

/// The default lifetime of a token, in seconds.
const DEFAULT_SECONDS: i64 = 3600;
/// Shorter, and clients would do little else than fetch tokens.
const MIN_SECONDS: i64 = 600;
/// The bound of kube-apiserver's validation. The configured maximum is lower and shortens instead of refusing.
const MAX_SECONDS: i64 = 1 << 32;

/// Issues a token for the account that the request names. A dry run checks everything and issues none.
///
/// # Errors
///
/// 404 for an account or a bound object that does not exist, 409 for one of another uid, 422 for a lifetime out of
/// bounds, 500 if the server cannot sign.
pub(crate) async fn issue(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&request.query);
    body::check_media_type(request.content_type.as_deref(), EXPECTED)?;
    options.check(WriteKind::Create)?;
    let mut asked = read_body(request, EXPECTED, options.validation())?;
    let name = request.name.as_deref().unwrap_or_default();
    if let Some(spec) = asked.inner_or_new("spec") {
        spec.fill("expirationSeconds", DEFAULT_SECONDS);
    }
    record_owner(request, &options, &mut asked);
    subresources::admit(api, request, name, &options, &mut asked).await?;
    check_name(&asked, name)?;
    fill(&mut asked, name);
    subresources::validate(api, request, name, &options, &asked).await?;
    let account = Target::new(&request.resource, request.namespace.as_deref(), name);
    let uid = uid_of(api, &account).await?;
    check_account(&asked, name, &uid)?;
    let mut spec = Spec::read(&asked)?;
    let namespace = request.namespace.clone().unwrap_or_default();
    check_namespace(&asked, name, &namespace)?;
    let bound = bound_object(api, &namespace, name, asked.at("spec").at("boundObjectRef")).await?;
    let warnings: Vec<String> = spec.shorten(api.options.identity.max_token_age).into_iter().collect();
    let now = Timestamp::now().as_second();
    let expires = now.saturating_add(spec.seconds);
    let mut status = json!({"token": "", "expirationTimestamp": time(expires)});
    if !options.is_dry_run() {
        let account = Identity { name: name.to_owned(), uid: uid.clone() };
        let audiences = spec.audiences.clone();
        let BoundObject { object: bound, node: runs_on } = bound;
        let ticket = Ticket { namespace, account, audiences, bound, runs_on, issued: now, expires };
        let issuer = api.authenticator.service_accounts().ok_or_else(Status::method_not_allowed)?;
        status.put("token", issuer.issue(ticket).map_err(Status::internal)?);
    }
    complete(&mut asked, name, uid, now);
    spec.write(&mut asked);
    asked.put("status", status);
    Ok(Answer::document(201, asked).with_warnings(warnings))
}

/// Records the owner of the fields, as of any object that is created.
fn record_owner(request: &WriteRequest, options: &WriteOptions, asked: &mut Value) {
    let Some(node) = schema::node(GROUP, EXPECTED.version, KIND) else { return };
    let mut zero = json!({"metadata": {}});
    typecheck::fill(node, &mut zero, None);
    let tracking =
        Tracking { api_version: EXPECTED.api_version().into_owned(), ..Tracking::new(request, options) };
    tracking.manager(node, &zero, &FieldSet::new(), KindVersions::any()).update(None, asked);
}

/// Fills in the fields that validating admission sees although the client did not set them.
fn fill(asked: &mut Value, name: &str) {
    if let Some(meta) = asked.inner_or_new("metadata") {
        meta.put("name", name);
        meta.fill("creationTimestamp", crate::pipeline::now());
    }
    if let Some(spec) = asked.inner_or_new("spec") {
        if spec.count("audiences") == 0 {
            spec.put("audiences", vec![ISSUER.to_owned()]);
        }
        let reference = spec.at("boundObjectRef").clone();
        spec.put("boundObjectRef", reference);
    }
    asked.put("status", json!({"token": "", "expirationTimestamp": null}));
}

/// Writes the metadata of the response, which is that of the account.
fn complete(asked: &mut Value, name: &str, uid: String, now: i64) {
    if let Some(meta) = asked.inner_or_new("metadata") {
        meta.put("name", name);
        meta.put("creationTimestamp", time(now));
        meta.put("uid", uid);
    }
}

fn time(second: i64) -> String {
    seconds(Timestamp::from_second(second).unwrap_or(Timestamp::MAX))
}

/// The name may be left out of the body; another one than that of the path is a mistake.
fn check_name(asked: &Value, name: &str) -> Result<(), Status> {
    let given = asked.at("metadata").text("name");
    if given.is_empty() || given == name {
        return Ok(());
    }
    let detail = "must match the service account name if specified";
    Err(Status::invalid(GROUP, KIND, name, &[FieldError::invalid("metadata.name", given, detail)]))
}

/// Refuses a namespace that is not that of the path.
fn check_namespace(asked: &Value, name: &str, namespace: &str) -> Result<(), Status> {
    let given = asked.at("metadata").text("namespace");
    if given.is_empty() || given == namespace {
        return Ok(());
    }
    let detail = "must match the service account namespace if specified";
    Err(Status::invalid(GROUP, KIND, name, &[FieldError::invalid("metadata.namespace", given, detail)]))
}

/// The uid in the body, if there is one, is that of the account.
fn check_account(asked: &Value, name: &str, uid: &str) -> Result<(), Status> {
    let given = asked.at("metadata").text("uid");
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let why = format!(
        "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
    );
    Err(Status::conflict(GROUP, KIND, name, &why))
}

/// The TokenRequest with its defaults filled in.
struct Spec {
    audiences: Vec<String>,
    seconds: i64,
}

impl Spec {
    /// Writes what was granted into the request, which is the response.
    fn write(self, request: &mut Value) {
        if let Some(spec) = request.inner_or_new("spec") {
            let reference = spec.at("boundObjectRef").clone();
            spec.put("audiences", self.audiences);
            spec.put("expirationSeconds", self.seconds);
            spec.put("boundObjectRef", reference);
        }
    }

    /// Bounds the lifetime of the token; returns a warning if it is shorter than requested.
    fn shorten(&mut self, bound: std::time::Duration) -> Option<String> {
        let (asked, bound) = (self.seconds, i64::try_from(bound.as_secs()).unwrap_or(i64::MAX));
        self.seconds = asked.min(bound);
        (asked > bound)
            .then(|| format!("requested expiration of {asked} seconds shortened to {bound} seconds"))
    }

    /// Reads audiences and lifetime, with defaults.
    ///
    /// # Errors
    /// 422 for a lifetime out of bounds.
    fn read(asked: &Value) -> Result<Self, Status> {
        let spec = asked.at("spec");
        let given = spec.list("audiences").iter().filter_map(Value::as_str);
        let mut audiences: Vec<String> = given.map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let seconds = spec.int("expirationSeconds").unwrap_or(DEFAULT_SECONDS);
        let wrong = match seconds {
            s if s < MIN_SECONDS => Some("may not specify a duration less than 10 minutes"),
            s if s > MAX_SECONDS => Some("may not specify a duration larger than 2^32 seconds"),
            _ => None,
        };
        match wrong {
            None => Ok(Self { audiences, seconds }),
            Some(detail) => {
                let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
                Err(Status::invalid(GROUP, KIND, "", &[error]))
            }
        }
    }
}

/// The object that a token is bound to, and the node that it runs on if it is a Pod. Both are absent for an unbound token.
#[derive(Default)]
struct BoundObject {
    object: Option<(Bound, Identity)>,
    node: Option<Identity>,
}

/// Finds the object that a token is to be bound to, which must exist.
///
/// # Errors
///
/// 400 for a kind that tokens cannot be bound to, 404 and 409 as for [`issue`], and a refusal if the Pod runs as
/// another account.
async fn bound_object(
    api: &Api,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<BoundObject, Status> {
    if reference.is_null() {
        return Ok(BoundObject::default());
    }
    let (bound, plural) = bound_kind(reference)?;
    let name = reference.text("name");
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let resource = api.registry.find("", "v1", plural).ok_or_else(Status::no_such_path)?;
    let target = Target::new(&resource, (bound != Bound::Node).then_some(namespace), name);
    let object = fresh(api, &target).await?.ok_or_else(|| target.not_found())?.value;
    if bound == Bound::Pod && object.at("spec").text("serviceAccountName") != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let uid = object.at("metadata").text("uid");
    check_uid(reference, uid)?;
    let node = match bound {
        Bound::Pod => node_of(api, object.at("spec").text("nodeName")),
        Bound::Secret | Bound::Node => None,
    };
    let identity = Identity { name: name.to_owned(), uid: uid.to_owned() };
    Ok(BoundObject { object: Some((bound, identity)), node })
}

/// The kind that a reference names, and its resource. Any version of the core group will do, as in kube-apiserver.
fn bound_kind(reference: &Value) -> Result<(Bound, &'static str), Status> {
    let (version, kind) = (reference.text("apiVersion"), reference.text("kind"));
    match kind {
        "Pod" if !version.contains('/') => Ok((Bound::Pod, "pods")),
        "Secret" if !version.contains('/') => Ok((Bound::Secret, "secrets")),
        "Node" if !version.contains('/') => Ok((Bound::Node, "nodes")),
        _ => {
            let group_version =
                if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            let message = format!("cannot bind token to object of type {group_version}, Kind={kind}");
            Err(Status::bad_request(message))
        }
    }
}

/// Checks that a reference with a uid is to the stored object.
fn check_uid(reference: &Value, stored: &str) -> Result<(), Status> {
    let uid = reference.text("uid");
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
    );
    // kube-apiserver names the kind in this error, and the resource in others.
    Err(Status::conflict("", reference.text("kind"), reference.text("name"), &why))
}

/// The node of that name, with its uid if it is known.
fn node_of(api: &Api, name: &str) -> Option<Identity> {
    let nodes = api.registry.find("", "v1", "nodes").filter(|_| !name.is_empty())?;
    let snapshot = nodes.collection.snapshot();
    let node = snapshot.get(&nodes.key(None, name));
    let uid = node.and_then(|node| node.field("metadata.uid")).unwrap_or_default().to_owned();
    Some(Identity { name: name.to_owned(), uid })
}

/// Reads the latest version: a token for an account that was deleted and made again must have the new uid.
async fn uid_of(api: &Api, target: &Target<'_>) -> Result<String, Status> {
    let stored = fresh(api, target).await?.ok_or_else(|| target.not_found())?;
    Ok(stored.value.at("metadata").text("uid").to_owned())
}
