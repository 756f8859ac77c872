//! [`Recheck`]: authorizes a running watch again, at intervals.
//!
//! kube-apiserver authorizes a watch when it begins and lets it run until its timeout, up to an hour with a revoked
//! token or binding. This server repeats authentication of tokens that can end, and authorization, at the interval of
//! `WatchLimits::recheck_every`. The attributes are copied, because the request is dropped to keep an idle watch
//! small. [`crate::verbs::watch`] is the caller; the check itself never waits: a webhook is asked beside it, and its answer is
//! found at the next check.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use listwatch_wire::Status;
use listwatch_wire::selector::FieldSelector;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use crate::auth::{Authenticator, Authorization, AuthorizerAttributes, Decision, Refusal, User, bearer};

/// The credentials and attributes of a watch, to be authorized again at intervals. kube-apiserver authorizes only once.
#[derive(Debug)]
pub(crate) struct Recheck {
    user: Arc<User>,
    /// Its token, if that can end.
    token: Option<Box<str>>,
    wanted: Arc<WatchAttributes>,
    /// The decision that a webhook is asked for.
    asked: Option<oneshot::Receiver<Decision>>,
    /// The interval between checks.
    every: Duration,
    /// The time of the next check.
    due: Instant,
}

/// The attributes of a watch. A task that asks a webhook shares them.
#[derive(Debug)]
struct WatchAttributes {
    /// Group, version, resource, namespace and name.
    texts: [Box<str>; 5],
    fields: Option<FieldSelector>,
    labels: Option<Box<str>>,
}

impl WatchAttributes {
    fn new(wanted: &AuthorizerAttributes<'_>) -> Arc<Self> {
        let AuthorizerAttributes { group, version, resource, namespace, name, fields, labels, .. } = *wanted;
        let texts = [group, version, resource, namespace, name].map(Into::into);
        Arc::new(Self { texts, fields: fields.cloned(), labels: labels.map(Into::into) })
    }

    fn get(&self) -> AuthorizerAttributes<'_> {
        let [group, version, resource, namespace, name] = &self.texts;
        AuthorizerAttributes {
            verb: "watch",
            group,
            version,
            resource,
            namespace,
            name,
            fields: self.fields.as_ref(),
            labels: self.labels.as_deref(),
            ..AuthorizerAttributes::default()
        }
    }
}

/// The time after which the answer of a webhook is looked for.
const ANSWER_DUE: Duration = Duration::from_secs(1);

/// The reason why a watch must end.
#[derive(Debug)]
pub(crate) enum Revoked {
    /// Its token is no longer valid: everything that was opened with it ends.
    Credentials,
    /// Its user may no longer watch this, with the message of the authorizer.
    Rights(Box<Status>),
}

/// The token of a request, if it can end.
///
/// Certificates are left out: they cannot be revoked, and their expiry is checked with each request of the
/// connection.
fn lasting_token(authenticator: &Authenticator, headers: &HeaderMap) -> Option<String> {
    bearer::token(headers).ok().flatten().filter(|token| !authenticator.is_static(token))
}

/// Returns true if the token that a request came with, if any, still holds.
pub(crate) fn credentials_hold(authenticator: &Authenticator, headers: &HeaderMap) -> bool {
    lasting_token(authenticator, headers).is_none_or(|token| authenticator.still_holds(&token))
}

impl Recheck {
    /// Prepares the recheck of a watch by this user. `every` is the interval; the first check is due one interval
    /// from now.
    pub(crate) fn new(
        authenticator: &Authenticator,
        user: &Arc<User>,
        headers: &HeaderMap,
        wanted: &AuthorizerAttributes<'_>,
        every: Duration,
    ) -> Self {
        let token = lasting_token(authenticator, headers);
        Self {
            user: Arc::clone(user),
            token: token.map(Into::into),
            wanted: WatchAttributes::new(wanted),
            asked: None,
            every,
            due: Instant::now() + every,
        }
    }

    /// The time of the next check: the watch wakes up for it even if there are no events.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Authorizes the request again if it is time.
    ///
    /// A check that is not due costs a comparison. The next one is counted from now and not from the last due time,
    /// so that a watch which slept is not checked twice.
    ///
    /// # Errors
    /// [`Revoked`] if it must end.
    pub(crate) fn check(
        &mut self,
        authenticator: &Authenticator,
        authorization: &Authorization,
        now: Instant,
    ) -> Result<(), Revoked> {
        if now < self.due {
            return Ok(());
        }
        self.due = now + self.every;
        if self.token.as_ref().is_some_and(|token| !authenticator.still_holds(token)) {
            return Err(Revoked::Credentials);
        }
        let Some(decision) = self.decision(authorization) else {
            self.due = now + self.every.min(ANSWER_DUE);
            return Ok(());
        };
        match decision.refusal() {
            // A webhook that fails for a moment ends no watches.
            None | Some(Refusal { error: Some(_), .. }) => Ok(()),
            Some(Refusal { reason, .. }) => {
                Err(Revoked::Rights(Box::new(self.wanted.get().refusal(&self.user, &reason))))
            }
        }
    }

    /// The decision, if it is known; otherwise it is asked for beside the watch.
    fn decision(&mut self, authorization: &Authorization) -> Option<Decision> {
        match self.asked.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return None,
            Some(Ok(decision)) => {
                self.asked = None;
                return Some(decision);
            }
            // Never asked, or the task ended without an answer.
            None | Some(Err(TryRecvError::Closed)) => {}
        }
        let decision = authorization.at_once(&self.user, &self.wanted.get());
        self.asked = decision.is_none().then(|| self.ask(authorization.clone()));
        decision
    }

    /// Asks in a task of its own.
    fn ask(&self, authorization: Authorization) -> oneshot::Receiver<Decision> {
        let (user, wanted) = (Arc::clone(&self.user), Arc::clone(&self.wanted));
        let (answer, asked) = oneshot::channel();
        tokio::spawn(async move {
            let decided = authorization.decide(|authorizer| authorizer.authorize(&user, &wanted.get())).await;
            // The watch may have ended.
            let _ = answer.send(decided);
        });
        asked
    }
}
