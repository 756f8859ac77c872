//! [`ElectionOptions`]: identity and times of a candidate, with the checks of client-go's `LeaderElectionConfig`.
//!
//! Defaults are those of kube-controller-manager: a lease of 15 s, a renew deadline of 10 s, a retry period of 2 s. The
//! differences between them are the safety margin: the leader stops at the deadline, others take over at the end of the
//! lease, and the work has the time between to end. Clocks of different machines are never compared, only intervals.
//!
//! One addition: `stop_grace`, the time that work in progress has on an ordinary stop. The rules are in
//! [`ElectionMachine`](super::ElectionMachine).

use std::time::Duration;

/// The factor by which the wait of a candidate may exceed the retry period, so that candidates do not act in step.
pub(super) const JITTER: f64 = 1.2;

/// The reason that these options do not make an election. Most of these are checks of client-go's `NewLeaderElector`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Without an identity the record does not name a leader.
    #[error("the identity is empty")]
    NoIdentity,
    /// A leader that stops only when its lease has expired may overlap with the next.
    #[error("the lease duration must be longer than the renew deadline")]
    LeaseTooShort,
    /// The leader must be able to renew more than once before its deadline.
    #[error("the renew deadline must be longer than the retry period with its jitter, 1.2 of these")]
    DeadlineTooShort,
    /// A retry period of zero would be a hot loop.
    #[error("the retry period is zero")]
    NoPause,
    /// A Lease stores its duration as seconds of 31 bits.
    #[error("the lease duration is more than a Lease can store")]
    LeaseTooLong,
}

/// The candidate and its times.
///
/// The times must leave room for the leader to stop before another candidate takes over ([`validate`](Self::validate)):
///
/// ```
/// use std::time::Duration;
/// use listwatch::leader_election::{ElectionOptions, OptionsError};
///
/// let mut options = ElectionOptions::new("pod-1");
/// assert_eq!(options.validate(), Ok(()));
/// options.renew_deadline = Duration::from_secs(20);
/// assert_eq!(options.validate(), Err(OptionsError::LeaseTooShort));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "LeaderElectionConfig")]
pub struct ElectionOptions {
    /// The identity of this candidate; no two candidates may have the same. The name of the pod and something random will do.
    pub identity: String,
    /// The time that other candidates wait after the last renewal they have seen before they take over. Default 15 s.
    pub lease_duration: Duration,
    /// The time after its last renewal at which the leader stops. The rest of the lease is for the work to end. Default 10 s.
    pub renew_deadline: Duration,
    /// The period in which the leader renews and candidates look. Default 2 s.
    pub retry_period: Duration,
    /// The time that the work may take after the stop was requested; then it is aborted. Default 30 s, the default
    /// grace period of a Pod.
    pub stop_grace: Duration,
    /// True if a leader that ends releases the lease, so that the next need not wait for it to expire. Default
    /// true: here the work has always ended before.
    pub release: bool,
}

impl ElectionOptions {
    /// The usual times for this candidate.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            stop_grace: Duration::from_secs(30),
            release: true,
        }
    }

    /// Checks that the times fit together.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn validate(&self) -> Result<(), OptionsError> {
        let checks = [
            (self.identity.is_empty(), OptionsError::NoIdentity),
            (self.retry_period.is_zero(), OptionsError::NoPause),
            (self.lease_duration <= self.renew_deadline, OptionsError::LeaseTooShort),
            (self.renew_deadline <= self.retry_period.mul_f64(JITTER), OptionsError::DeadlineTooShort),
            (self.lease_duration.as_secs() >= i32::MAX as u64, OptionsError::LeaseTooLong),
        ];
        checks.into_iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The duration that is published: whole seconds, never fewer than we go by ourselves.
    pub(super) fn lease_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_do_not_fit_are_refused() {
        let with = |change: fn(&mut ElectionOptions)| {
            let mut options = ElectionOptions::new("me");
            change(&mut options);
            options.validate()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|o| o.identity.clear()), Err(OptionsError::NoIdentity));
        assert_eq!(with(|o| o.lease_duration = o.renew_deadline), Err(OptionsError::LeaseTooShort));
        assert_eq!(
            with(|o| o.retry_period = o.renew_deadline.div_f64(1.2)),
            Err(OptionsError::DeadlineTooShort)
        );
        assert_eq!(with(|o| o.retry_period = Duration::ZERO), Err(OptionsError::NoPause));
        assert_eq!(with(|o| o.lease_duration = Duration::MAX), Err(OptionsError::LeaseTooLong));
    }

    #[test]
    fn fractions_of_seconds_are_rounded_up() {
        let mut options = ElectionOptions::new("me");
        options.lease_duration = Duration::from_millis(1_001);
        assert_eq!(options.lease_seconds(), 2);
    }
}
