//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules written in CEL that reject or change requests.
//!
//! [`definition`] is a policy with its compiled expressions, [`binding`] says where it holds and with which parameters.
//! Both are read once per change. [`scope`] holds the variables of one evaluation, [`patch`] applies what mutations return.
//! Expressions are compiled and validated in `registry/expressions`.

mod binding;
mod definition;
mod mutating;
mod patch;
mod scope;
mod validating;

use std::sync::Arc;

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use parking_lot::Mutex;

pub(super) use mutating::MutatingPolicies;
pub(super) use scope::{Access, PolicyObjects, PolicyScope};
pub(super) use validating::{ValidatingPolicies, matches_conditions};

use self::binding::PolicyBinding;
use self::definition::{ParamKind, PolicyDefinition};
use crate::admission::Attributes;
use crate::admission::config_source::ConfigSource;
use crate::api::Api;
use crate::cache::{CollectionSnapshot, Filter};
use crate::registry::expressions::PolicyFamily;

const GROUP: &str = "admissionregistration.k8s.io";

/// A policy and its bindings. Bindings of a policy that does not exist are dropped when policies are read.
#[derive(Debug)]
struct BoundPolicy {
    definition: PolicyDefinition,
    bindings: Vec<PolicyBinding>,
}

impl BoundPolicy {
    /// The reason that the policy cannot be evaluated with any of its bindings, if there is one.
    fn misconfigured(&self, request: &Attributes<'_>) -> Option<String> {
        let ParamKind { group, version, kind } =
            self.definition.param_kind.as_ref().filter(|_| !self.bindings.is_empty())?;
        let found = request.api.registry.find_kind(group, version, kind);
        found.is_none().then(|| {
            let slash = if group.is_empty() { "" } else { "/" };
            let kind = format!("{group}{slash}{version}, Kind={kind}");
            format!("failed to configure policy: failed to find resource referenced by paramKind: '{kind}'")
        })
    }
}

/// The policies of one family.
#[derive(Debug)]
struct Policies {
    family: PolicyFamily,
    policies: ConfigSource,
    bindings: ConfigSource,
    /// `None` before the first request.
    read: Mutex<Option<ReadPolicies>>,
}

/// Policies with the collections they were read from.
#[derive(Debug)]
struct ReadPolicies {
    policies: Arc<CollectionSnapshot>,
    bindings: Arc<CollectionSnapshot>,
    all: Arc<[BoundPolicy]>,
}

impl Policies {
    fn new(family: PolicyFamily) -> Self {
        let source = |plural| ConfigSource::new((GROUP, "v1", plural));
        let (policies, bindings) = (source(family.policies()), source(family.bindings()));
        Self { family, policies, bindings, read: Mutex::default() }
    }

    /// Returns true if there is nothing to evaluate: a policy without a binding has no effect.
    fn is_idle(&self, api: &Api) -> bool {
        self.bindings.is_empty(api)
    }

    /// Returns the policies, read again if one of them or of their bindings has changed.
    ///
    /// The test is by identity of two snapshots. A change costs a compilation of all policies of the family, under
    /// the lock and by the first request after it; requests that come meanwhile wait for it.
    fn current(&self, api: &Api) -> Arc<[BoundPolicy]> {
        let (Some(policies), Some(bindings)) = (self.policies.resource(api), self.bindings.resource(api))
        else {
            return Arc::new([]);
        };
        let (policies, bindings) = (&policies.collection, &bindings.collection);
        let (of_policies, of_bindings) = (policies.snapshot(), bindings.snapshot());
        let mut read = self.read.lock();
        if let Some(known) = &*read
            && Arc::ptr_eq(&known.policies, &of_policies)
            && Arc::ptr_eq(&known.bindings, &of_bindings)
        {
            return Arc::clone(&known.all);
        }
        let values = |snapshot: &CollectionSnapshot, walk| -> Vec<Value> {
            snapshot.range(&walk).filter_map(|object| Value::read(object.stored()).ok()).collect()
        };
        let mut all_bindings = values(&of_bindings, bindings.walk(&Filter::default(), None));
        let all: Arc<[BoundPolicy]> = values(&of_policies, policies.walk(&Filter::default(), None))
            .iter()
            .map(|policy| {
                let name = policy.at("metadata").text("name");
                let own = |binding: &mut Value| binding.at("spec").text("policyName") == name;
                let bindings =
                    all_bindings.extract_if(.., own).map(|value| PolicyBinding::read(&value)).collect();
                BoundPolicy { definition: PolicyDefinition::read(self.family, policy), bindings }
            })
            .collect();
        *read = Some(ReadPolicies { policies: of_policies, bindings: of_bindings, all: Arc::clone(&all) });
        all
    }
}
