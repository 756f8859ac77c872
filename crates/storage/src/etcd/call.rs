//! Calls to etcd: the classification of errors, retries, and deadlines.
//!
//! A call whose outcome is unknown is repeated only if that does no harm.

use std::future::Future;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, TlsOptions};
use tokio::time::{Instant, sleep, timeout_at};

use super::options::EtcdOptions;
use crate::Error;

/// The delay before another attempt. Members are tried in turn, so it is short.
const PAUSE: Duration = Duration::from_millis(50);

/// The kinds of failure of a call, by what can be done about them.
///
/// Sorting errors by their consequence keeps the decision in one place: callers never look at texts or codes.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The revision is no longer there.
    Compacted,
    /// The revision is not there yet.
    Future,
    /// Nothing happened: another attempt does no harm.
    NotDone(String),
    /// It may have happened or not.
    Unknown(String),
    /// The response is longer than accepted.
    TooLong(String),
    /// Another attempt would end the same.
    Final(Error),
}

impl CallFailure {
    /// Converts to the error that the caller gets when no attempt is left. Errors about revisions must have been handled before.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Compacted => Error::Unavailable("etcd: the revision has been compacted".to_owned()),
            Self::Future => Error::Unavailable("etcd: the revision is in the future".to_owned()),
            Self::NotDone(reason) | Self::Unknown(reason) | Self::TooLong(reason) => {
                Error::Unavailable(reason)
            }
            Self::Final(error) => error,
        }
    }
}

impl From<etcd_client::Error> for CallFailure {
    /// etcd's errors are distinguished by their texts, which are part of its interface (api/v3rpc/rpctypes).
    fn from(error: etcd_client::Error) -> Self {
        let (text, everything) = (text_of(&error), error.to_string());
        let has = |part: &str| everything.contains(part);
        let etcd_client::Error::GRpcStatus(_) = &error else { return Self::Unknown(text) };
        if has("required revision has been compacted") {
            Self::Compacted
        } else if has("required revision is a future revision") {
            Self::Future
        } else if has("decoded message length too large") {
            Self::TooLong(text)
        } else if has("space exceeded") {
            Self::Final(Error::ReadOnly(text))
        } else if has("request is too large") || has("larger than max") || has("too many operations") {
            Self::Final(Error::Invalid(text))
        } else if has("connect error") || has("no leader") || has("too many requests") || has("not capable") {
            Self::NotDone(text)
        } else {
            Self::Unknown(text)
        }
    }
}

/// The text of an error, without the values of the transport below it, which the client library appends.
pub(super) fn text_of(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => {
            format!("etcd: {}: {}", status.code().description(), status.message())
        }
        other => format!("etcd: {other}"),
    }
}

/// True for calls that may be repeated after an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing.
    Harmless,
    /// It may change something.
    Harmful,
}

/// Makes a call, if need be several times, within the deadline.
///
/// A read gets several attempts of `EtcdOptions::attempt`, a write one that may take all of the deadline, because after
/// a timeout the outcome is unknown. The pause is constant: attempts are bounded by the deadline, and load is etcd's to
/// refuse.
///
/// # Errors
///
/// The failure of the last attempt.
pub(super) async fn call<T, F>(
    options: &EtcdOptions,
    repeat: Repeat,
    mut attempt: impl FnMut() -> F,
) -> Result<T, CallFailure>
where
    F: Future<Output = Result<T, etcd_client::Error>>,
{
    let deadline = Instant::now() + options.deadline;
    loop {
        let until = match repeat {
            Repeat::Harmless => deadline.min(Instant::now() + options.attempt),
            Repeat::Harmful => deadline,
        };
        let failure = match timeout_at(until, attempt()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => CallFailure::from(error),
            Err(_) => CallFailure::Unknown("etcd: no answer in time".to_owned()),
        };
        let again = match &failure {
            CallFailure::NotDone(_) => true,
            CallFailure::Unknown(_) => repeat == Repeat::Harmless,
            _ => false,
        };
        if !again || Instant::now() + PAUSE >= deadline {
            return Err(failure);
        }
        sleep(PAUSE).await;
    }
}

/// A client of the given members; connects when it is first used.
///
/// Requests are marked as requiring a leader, so that a member that lost its quorum refuses a watch instead of being
/// silent.
pub(super) async fn connect(endpoints: &[String], options: &EtcdOptions) -> Result<Client, Error> {
    // Pings find dead connections; etcd allows one every five seconds.
    let mut connect = ConnectOptions::new()
        .with_connect_timeout(options.connect)
        .with_keep_alive(Duration::from_secs(6), options.attempt)
        .with_require_leader(true);
    if let Some(tls) = &options.tls {
        connect = connect.with_tls(tls_options(tls));
    }
    if let Some(user) = &options.user {
        connect = connect.with_user(&user.name, &user.password).with_auto_token_refresh(true);
    }
    let connected = tokio::time::timeout(options.deadline, Client::connect(endpoints, Some(connect))).await;
    let connected = connected.map_err(|_| Error::Unavailable("etcd: no answer in time".to_owned()))?;
    connected.map_err(|error| CallFailure::from(error).into_error())
}

/// Maps our TLS settings to those of the client.
fn tls_options(tls: &super::options::EtcdTls) -> TlsOptions {
    let mut options = TlsOptions::new();
    if let Some(ca) = &tls.ca {
        options = options.ca_certificate(etcd_client::Certificate::from_pem(ca));
    }
    if let Some((certificate, key)) = &tls.identity {
        options = options.identity(etcd_client::Identity::from_pem(certificate, key));
    }
    if let Some(name) = &tls.server_name {
        options = options.domain_name(name.clone());
    }
    options
}
