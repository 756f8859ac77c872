//! `binding` and `eviction` of Pods.
//!
//! A Binding sets `spec.nodeName` once and is refused for a Pod that has a node: two schedulers cannot both win. An
//! eviction first takes one disruption from the PodDisruptionBudget that covers the Pod, conditionally, so that
//! concurrent evictions cannot overspend it, then marks the Pod with the `DisruptionTarget` condition and deletes it.
//! A budget whose controller has not caught up answers 429 with a retry time; `kubectl drain` relies on that.
//!
//! Recalculating budgets is a controller's work, outside of this server. Deletion is `pipeline/delete.rs`.

use listwatch_kinds::prepare;
use listwatch_kinds::tree::Tree;
use listwatch_kinds::typecheck::{self, TypeReport};
use listwatch_kinds::validate::selector_matches;
use listwatch_kinds::{field, schema};
use listwatch_wire::Status;
use listwatch_wire::json::{Map, Value, json, raw};
use listwatch_wire::names::subdomain_errors;
use listwatch_wire::options::{DeleteOptions, FieldValidation, WriteKind, WriteOptions};
use listwatch_wire::status::StatusOutcome;

use crate::api::Api;
use crate::api::blocking::pause;
use crate::api::stored::{Stored, fresh};
use crate::pipeline::body;
use crate::pipeline::body::Expected;
use crate::pipeline::delete::{DeletionAdmission, check_preconditions, delete_target};
use crate::pipeline::managed::Tracking;
use crate::pipeline::target::{Target, place};
use crate::pipeline::transaction::{Done, Verdict, change};
use crate::pipeline::{Answer, WriteRequest, now};
use crate::registry::Resource;
use crate::subresources;

const BINDING: Expected<'static> = Expected { group: "", version: "v1", kind: "Binding", builtin: true };
const EVICTION: Expected<'static> =
    Expected { group: "policy", version: "v1", kind: "Eviction", builtin: true };
/// The older version, which is still accepted in bodies.
const OLD_EVICTION: Expected<'static> = Expected { version: "v1beta1", ..EVICTION };

/// A Status without details, which is what kube-apiserver answers to both.
fn success() -> Answer {
    let mut status = Status::default();
    status.status = StatusOutcome::Success;
    status.code = 201;
    Answer::status(201, status)
}

/// Decodes the body of a subresource that has its own kind, and puts it into the namespace of the path. Warnings about it are
/// returned even if the request fails.
///
/// # Errors
/// 400 for a body that is not of the kind, or names another namespace.
pub(crate) fn read_body(
    request: &WriteRequest,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let decode = |object: &mut Value| -> TypeReport {
        let version = if expected.version == OLD_EVICTION.version { "v1" } else { expected.version };
        let node = schema::node(expected.group, version, expected.kind);
        node.map(|node| typecheck::decode(node, object, None)).unwrap_or_default()
    };
    let body::Decoded { mut object, warnings } =
        body::decode(request.content_type.as_deref(), &request.body, expected, &decode, validation)?;
    request.record.warn_all(&warnings);
    place(&mut object, request.namespace.as_deref())?;
    Ok(object)
}

/// Binds a Pod to a node: POST to `pods/binding`, or of a Binding.
///
/// The Pod is read and written in one conditional change, so of two bindings at the same time one gets the 409. As in
/// kube-apiserver the change has no field manager, and the uid of a Binding counts only at `pods/binding`: a plain create
/// clears it.
///
/// # Errors
/// 409 if the Pod has a node or is being deleted, 404, 422.
pub(crate) async fn bind(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&request.query);
    body::check_media_type(request.content_type.as_deref(), BINDING)?;
    options.check(WriteKind::Create)?;
    let mut binding = read_body(request, BINDING, options.validation())?;
    let named = binding.at("metadata").text("name").to_owned();
    let name = request.name.as_deref().unwrap_or(&named);
    if named != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    subresources::admit(api, request, name, &options, &mut binding).await?;
    check_binding(&binding, name)?;
    subresources::validate(api, request, name, &options, &binding).await?;
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let uid = request.name.as_ref().map_or("", |_| binding.at("metadata").text("uid"));
    let pods = pods(api)?;
    let target = Target::new(&pods, request.namespace.as_deref(), name).by(&request.user.name);
    let node = binding.at("target").text("name");
    let time = now();
    change(api, &target, options.is_dry_run(), |stored: Option<&Stored>| {
        let stored = stored.ok_or_else(|| target.not_found())?;
        target.check_uid(uid, &stored.value)?;
        check_version(&target, binding.at("metadata").text("resourceVersion"), stored)?;
        let mut new = stored.value.clone();
        prepare::bind(&mut new, node, binding.at("metadata").at("annotations"), &time)
            .map_err(|why| Status::conflict("", "pods/binding", name, &why))?;
        copy_labels(&mut new, binding.at("metadata"));
        Ok(Verdict::Write(new))
    })
    .await?;
    Ok(success())
}

/// A Binding may name the version of the Pod that it is for.
///
/// # Errors
/// 409 if the Pod has another one.
fn check_version(target: &Target<'_>, wanted: &str, stored: &Stored) -> Result<(), Status> {
    let found = stored.revision.to_string();
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!(
        "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {found}"
    );
    Err(Status::conflict("", "pods", target.name, &why))
}

/// Labels of a Binding become those of the Pod: admission puts the topology of the node there.
fn copy_labels(pod: &mut Value, binding: &Value) {
    for (key, value) in binding.entries("labels") {
        let labels = pod.inner_or_new("metadata").and_then(|meta| meta.inner_or_new("labels"));
        labels.into_iter().for_each(|labels| labels.put(key, value.clone()));
    }
}

/// Checks the target of a Binding. The node need not exist.
///
/// # Errors
///
/// 422 for a target that is not a node or has no name.
fn check_binding(binding: &Value, name: &str) -> Result<(), Status> {
    let mut errors = field::Errors::new();
    let path = field::Path::root("target");
    let kind = binding.at("target").text("kind");
    if !kind.is_empty() {
        errors.one_of(&path.child("kind"), kind, &["Node", "<empty>"]);
    }
    let node = binding.at("target").text("name");
    match node {
        "" => errors.required(&path.child("name"), ""),
        node => errors.invalid_all(&path.child("name"), node, subdomain_errors(node)),
    }
    let errors = errors.into_vec();
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "Binding", name, &errors)) }
}

fn pods(api: &Api) -> Result<std::sync::Arc<Resource>, Status> {
    api.registry.find("", "v1", "pods").ok_or_else(Status::no_such_path)
}

/// Evicts a Pod: a deletion that its disruption budget must allow.
///
/// # Errors
/// 429 if the budget allows no disruption now, 500 if several budgets cover the Pod, and those of a deletion.
pub(crate) async fn evict(api: &Api, request: &WriteRequest) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&request.query);
    body::check_media_type(request.content_type.as_deref(), EVICTION)?;
    options.check(WriteKind::Create)?;
    let mut eviction = read_body(request, EVICTION, options.validation())
        .or_else(|status| read_body(request, OLD_EVICTION, options.validation()).map_err(|_| status))?;
    let name = request.name.as_deref().unwrap_or_default();
    if eviction.at("metadata").text("name") != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    subresources::admit(api, request, name, &options, &mut eviction).await?;
    subresources::validate(api, request, name, &options, &eviction).await?;
    let mut deleting: DeleteOptions = match eviction.at("deleteOptions") {
        Value::Null => DeleteOptions::default(),
        given => given.to_type().map_err(|error| Status::bad_request(error.to_string()))?,
    };
    let pods = pods(api)?;
    let target = Target::new(&pods, request.namespace.as_deref(), name).by(&request.user.name);
    let pod = fresh(api, &target).await?.ok_or_else(|| target.not_found())?.value;
    deleting.check()?;
    if options.is_dry_run() {
        deleting.dry_run.clone_from(&options.dry_run);
    }
    if needs_budget(&pod) {
        spend_budget(api, &target, &pod, deleting.is_dry_run()).await?;
    }
    if !deleting.is_dry_run() {
        mark_disrupted(api, &target, &mut deleting).await?;
    }
    delete_target(api, &target, &deleting, request.writer(), DeletionAdmission::Done).await?;
    Ok(success())
}

/// Sets the `DisruptionTarget` condition of a Pod. The deletion that follows is of the updated Pod.
///
/// A precondition on the resourceVersion is moved to the version that this write makes, or the deletion would
/// contradict it.
async fn mark_disrupted(api: &Api, target: &Target<'_>, options: &mut DeleteOptions) -> Result<(), Status> {
    let time = now();
    let done = change(api, target, false, |stored: Option<&Stored>| {
        let stored = stored.ok_or_else(|| target.not_found())?;
        check_preconditions(target, options, &stored.value, stored.revision)?;
        let mut new = stored.value.clone();
        prepare::set_condition(
            &mut new,
            &json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting"}),
            &time,
        );
        Ok(if new == stored.value { Verdict::Keep } else { Verdict::Write(new) })
    })
    .await?;
    if let (Some(conditions), Done::Stored { object, .. }) = (&mut options.preconditions, &done)
        && conditions.resource_version.is_some()
    {
        conditions.resource_version = Some(object.revision().to_string());
    }
    Ok(())
}

/// Returns false for Pods whose eviction disrupts nothing: ended, not yet running, or already being deleted.
fn needs_budget(pod: &Value) -> bool {
    !matches!(pod.at("status").text("phase"), "Succeeded" | "Failed" | "Pending")
        && !pod.at("metadata").has("deletionTimestamp")
}

/// Takes one disruption from the budget that covers the Pod.
///
/// The Pod is recorded in `disruptedPods` of the budget, by which its controller counts the disruption; a Pod that does
/// not count for the budget costs nothing. A dry run checks and does not write.
///
/// # Errors
///
/// 429 if nothing may be disrupted now or the budget's status is older than its spec, 500 if several budgets cover
/// the Pod.
async fn spend_budget(api: &Api, target: &Target<'_>, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let Some(budgets) = api.registry.find("policy", "v1", "poddisruptionbudgets") else { return Ok(()) };
    // The cache is brought up to the store, so that the latest budgets are seen.
    api.wait_for(None).await?;
    let names = matching_budgets(api, &budgets, target, pod).await?;
    let [name] = &names[..] else {
        if names.is_empty() {
            return Ok(());
        }
        return Err(Status::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    };
    let budget = Target::new(&budgets, target.namespace, name).by(target.user);
    let time = now();
    // kube-apiserver updates the budget's status as its own client.
    let tracking = Tracking {
        manager: "kube-apiserver".to_owned(),
        api_version: budgets.api_version(),
        subresource: "status",
        time: time.clone(),
    };
    change(api, &budget, dry_run, |stored: Option<&Stored>| {
        let stored = stored.ok_or_else(|| budget.not_found())?;
        let refused = |(message, retry_after)| {
            let text = "Cannot evict pod as it would violate the pod's disruption budget.";
            let message = format!("The disruption budget {name} {message}");
            Status::too_many_requests(text, retry_after).with_cause("DisruptionBudget", message, "")
        };
        let mut verdict = record_disruption(&stored.value, (target.name, pod), &time).map_err(refused)?;
        if let Verdict::Write(new) = &mut verdict {
            budgets.rules.track(&tracking, Some(&stored.value), new);
        }
        Ok(verdict)
    })
    .await?;
    Ok(())
}

/// Returns kube-apiserver's text for a budget that allows no disruption. After a failed sync its figures mean nothing.
fn why_exhausted(status: &Map) -> String {
    const REFUSED: &str = "does not allow evicting pods currently";
    let figure = |name| status.int(name).unwrap_or(0);
    let (wanted, healthy) = (figure("desiredHealthy"), figure("currentHealthy"));
    let condition = status.list("conditions").iter().find(|one| one.text("type") == "DisruptionAllowed");
    let refusal = condition.filter(|one| one.text("status") == "False" && !one.text("message").is_empty());
    let (reason, message) = refusal.map_or(("", ""), |one| (one.text("reason"), one.text("message")));
    if reason == "SyncFailed" {
        format!("{REFUSED} because it failed sync: {message}")
    } else if healthy <= wanted {
        format!("needs {wanted} healthy pods and has {healthy} currently")
    } else if refusal.is_some() {
        format!("{REFUSED} ({reason}): {message}")
    } else {
        REFUSED.to_owned()
    }
}

/// Returns the budget with one disruption less, or leaves it as it is if the Pod does not count for it.
///
/// # Errors
///
/// The reason with kube-apiserver's text, and the seconds after which to try again.
fn record_disruption(
    budget: &Value,
    (pod_name, pod): (&str, &Value),
    time: &str,
) -> Result<Verdict, (String, u32)> {
    let mut new = budget.clone();
    let Some(status) = new.inner_or_new("status") else { return Err(("cannot be read".to_owned(), 0)) };
    if can_evict_unhealthy(pod, budget.at("spec"), status) {
        return Ok(Verdict::Keep);
    }
    let figure = |status: &Map, name| status.int(name).unwrap_or(0);
    if figure(status, "observedGeneration") < budget.at("metadata").int("generation").unwrap_or(0) {
        return Err(("is still being processed by the server.".to_owned(), 10));
    }
    let allowed = figure(status, "disruptionsAllowed");
    if allowed <= 0 {
        return Err((why_exhausted(status), 0));
    }
    status.put("disruptionsAllowed", allowed - 1);
    if let Some(disrupted) = status.inner_or_new("disruptedPods") {
        disrupted.put(pod_name, time);
    }
    if allowed == 1 {
        set_disruption_not_allowed(status, time);
    }
    Ok(Verdict::Write(new))
}

/// Sets the condition of a budget whose last disruption has been spent.
fn set_disruption_not_allowed(status: &mut Map, time: &str) {
    const TYPE: &str = "DisruptionAllowed";
    let mut conditions = status.list("conditions").to_vec();
    let known = conditions.iter().position(|condition| condition.text("type") == TYPE);
    let since = known.and_then(|index| conditions.get(index)).filter(|known| known.text("status") == "False");
    let since = since.map_or(time, |known| known.text("lastTransitionTime"));
    let new = json!({"type": TYPE, "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": status.int("observedGeneration").unwrap_or(0), "lastTransitionTime": since});
    match known.and_then(|index| conditions.get_mut(index)) {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
    status.put("conditions", conditions);
}

/// A Pod that is not ready may be evicted if the budget says so, or if enough others are ready.
fn can_evict_unhealthy(pod: &Value, spec: &Value, status: &Map) -> bool {
    let mut conditions = pod.at("status").list("conditions").iter();
    if conditions.any(|condition| condition.text("type") == "Ready" && condition.text("status") == "True") {
        return false;
    }
    let (wanted, healthy) =
        (status.int("desiredHealthy").unwrap_or(0), status.int("currentHealthy").unwrap_or(0));
    spec.text("unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= wanted && wanted > 0)
}

/// Bytes of budgets that are read before others have their turn.
const BUDGET_BYTES_AT_ONCE: usize = 256 << 10;

/// The budgets of a namespace that cover a Pod. A budget without a selector covers nothing, one with an empty selector every Pod.
///
/// Reads all budgets of the namespace, which may be a hundred megabytes for one eviction: beside the workers, if they are large.
async fn matching_budgets(
    api: &Api,
    budgets: &Resource,
    target: &Target<'_>,
    pod: &Value,
) -> Result<Vec<String>, Status> {
    let snapshot = budgets.collection.snapshot();
    let mut filter = crate::cache::Filter::default();
    filter.namespace = Some(target.namespace.unwrap_or_default().into());
    let walk = budgets.collection.walk(&filter, None);
    let bytes: usize = snapshot.range(&walk).map(|budget| budget.stored().len()).sum();
    let labels = pod.at("metadata").at("labels").clone();
    let work = async move {
        let (mut names, mut read) = (Vec::new(), 0);
        for budget in snapshot.range(&walk) {
            if covers(budget.stored(), &labels)? {
                names.push(budget.name().to_owned());
            }
            read += budget.stored().len();
            if read >= BUDGET_BYTES_AT_ONCE {
                read = 0;
                pause().await;
            }
        }
        Ok(names)
    };
    let pool = api.blocking_for(target.user);
    if pool.takes(bytes) { pool.run(work).await } else { work.await }
}

/// Returns true if a stored budget selects a Pod with these labels. Only the selector is parsed.
fn covers(budget: &[u8], labels: &Value) -> Result<bool, Status> {
    let Some(selector) = raw::lookup(budget, &["spec", "selector"]) else { return Ok(false) };
    let selector = Value::read(selector).map_err(Status::internal)?;
    Ok(!selector.is_null() && selector_matches(&selector, labels))
}
