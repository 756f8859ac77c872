//! [`Authorization`]: asks the union of authorizers, and fetches the verdicts of webhooks that a decision needs.
//!
//! Decisions are made by plain functions that never wait, also in the midst of an expression. One that meets a question without a
//! verdict is abandoned, the webhook is called, and the function runs again with the verdict ([`Consultation`]). It sees each
//! verdict unchanged until it is done, whatever the cache does. Without webhooks the function runs once, on the union itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use listwatch_wire::Status;
use parking_lot::Mutex;

use crate::auth::access_webhook::{
    AccessOutcome, AccessWebhook, Consulted, Evaluation, Question, write_webhook_metrics,
};
use crate::auth::answers::Digest;
use crate::auth::modes::{CacheAuthorizers, Member, Modes, WebhookSource};
use crate::auth::rbac::{PolicyRule, RoleRef};
use crate::auth::{AuthorizationMode, Authorizer, AuthorizerAttributes, Decision, User};
use crate::cache::Cache;
use crate::observe::{escape, family, line};

/// Decides about requests, with all authorizers of the server. Shared by all requests.
#[derive(Clone, Debug)]
pub struct Authorization {
    shared: Arc<SharedAuthorizers>,
}

#[derive(Debug)]
struct SharedAuthorizers {
    local: CacheAuthorizers,
    current: ArcSwap<Union>,
}

/// The authorizers in use, in the two forms that are needed.
#[derive(Debug)]
struct Union {
    modes: Arc<Modes>,
    authorizer: Arc<dyn Authorizer>,
}

impl Union {
    fn new(modes: &[AuthorizationMode], local: &CacheAuthorizers) -> Result<Self, String> {
        let modes = Arc::new(Modes::new(modes, local)?);
        Ok(Self { authorizer: Arc::clone(&modes) as _, modes })
    }
}

impl Authorization {
    /// Makes the authorizers of these modes, which follow the cache from now on.
    ///
    /// # Errors
    /// A webhook whose kubeconfig or conditions cannot be used.
    pub(crate) fn new(modes: &[AuthorizationMode], cache: &Cache) -> Result<Self, String> {
        let local = CacheAuthorizers::new(modes, cache);
        let current = ArcSwap::from_pointee(Union::new(modes, &local)?);
        Ok(Self { shared: Arc::new(SharedAuthorizers { local, current }) })
    }

    /// Replaces the authorizers.
    ///
    /// # Errors
    /// A webhook that cannot be used, or a Node authorizer that was not there at the start; the former authorizers stay.
    pub(crate) fn replace(&self, modes: &[AuthorizationMode]) -> Result<(), String> {
        self.shared.current.store(Arc::new(Union::new(modes, &self.shared.local)?));
        Ok(())
    }

    /// Runs a function that asks the authorizer, again and again until it has every verdict of a webhook that it asks for.
    ///
    /// The function must have no effects: its result counts only the last time.
    pub async fn decide<T>(&self, mut ask: impl FnMut(&Arc<dyn Authorizer>) -> T) -> T {
        let modes = {
            let union = self.shared.current.load();
            if !union.modes.has_webhooks() {
                return ask(&union.authorizer);
            }
            Arc::clone(&union.modes)
        };
        let consultation = Consultation::new(modes);
        let authorizer: Arc<dyn Authorizer> = Arc::clone(&consultation) as _;
        loop {
            let answer = ask(&authorizer);
            let Some(missing) = consultation.take_missing() else {
                consultation.count();
                return answer;
            };
            drop(answer);
            // Boxed: few decisions come here, and every request would be as large as a call.
            Box::pin(consultation.fetch(missing)).await;
        }
    }

    /// Checks that `user` may do it; otherwise returns the error to answer with.
    ///
    /// # Errors
    /// 403, or 500 if an authorizer failed.
    pub(crate) async fn require(
        &self,
        user: &User,
        attributes: &AuthorizerAttributes<'_>,
    ) -> Result<(), Status> {
        self.decide(|authorizer| authorizer.require(user, attributes)).await
    }

    /// Returns true if `user` may do it.
    pub(crate) async fn allows(&self, user: &User, attributes: &AuthorizerAttributes<'_>) -> bool {
        self.decide(|authorizer| authorizer.authorize(user, attributes) == Decision::Allow).await
    }

    /// The union, for questions that no webhook is asked.
    pub(crate) fn union(&self) -> Arc<dyn Authorizer> {
        Arc::clone(&self.shared.current.load().authorizer)
    }

    /// The number of texts that a decision in the namespace may have to compare ([`Authorizer::size_in`]).
    pub(crate) fn size_in(&self, namespace: &str) -> usize {
        self.shared.current.load().authorizer.size_in(namespace)
    }

    /// Returns the decision if it can be made without asking a webhook.
    #[must_use]
    pub fn at_once(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Option<Decision> {
        let union = self.shared.current.load();
        if !union.modes.has_webhooks() {
            return Some(union.authorizer.authorize(user, wanted));
        }
        let consultation = Consultation::new(Arc::clone(&union.modes));
        let decision = consultation.authorize(user, wanted);
        consultation.take_missing().is_none().then(|| {
            consultation.count();
            decision
        })
    }

    /// Writes the numbers of decisions and of calls of webhooks.
    pub(crate) fn write_metrics(&self, out: &mut String) {
        let union = self.shared.current.load();
        let name = "apiserver_authorization_decisions_total";
        family(out, name, "counter", "Decisions that ended the chain of authorizers.");
        for member in union.modes.members() {
            let labels = |decision: &str| {
                let Member { type_name, name, .. } = member;
                format!("type=\"{type_name}\",name=\"{}\",decision=\"{decision}\"", escape(name))
            };
            for (decision, count) in [("allowed", &member.allowed), ("denied", &member.denied)] {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    line(out, name, labels(decision), count);
                }
            }
        }
        write_webhook_metrics(&union.modes.webhook_metrics(), out);
    }
}

/// The verdicts of webhooks for one run of [`Authorization::decide`].
#[derive(Debug)]
struct Consultation {
    modes: Arc<Modes>,
    state: Mutex<ConsultationState>,
}

#[derive(Debug, Default)]
struct ConsultationState {
    /// Outcomes of webhooks, by their place in the union and the question.
    known: HashMap<(usize, Digest), AccessOutcome>,
    /// The first question without a verdict. Later ones may be a consequence of the refusal that stands for it.
    missing: Option<(usize, Question)>,
    /// Decisions to be counted if the run is the last.
    decided: Vec<(usize, bool)>,
    /// Evaluations of match conditions, likewise.
    evaluations: Vec<(usize, Evaluation)>,
}

impl Consultation {
    fn new(modes: Arc<Modes>) -> Arc<Self> {
        Arc::new(Self { modes, state: Mutex::default() })
    }

    /// Begins the next run, if the last one met a question without a verdict.
    fn take_missing(&self) -> Option<(usize, Question)> {
        let mut state = self.state.lock();
        let missing = state.missing.take()?;
        state.decided.clear();
        state.evaluations.clear();
        Some(missing)
    }

    /// Asks a webhook and keeps what it said for this consultation, even if it is not cached.
    async fn fetch(&self, (index, question): (usize, Question)) {
        let Some(webhook) = self.modes.members().get(index).and_then(Member::webhook) else { return };
        let outcome = webhook.ask(&question).await;
        self.state.lock().known.insert((index, question.digest()), outcome);
    }

    /// Counts the decisions of the last run, and the conditions that were evaluated for them.
    fn count(&self) {
        let members = self.modes.members();
        let mut state = self.state.lock();
        for (index, allowed) in state.decided.drain(..) {
            members.get(index).into_iter().for_each(|member| member.count(allowed));
        }
        for (index, evaluation) in state.evaluations.drain(..) {
            let webhook = members.get(index).and_then(Member::webhook);
            webhook.into_iter().for_each(|webhook| webhook.metrics().evaluated(&evaluation));
        }
    }
}

impl WebhookSource for Consultation {
    fn verdict(
        &self,
        index: usize,
        webhook: &AccessWebhook,
        user: &User,
        wanted: &AuthorizerAttributes<'_>,
    ) -> Option<(Decision, String)> {
        if self.state.lock().missing.is_some() {
            return None;
        }
        let known = |digest: &Digest| self.state.lock().known.get(&(index, *digest)).cloned();
        let (consulted, evaluation) = webhook.consult(user, wanted, known);
        let mut state = self.state.lock();
        state.evaluations.extend(evaluation.map(|evaluation| (index, evaluation)));
        match consulted {
            Consulted::Decided(decision, reason) => Some((decision, reason)),
            Consulted::Missing(question) => {
                state.missing = Some((index, question));
                None
            }
        }
    }

    fn decided(&self, index: usize, _member: &Member, allowed: bool) {
        self.state.lock().decided.push((index, allowed));
    }
}

impl Authorizer for Consultation {
    fn authorize(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Decision {
        self.modes.authorize_by(self, user, wanted)
    }

    fn reason(&self, user: &User, wanted: &AuthorizerAttributes<'_>) -> Option<String> {
        self.modes.reason_by(self, user, wanted)
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        self.modes.rules(user, namespace)
    }

    fn incomplete(&self, user: &User) -> Option<String> {
        self.modes.incomplete(user)
    }

    fn role(&self, role: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        self.modes.role(role, namespace)
    }

    fn size_in(&self, namespace: &str) -> usize {
        self.modes.size_in(namespace)
    }

    fn held(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        self.modes.held(user, namespace)
    }
}
