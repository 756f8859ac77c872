//! Reports of failed and slow requests: the log, and the list of recent errors that the console and
//! `/debug/listwatch` show.
//!
//! One place decides, after the response is known, so that no handler logs its own failure a second time. Messages
//! about Secrets and tokens are dropped, because a validation error may quote the value. It is neither the audit log
//! ([`crate::audit`]) nor metrics ([`crate::observe`]).

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use crate::api::Api;
use crate::auth::User;
use crate::http::request::Request;
use crate::observe::{RecentErrors, RequestError};

/// The facts about an answered request that the report is made of.
pub(super) struct RequestOutcome<'a> {
    pub(super) code: StatusCode,
    pub(super) took: Duration,
    /// The message of the Status, if there was one.
    pub(super) message: Option<String>,
    /// `None` before authentication.
    pub(super) user: Option<&'a User>,
}

/// Logs a server error as a warning and a slow request as information, and adds errors to the list of recent ones.
///
/// Does nothing for requests that are quick and succeed, so it costs two comparisons as a rule.
pub(super) fn report(api: &Api, request: &Request, outcome: RequestOutcome<'_>) {
    let slow = outcome.took >= api.options.requests.slow;
    if !slow && !RecentErrors::keeps(outcome.code) {
        return;
    }
    let RequestOutcome { code, took, message, user } = outcome;
    let (method, path, status) = (&request.method, &request.path, code.as_u16());
    let (user, message) =
        (user.map(|user| user.name.to_string()).unwrap_or_default(), message.unwrap_or_default());
    // The message of a rejected Secret or token may quote what is in it.
    let message = if is_confidential(path) { String::new() } else { message };
    let took_ms = took.as_millis() as u64;
    if code.is_server_error() {
        tracing::warn!(%method, path, user, status, took_ms, error = message, "request failed");
    } else if slow {
        tracing::info!(%method, path, user, status, took_ms, "slow request");
    }
    if RecentErrors::keeps(code) {
        let (method, path) = (method.to_string(), path.clone());
        api.metrics.errors.add(RequestError {
            at: Timestamp::now(),
            code,
            method,
            path,
            user,
            message,
            took,
        });
    }
}

/// Paths whose requests and responses carry secrets; errors about them are reported without detail.
fn is_confidential(path: &str) -> bool {
    path.split('/').any(|segment| matches!(segment, "secrets" | "token" | "tokenreviews"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_secrets_and_tokens_are_not_kept() {
        for path in ["/api/v1/namespaces/a/secrets", "/api/v1/namespaces/a/serviceaccounts/b/token"] {
            assert!(is_confidential(path), "{path}");
        }
        assert!(!is_confidential("/api/v1/namespaces/secret/configmaps"));
    }
}
