//! Impersonation (`kubectl --as`): decides if a user may act as another one.
//!
//! [`wanted`] reads the headers; [`mode`] has the permissions by which it can be allowed: the constrained modes of
//! kube-apiserver, each with a verb of its own, and the original `impersonate`. [`Impersonator`] tries them, the one
//! that last worked for the user first, because each mode costs several authorizations.
//!
//! It runs after authentication and before authorization ([`crate::chain::service`]); from then on the request has
//! the other user's identity everywhere but in the audit log, which has both.

mod mode;
mod wanted;

use std::collections::HashMap;

use listwatch_wire::Status;
use parking_lot::Mutex;

use crate::auth::{Authorizer, AuthorizerAttributes, User};
pub(crate) use mode::Mode;
pub(crate) use wanted::Impersonation;

/// The number of users whose last successful mode is cached. Beyond it the cache is cleared, which costs some
/// authorizations.
const REMEMBERED: usize = 10_000;

/// Decides if users may act as others.
#[derive(Debug, Default)]
pub(crate) struct Impersonator {
    /// The mode that last worked for each user. It is tried first, and its 403 is the one returned if all fail.
    last: Mutex<HashMap<String, Mode>>,
}

impl Impersonator {
    /// The user to act as, and the mode that allows it, which the caller [remembers](Self::remember).
    ///
    /// Costs up to five modes with one authorization per claim each, all from memory. The refusal is that of the mode
    /// which worked last, or else of the first that fits, because the last mode tried is `impersonate` for everything
    /// and its refusal would hide the constrained permission that is missing.
    ///
    /// # Errors
    /// 403 that names the first right that is missing.
    pub(crate) fn impersonate(
        &self,
        wanted: &Impersonation,
        requester: &User,
        authorizer: &dyn Authorizer,
        request: &AuthorizerAttributes<'_>,
    ) -> Result<(User, Mode), Status> {
        let last = self.last.lock().get(&requester.name).copied();
        let rest = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut refusal = None;
        for mode in last.into_iter().chain(rest) {
            match mode.check(wanted, requester, authorizer, request) {
                Some(Ok(user)) => return Ok((user, mode)),
                Some(Err(status)) => refusal = refusal.or(Some(status)),
                None => {}
            }
        }
        Err(refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }

    /// Keeps the mode that worked. The lock is held for a lookup and an insertion, never during an authorization.
    pub(crate) fn remember(&self, requester: &User, mode: Mode) {
        let mut last = self.last.lock();
        if last.get(&requester.name) == Some(&mode) {
            return;
        }
        if last.len() >= REMEMBERED {
            last.clear();
        }
        last.insert(requester.name.clone(), mode);
    }
}
