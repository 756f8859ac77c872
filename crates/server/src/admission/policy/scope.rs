//! [`PolicyScope`]: the variables that the expressions of one policy see for one request.
//!
//! `object`, `oldObject`, `request`, `params`, `namespaceObject` and `authorizer` are borrowed, not copied.
//! `variables.*` are evaluated when first read, once, and may refer to each other; their cost counts for the
//! expression that reads them. All expressions of a policy share one CEL cost budget, as in kube-apiserver, so that a
//! policy cannot slow the server without bound. Of the namespace only what kube-apiserver exposes is visible.
//!
//! Types of these variables are declared in [`crate::registry::expressions`]; the language is `listwatch_cel`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use listwatch_cel::{
    AccessDecision, AccessRequest, Activation, Budget, EvalError, ExpressionAuthorizer, HostObject, Meter,
    Value,
};
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value as Json, json};

use crate::admission::Attributes;
use crate::admission::matching::MatchForm;
use crate::admission::request_document::request_document;
use crate::auth::{self, User};
use crate::registry::expressions::CompiledExpression;

/// The message of a policy whose expressions are too expensive together.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The objects that expressions see, in the version that the policy matched. Those that few expressions read are made when one
/// does: making them costs more than most expressions.
pub(crate) struct PolicyObjects<'r> {
    attributes: &'r Attributes<'r>,
    form: &'r MatchForm,
    pub(crate) object: Json,
    pub(crate) old: Json,
    /// Set by the caller for each parameter, while the objects stay.
    pub(crate) params: Json,
    /// The variable `request`, made by the first expression that reads it.
    request: OnceLock<Json>,
    /// The variable `namespaceObject`, as above. It is a copy of what expressions may see.
    namespace: OnceLock<Json>,
}

impl fmt::Debug for PolicyObjects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyObjects").field("name", &self.attributes.name).finish_non_exhaustive()
    }
}

impl<'r> PolicyObjects<'r> {
    /// The objects of a request in the form of a policy.
    pub(crate) fn new(attributes: &'r Attributes<'r>, form: &'r MatchForm, object: Json, old: Json) -> Self {
        let (request, namespace) = (OnceLock::new(), OnceLock::new());
        Self { attributes, form, object, old, params: Json::Null, request, namespace }
    }

    /// The variable `request`.
    fn request(&self) -> &Json {
        self.request.get_or_init(|| request_document(self.attributes, self.form))
    }

    /// The variable `namespaceObject`; null for objects without a namespace, and for namespaces.
    fn namespace(&self) -> &Json {
        self.namespace.get_or_init(|| {
            let is_namespace = self.attributes.is("", "namespaces");
            let namespace = self.attributes.namespace_object().filter(|_| !is_namespace);
            namespace.map(|namespace| visible_namespace(&namespace)).unwrap_or_default()
        })
    }
}

/// The parts of a namespace that expressions may see.
fn visible_namespace(namespace: &Json) -> Json {
    /// Owner references and managedFields are left out, as in kube-apiserver.
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "labels",
        "annotations",
        "uid",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "resourceVersion",
        "finalizers",
    ];
    let mut metadata = json!({});
    for key in METADATA {
        if namespace.at("metadata").has(key) {
            metadata.put(key, namespace.at("metadata").at(key).clone());
        }
    }
    let mut visible = json!({"metadata": metadata});
    for key in ["spec", "status"] {
        if namespace.has(key) {
            visible.put(key, namespace.at(key).clone());
        }
    }
    visible
}

/// The authorizer as expressions use it (`authorizer.group(…).resource(…).check(…)`), for the user of the request.
/// The user is copied, since values of expressions may outlive the borrow of the request.
pub(crate) struct Access {
    authorizer: Arc<dyn auth::Authorizer>,
    user: User,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl Access {
    /// The authorizer, for the user of the request. Expressions may ask about service accounts instead.
    pub(crate) fn new(authorizer: &Arc<dyn auth::Authorizer>, user: &User) -> Arc<Self> {
        Arc::new(Self { authorizer: Arc::clone(authorizer), user: user.clone() })
    }
}

impl ExpressionAuthorizer for Access {
    fn authorize(&self, request: &AccessRequest) -> AccessDecision {
        let other = request.service_account.as_ref().map(|(namespace, name)| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            ..User::default()
        });
        let attributes = auth::AuthorizerAttributes {
            verb: &request.verb,
            group: &request.group,
            version: "*",
            resource: &request.resource,
            subresource: &request.subresource,
            namespace: &request.namespace,
            name: &request.name,
            path: request.path.as_deref().unwrap_or_default(),
            ..auth::AuthorizerAttributes::default()
        };
        match self.authorizer.authorize(other.as_ref().unwrap_or(&self.user), &attributes).refusal() {
            None => AccessDecision { allowed: true, ..AccessDecision::default() },
            Some(auth::Refusal { reason, error }) => AccessDecision { allowed: false, reason, error },
        }
    }
}

/// The variables of the expressions of one policy for one request. Those of the policy are computed when they are first
/// read, and once.
pub(crate) struct PolicyScope<'a> {
    objects: &'a PolicyObjects<'a>,
    access: Arc<dyn ExpressionAuthorizer>,
    variables: &'a [(String, CompiledExpression)],
    /// One cell per variable, in the same order. Errors are kept, too: a variable that fails does so for every
    /// reader.
    computed: Vec<OnceLock<Result<Value<'a>, EvalError>>>,
    /// The scope itself, by which the value `variables` leads back to these cells.
    own: OnceLock<&'a PolicyScope<'a>>,
    /// In match conditions `namespaceObject` is declared but null, as in kube-apiserver.
    hides_namespace: bool,
}

impl fmt::Debug for PolicyScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("variables", &self.variables.len()).finish_non_exhaustive()
    }
}

impl<'a> PolicyScope<'a> {
    /// A scope without access to `variables`; [`PolicyScope::close`] adds it, since the scope has to refer to itself.
    pub(crate) fn new(
        objects: &'a PolicyObjects<'a>,
        access: Arc<dyn ExpressionAuthorizer>,
        variables: &'a [(String, CompiledExpression)],
    ) -> Self {
        let computed = variables.iter().map(|_| OnceLock::new()).collect();
        Self { objects, access, variables, computed, own: OnceLock::new(), hides_namespace: false }
    }

    /// The scope of match conditions.
    pub(crate) fn of_conditions(
        objects: &'a PolicyObjects<'a>,
        access: Arc<dyn ExpressionAuthorizer>,
    ) -> Self {
        Self { hides_namespace: true, ..Self::new(objects, access, &[]) }
    }

    /// Makes the scope refer to itself, so that expressions can read `variables`. To be called once it has its final
    /// place.
    pub(crate) fn close(&'a self) {
        let _ = self.own.set(self);
    }

    /// Evaluates an expression within a budget.
    ///
    /// The budget is charged for the variables that this expression is the first to read.
    ///
    /// # Errors
    /// A compile error, a runtime error or an exhausted budget, as the message that is shown to the user.
    pub(crate) fn evaluate(
        &self,
        compiled: &CompiledExpression,
        budget: &mut Budget,
    ) -> Result<Value<'a>, String> {
        if budget.is_exhausted() {
            return Err(OUT_OF_BUDGET.to_owned());
        }
        let program = compiled.program.as_ref().map_err(Clone::clone)?;
        let outcome = program.evaluate(self);
        if !budget.pay(&outcome) {
            return Err(OUT_OF_BUDGET.to_owned());
        }
        let source = &compiled.source;
        outcome
            .result
            .map_err(|error| format!("expression '{source}' resulted in error: {}", error.message()))
    }
}

impl<'a> Activation<'a> for PolicyScope<'a> {
    fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        Ok(Some(match name {
            "object" => Value::from_json(&self.objects.object),
            "oldObject" => Value::from_json(&self.objects.old),
            "request" => Value::from_json(self.objects.request()),
            "params" => Value::from_json(&self.objects.params),
            "namespaceObject" if self.hides_namespace => Value::Null,
            "namespaceObject" => Value::from_json(self.objects.namespace()),
            "authorizer" => Value::authorizer(Arc::clone(&self.access)),
            "authorizer.requestResource" => {
                Value::resource_check(Arc::clone(&self.access), self.own_access())
            }
            "variables" => match self.own.get() {
                Some(own) => Value::Host(*own),
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }
}

impl PolicyScope<'_> {
    /// The resource of the request as it was sent, which `authorizer.requestResource` asks about, whatever version
    /// the policy matched.
    fn own_access(&self) -> AccessRequest {
        let request = self.objects.request();
        let resource = request.at("requestResource");
        let text = |value: &str| value.to_owned();
        AccessRequest {
            group: text(resource.text("group")),
            resource: text(resource.text("resource")),
            subresource: text(request.text("requestSubResource")),
            namespace: text(request.text("namespace")),
            name: text(request.text("name")),
            ..AccessRequest::default()
        }
    }
}

impl<'a> HostObject for PolicyScope<'a> {
    fn type_name(&self) -> &str {
        "kubernetes.variables"
    }

    fn field<'s>(&'s self, name: &str, meter: &mut Meter) -> Result<Option<Value<'s>>, EvalError> {
        let Some(index) = self.variables.iter().position(|(known, _)| known == name) else { return Ok(None) };
        let (Some((_, compiled)), Some(cell), Some(own)) =
            (self.variables.get(index), self.computed.get(index), self.own.get())
        else {
            return Ok(None);
        };
        if let Some(known) = cell.get() {
            return known.clone().map(Some);
        }
        let value: Result<Value<'a>, EvalError> = match &compiled.program {
            Ok(program) => program.evaluate_on(*own, meter),
            Err(why) => Err(EvalError::new(why.clone())),
        };
        let value = value.map_err(|error| {
            EvalError::new(format!("composited variable \"{name}\" fails to evaluate: {}", error.message()))
        });
        cell.get_or_init(|| value).clone().map(Some)
    }
}
