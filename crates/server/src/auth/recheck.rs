//! [`Recheck`]: authorizes a running watch again, at intervals.
//!
//! kube-apiserver authorizes a watch when it begins and lets it run until its timeout, up to an hour with a revoked
//! token or binding. This server repeats authentication of tokens that can end, and authorization, at the interval of
//! `WatchLimits::recheck_every`. The attributes are copied, because the request is dropped to keep an idle watch
//! small. [`crate::verbs::watch`] is the caller; the check itself never waits.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use listwatch_wire::Status;
use listwatch_wire::selector::FieldSelector;
use tokio::time::Instant;

use crate::auth::{Authenticator, Authorizer, AuthorizerAttributes, User, bearer};

/// The credentials and attributes of a watch, to be authorized again at intervals. kube-apiserver authorizes only once.
#[derive(Debug)]
pub(crate) struct Recheck {
    user: Arc<User>,
    /// Its token, if that can end.
    token: Option<Box<str>>,
    verb: &'static str,
    /// Group, version, resource, namespace and name.
    wanted: [Box<str>; 5],
    /// The field selector, boxed because few watches have one.
    fields: Option<Box<FieldSelector>>,
    /// The interval between checks.
    every: Duration,
    /// The time of the next check.
    due: Instant,
}

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
        let AuthorizerAttributes { group, version, resource, namespace, name, .. } = *wanted;
        Self {
            user: Arc::clone(user),
            token: token.map(Into::into),
            verb: "watch",
            wanted: [group, version, resource, namespace, name].map(Into::into),
            fields: wanted.fields.cloned().map(Box::new),
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
        authorizer: &dyn Authorizer,
        now: Instant,
    ) -> Result<(), Revoked> {
        if now < self.due {
            return Ok(());
        }
        self.due = now + self.every;
        if self.token.as_ref().is_some_and(|token| !authenticator.still_holds(token)) {
            return Err(Revoked::Credentials);
        }
        let [group, version, resource, namespace, name] = &self.wanted;
        let wanted = AuthorizerAttributes {
            verb: self.verb,
            group,
            version,
            resource,
            namespace,
            name,
            fields: self.fields.as_deref(),
            ..AuthorizerAttributes::default()
        };
        authorizer.require(&self.user, &wanted).map_err(|status| Revoked::Rights(Box::new(status)))
    }
}
