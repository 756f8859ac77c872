//! [`PolicyBinding`]: where an admission policy holds and with which parameters.
//!
//! A policy has no effect without a binding. A binding may narrow the resources of its policy, never widen them, and
//! names parameters by name or by selector; with several, the policy is evaluated once for each. The cache is waited
//! for before parameters are read, so that one created just before counts. Errors here are configuration errors and
//! are subject to the policy's `failurePolicy`. The policy is [`super::definition`].

use listwatch_kinds::tree::Tree;
use listwatch_kinds::validate::selector_matches;
use listwatch_wire::json::Value;

use super::definition::ParamKind;
use crate::admission::Attributes;
use crate::admission::matching::Matcher;
use crate::api::convert;
use crate::registry::Resource;

/// A ValidatingAdmissionPolicyBinding or MutatingAdmissionPolicyBinding.
#[derive(Debug)]
pub(super) struct PolicyBinding {
    pub(super) name: String,
    /// `Deny`, `Warn`, `Audit`.
    ///
    /// Empty for bindings of mutating policies. Only validating ones have actions, of which `Deny` and `Warn` exclude
    /// each other (validation checks that).
    pub(super) actions: Vec<String>,
    matcher: Matcher,
    /// `spec.paramRef`; null if the policy takes no parameters.
    param_ref: Value,
}

impl PolicyBinding {
    /// Reads a stored binding. Its selectors are matched per request; parameters are looked up then, too.
    pub(super) fn read(binding: &Value) -> Self {
        let spec = binding.at("spec");
        Self {
            name: binding.at("metadata").text("name").to_owned(),
            actions: spec
                .list("validationActions")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            matcher: Matcher::of_policy(spec.at("matchResources")),
            param_ref: spec.at("paramRef").clone(),
        }
    }

    /// Returns true if the binding applies to a request that its policy already matches. Without resource rules it
    /// applies to all requests that its selectors match.
    pub(super) fn matches(&self, request: &Attributes<'_>, object: &Value) -> bool {
        if self.matcher.has_no_rules() {
            self.matcher.selects(request, object) && !self.matcher.excludes(request)
        } else {
            self.matcher.matches(request, object).is_some()
        }
    }

    /// Returns the parameters to evaluate a policy with, one after the other; null if it is evaluated without.
    ///
    /// If no parameter is found, `Allow` results in an empty list, so the policy is not evaluated at all. With a selector the
    /// cost is one evaluation per matching object, each with a budget of its own; kube-apiserver has no bound on
    /// their number either.
    ///
    /// # Errors
    /// The problem with the configuration.
    pub(super) async fn params(
        &self,
        request: &Attributes<'_>,
        kind: Option<&ParamKind>,
    ) -> Result<Vec<Value>, String> {
        let Some(kind) = kind.filter(|_| self.param_ref.is_object()) else { return Ok(vec![Value::Null]) };
        let resource = request
            .api
            .registry
            .find_kind(&kind.group, &kind.version, &kind.kind)
            .ok_or_else(|| format!("paramKind kind `{kind}` not known"))?;
        let namespace = self.namespace(request, &resource)?;
        // The cache is brought up to the store, so that the latest parameters are found.
        request.api.wait_for(None).await.map_err(|status| status.message)?;
        let name = self.param_ref.text("name");
        let plural = (&*resource.group, &*resource.version, &*resource.plural);
        let params: Vec<Value> = if name.is_empty() {
            let selector = self.param_ref.at("selector");
            let all = request.list(plural, namespace);
            all.into_iter()
                .filter(|param| selector_matches(selector, param.at("metadata").at("labels")))
                .collect()
        } else {
            request.find(plural, namespace, name).into_iter().collect()
        };
        let params = converted(request, &resource, params).await?;
        if params.is_empty() && self.param_ref.text("parameterNotFoundAction") == "Deny" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(params)
    }

    /// The namespace to look for parameters in: the one that the binding names, or that of the request.
    ///
    /// # Errors
    /// A namespaced parameter kind with a cluster-scoped request, or a namespace for a cluster-scoped kind.
    fn namespace<'a>(
        &'a self,
        request: &Attributes<'a>,
        resource: &Resource,
    ) -> Result<Option<&'a str>, String> {
        match (self.param_ref.text("namespace"), request.namespace, resource.namespaced) {
            ("", "", true) => {
                Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned())
            }
            ("", own, true) => Ok(Some(own)),
            (named, _, true) => Ok(Some(named)),
            ("", _, false) => Ok(None),
            (_, _, false) => {
                Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
            }
        }
    }
}

/// Parameters of a kind with a conversion webhook, in the version that the policy names.
/// Parameters without one are already in that version when they are read.
async fn converted(
    request: &Attributes<'_>,
    resource: &Resource,
    mut params: Vec<Value>,
) -> Result<Vec<Value>, String> {
    for param in params.iter_mut().filter(|_| resource.conversion.is_some()) {
        let done = convert::from_stored(request.api, resource, param).await;
        done.map_err(|status| status.message)?;
    }
    Ok(params)
}
