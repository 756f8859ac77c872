//! ResourceQuota: a write that would use more than a quota allows is rejected; one that fits is charged.
//!
//! The charge is a write of the quota's status that is committed in the same transaction as the object, under the condition
//! that the quota has not changed. Of clients and servers that race for the last unit, one succeeds and the others are
//! evaluated again. Usage goes down when the quota is recalculated (`lifecycle/quotas`).
//!
//! [`usage`] measures objects, [`scope`] decides which objects a quota is about.

mod scope;
pub(crate) mod usage;

use std::cell::OnceCell;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_storage::{Expect, Write};
use listwatch_wire::json::{self, Map, Value};
use listwatch_wire::{Revision, Status};

use self::usage::{QuotaUsage, Unspecified, missing};
use super::config_source::ConfigSource;
use super::pod_resources::{Amounts, amounts};
use super::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::cache::Filter;
use crate::registry::Resource;

pub(crate) use scope::{QuotaScopes, ScopedObject};

/// Group, version and plural of ResourceQuotas.
pub(crate) const QUOTAS: (&str, &str, &str) = ("", "v1", "resourcequotas");

/// Validating, at the end of the chain. It writes nothing itself: charges are handed to the request's record, and the
/// write verb commits them with the object.
///
/// kube-apiserver updates the quota in a separate write before the object, so a write that fails afterwards stays
/// charged until the next recalculation. Here both succeed or neither. A charge that finds the quota changed fails
/// the transaction, and the verb evaluates admission again.
#[derive(Debug)]
#[doc(alias = "quotaAdmission")]
pub(super) struct ResourceQuota(ConfigSource);

impl Default for ResourceQuota {
    fn default() -> Self {
        Self(ConfigSource::new(QUOTAS))
    }
}

#[async_trait]
impl Plugin for ResourceQuota {
    fn is_interested(&self, resource: &Resource) -> bool {
        let events = &*resource.plural == "events" && matches!(&*resource.group, "" | "events.k8s.io");
        resource.namespaced && !events
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        match operation {
            Operation::Create => subresource.is_empty(),
            Operation::Update => matches!(subresource, "" | "resize" | "status"),
            _ => false,
        }
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.is_empty(api)
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        if !may_change_usage(request, object) {
            return Ok(());
        }
        if request.is_dry_run() {
            // Nothing is committed that would show that the cache is behind.
            request.api.wait_for(None).await?;
            return charges(request, object).map(drop);
        }
        let charged = match charges(request, object) {
            Err(_) => {
                // The cache may be behind a quota that has room again.
                request.api.wait_for(None).await?;
                charges(request, object)?
            }
            Ok(charged) => charged,
        };
        charged.into_iter().for_each(|write| request.record.charge(write));
        Ok(())
    }
}

/// Returns the writes that charge the quotas of the namespace for an object.
fn charges(request: &Attributes<'_>, object: &Value) -> Result<Vec<Write>, Status> {
    let usage = QuotaUsage::of(request.resource);
    let now = MeasuredObject::new(&usage, request.resource, object);
    let before = request.old.map(|old| MeasuredObject::new(&usage, request.resource, old));
    let mut charged = Vec::new();
    for quota in Quota::list(request) {
        charged.extend(quota.charge(request, &now, before.as_ref())?);
    }
    Ok(charged)
}

/// An object with its cost, which is measured once for all quotas: both may be many and large.
struct MeasuredObject<'a> {
    usage: &'a QuotaUsage,
    object: &'a Value,
    scoped: ScopedObject<'a>,
    cost: OnceCell<Amounts>,
    unspecified: OnceCell<Unspecified<'a>>,
}

impl<'a> MeasuredObject<'a> {
    fn new(usage: &'a QuotaUsage, resource: &Resource, object: &'a Value) -> Self {
        let scoped = ScopedObject::new(resource, object);
        Self { usage, object, scoped, cost: OnceCell::new(), unspecified: OnceCell::new() }
    }

    fn cost(&self) -> &Amounts {
        self.cost.get_or_init(|| self.usage.measure(self.object))
    }

    /// The limited resources that containers do not name.
    fn missing(&self, restricted: &[&String]) -> Option<String> {
        missing(self.unspecified.get_or_init(|| self.usage.unspecified(self.object)), restricted)
    }
}

/// Updates of most kinds use no more than before.
/// Returning true for one that does not costs a measurement; returning false for one that does would let usage drift
/// until it is recalculated.
fn may_change_usage(request: &Attributes<'_>, object: &Value) -> bool {
    let Some(old) = request.old else { return true };
    let terminating = |pod: &Value| scope::is_terminating(pod.at("spec"));
    match (&*request.resource.group, &*request.resource.plural, request.subresource) {
        ("", "pods", "resize") => true,
        ("", "pods", "") => terminating(object) != terminating(old),
        ("", "services" | "persistentvolumeclaims", "") => true,
        ("", "persistentvolumeclaims", "status") => {
            object.at("status").at("allocatedResources") != old.at("status").at("allocatedResources")
        }
        _ => false,
    }
}

/// A quota as it is stored.
struct Quota {
    key: std::sync::Arc<str>,
    value: Value,
    /// The revision in the cache, which the commit expects.
    revision: Revision,
}

impl Quota {
    /// The quotas of the namespace as the cache has them. One that is behind shows at the commit, which expects this
    /// revision.
    fn list(request: &Attributes<'_>) -> Vec<Self> {
        let (group, version, plural) = QUOTAS;
        let Some(resource) = request.api.registry.find(group, version, plural) else { return Vec::new() };
        let snapshot = resource.collection.snapshot();
        let mut filter = Filter::default();
        filter.namespace = Some(request.namespace.into());
        let walk = resource.collection.walk(&filter, None);
        let quotas = snapshot.range(&walk).filter_map(|object| {
            let value = Value::read(object.stored()).ok()?;
            Some(Self { key: object.key().clone(), value, revision: object.revision() })
        });
        quotas.collect()
    }

    fn name(&self) -> &str {
        self.value.at("metadata").text("name")
    }

    /// Returns the write that charges the quota, if the object costs something.
    ///
    /// The hard limits are those of the status, which the quota controller has copied from the spec: a quota that was
    /// never calculated has none and limits nothing yet.
    ///
    /// # Errors
    ///
    /// 403 if a container names no amount of a limited resource, if the use is not known yet, or if the quota would
    /// be exceeded. An update of `status` never exceeds: what a volume has been given is a fact.
    fn charge(
        &self,
        request: &Attributes<'_>,
        now: &MeasuredObject<'_>,
        before: Option<&MeasuredObject<'_>>,
    ) -> Result<Option<Write>, Status> {
        let hard = amounts(self.value.at("status").at("hard"));
        let restricted: Vec<&String> = hard.keys().filter(|name| now.usage.counts(name)).collect();
        let scopes = QuotaScopes::of(self.value.at("spec"));
        if restricted.is_empty() || !scopes.include(&now.scoped) {
            return Ok(None);
        }
        let refuse = |why: String| Err(request.forbidden(now.object, &why));
        let used = amounts(self.value.at("status").at("used"));
        if let Some(why) = self.unusable(now, &restricted, &used) {
            return refuse(why);
        }
        let mut cost = limited(now.cost(), &hard);
        if let Some(before) = before.filter(|before| scopes.include(&before.scoped)) {
            subtract(&mut cost, before.cost());
        }
        cost.retain(|_, amount| !amount.is_zero());
        if cost.is_empty() {
            return Ok(None);
        }
        let after = sum(&used, &cost);
        match self.exceeded(&cost, &used, &hard, &after) {
            Some(why) if request.subresource != "status" => refuse(why),
            _ => Ok(Some(self.with_used(&after))),
        }
    }

    /// The refusal of an object whose cost cannot be compared with the quota.
    fn unusable(&self, now: &MeasuredObject<'_>, restricted: &[&String], used: &Amounts) -> Option<String> {
        if let Some(missing) = now.missing(restricted) {
            return Some(format!("failed quota: {}: must specify {missing}", self.name()));
        }
        if restricted.iter().any(|name| !used.contains_key(*name)) {
            let names = joined(restricted.iter().copied());
            return Some(format!("status unknown for quota: {}, resources: {names}", self.name()));
        }
        let negative =
            joined(now.cost().iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name));
        (!negative.is_empty()).then(|| format!("quota usage is negative for resource(s): {negative}"))
    }

    /// The refusal of a cost that exceeds a hard limit.
    fn exceeded(&self, cost: &Amounts, used: &Amounts, hard: &Amounts, after: &Amounts) -> Option<String> {
        let is_exceeded =
            |name: &&String| after.get(*name).zip(hard.get(*name)).is_some_and(|(after, hard)| after > hard);
        let exceeded: Vec<&String> = cost.keys().filter(is_exceeded).collect();
        if exceeded.is_empty() {
            return None;
        }
        let [requested, used, limited] = [cost, used, hard].map(|amounts| pretty(amounts, &exceeded));
        let name = self.name();
        Some(format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"))
    }

    /// The write of a new `status.used`, on the condition that the quota is still at the revision that was read.
    fn with_used(&self, used: &Amounts) -> Write {
        let mut value = self.value.clone();
        if let Some(status) = value.inner_or_new("status") {
            status.put("used", document(used));
        }
        let value = Some(json::encode_stored(&value).into());
        Write { key: self.key.clone(), value, expect: Expect::At(self.revision), origin: None }
    }
}

/// Writes amounts as a resource list.
pub(crate) fn document(amounts: &Amounts) -> Value {
    let mut list = Map::new();
    for (name, amount) in amounts {
        list.put(name, amount.to_string());
    }
    Value::Object(list)
}

/// The amounts of what a quota limits. Either list may be long, so the shorter one is walked.
pub(crate) fn limited(cost: &Amounts, hard: &Amounts) -> Amounts {
    let shorter = if hard.len() < cost.len() { hard } else { cost };
    let names = shorter.keys().filter(|name| hard.contains_key(*name));
    names.filter_map(|name| Some((name.clone(), *cost.get(name)?))).collect()
}

/// The usage after a request.
fn sum(used: &Amounts, cost: &Amounts) -> Amounts {
    let mut after = used.clone();
    super::pod_resources::add(&mut after, cost);
    after
}

/// The names, separated by commas.
fn joined<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(",")
}

/// The amounts by which the first exceeds the second. Never negative: usage goes down by recalculation only.
fn subtract(cost: &mut Amounts, before: &Amounts) {
    for (name, amount) in cost.iter_mut() {
        if let Some(before) = before.get(name) {
            let rest = amount.minus(*before);
            *amount = if rest.is_negative() { Default::default() } else { rest };
        }
    }
}

/// Only the resources that are exceeded, in kube-apiserver's format `cpu=2,memory=1Gi`.
fn pretty(list: &Amounts, names: &[&String]) -> String {
    let each = names.iter().map(|name| {
        let amount = list.get(*name).copied().unwrap_or_default();
        format!("{name}={amount}")
    });
    each.collect::<Vec<_>>().join(",")
}
