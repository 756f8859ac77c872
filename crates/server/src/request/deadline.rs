//! The deadline of a request: `RequestLimits::timeout`, or less if the `timeout` parameter asks for less. Pure.
//!
//! kube-apiserver calls it the request deadline filter. Watches and connections to extension API servers have none;
//! their end is `timeoutSeconds` of the watch options. Durations are in Go's syntax, and errors have Go's wording,
//! because clients show them as they are.
//!
//! [`crate::chain::service`] applies the deadline to everything after authorization: waiting for seats, the body and
//! the handler.

use std::time::Duration;

use listwatch_wire::options::Query;
use listwatch_wire::{Status, go};

/// Returns the time that a request has: the client's `timeout`, at most `limit`. Zero and negative timeouts mean
/// `limit`.
///
/// # Errors
/// 400 if `timeout` is not a duration.
pub(crate) fn allowed(query: &Query<'_>, limit: Duration) -> Result<Duration, Status> {
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(limit);
    }
    // Zero or less means the default timeout.
    let text = text.strip_prefix('-').filter(|rest| parse(rest).is_some()).map_or(text, |_| "0");
    match parse(text) {
        Some(Duration::ZERO) => Ok(limit),
        Some(asked) => Ok(asked.min(limit)),
        None => {
            let quoted = go::quote(text);
            let why =
                format!("invalid timeout specified in the request URL - time: invalid duration {quoted}");
            Err(Status::bad_request(why))
        }
    }
}

/// A duration as Go writes it: numbers with units, such as `1h30m` or `1.5s`. Negative ones are refused.
fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        seconds += number.parse::<f64>().ok()? * unit_seconds(unit)?;
        rest = tail;
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

/// The units of Go's `time.ParseDuration`, with both signs for micro.
fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        for (text, seconds) in
            [("32s", 32.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0.0), ("+2m", 120.0)]
        {
            assert_eq!(parse(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1x", "1s2", "abc", "1e400s", "..s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
