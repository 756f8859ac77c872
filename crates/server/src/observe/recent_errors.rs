//! [`RecentErrors`]: the last requests that failed, for the console and `/debug/listwatch/errors`.
//!
//! Bounded in number and in text, since both come from clients. Server errors and rejections are kept in separate
//! lists: a misbehaving client can cause any number of 403s and must not push out the one 500 that matters. 404, 409
//! and 410 are part of normal operation and left out. `chain/report.rs` decides what is added and removes messages
//! about Secrets; the complete record is the audit log.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use listwatch_wire::json::{Value, json};
use parking_lot::Mutex;

/// Requests kept of each sort: enough to diagnose a failure, at most some hundred KiB.
const KEPT: usize = 100;
/// Characters kept of a path or message: both come from clients and may be long.
const MAX_TEXT: usize = 512;

/// The last requests that failed. Failures of the server are kept apart from rejections, of which a client can cause any
/// number: those must not push out the others.
#[derive(Debug, Default)]
pub(crate) struct RecentErrors {
    failed: Mutex<VecDeque<RequestError>>,
    rejected: Mutex<VecDeque<RequestError>>,
}

/// One failed request as it is kept: texts are cut, and bodies never included.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) at: Timestamp,
    pub(crate) code: StatusCode,
    pub(crate) method: String,
    pub(crate) path: String,
    /// Empty for unauthenticated requests.
    pub(crate) user: String,
    pub(crate) message: String,
    pub(crate) took: Duration,
}

impl RecentErrors {
    /// Returns true for codes that are worth keeping. Missing objects, conflicts and expired versions are part of how clients
    /// work.
    pub(crate) fn keeps(code: StatusCode) -> bool {
        let usual = [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::GONE];
        (code.is_client_error() || code.is_server_error()) && !usual.contains(&code)
    }

    /// Adds a failed request, dropping the oldest one of its sort if there are too many.
    pub(crate) fn add(&self, mut error: RequestError) {
        shorten(&mut error.path);
        shorten(&mut error.message);
        let list = if error.code.is_server_error() { &self.failed } else { &self.rejected };
        let mut list = list.lock();
        if list.len() == KEPT {
            list.pop_front();
        }
        list.push_back(error);
    }

    /// Returns both lists, the newest first.
    pub(crate) fn describe(&self) -> Value {
        let all = |list: &Mutex<VecDeque<RequestError>>| {
            list.lock().iter().rev().map(RequestError::describe).collect::<Vec<Value>>()
        };
        json!({"failed": all(&self.failed), "rejected": all(&self.rejected)})
    }
}

impl RequestError {
    /// The entry as the debug page shows it.
    fn describe(&self) -> Value {
        json!({
            "time": self.at.to_string(), "code": self.code.as_u16(), "method": self.method.as_str(),
            "path": self.path.as_str(), "user": self.user.as_str(), "message": self.message.as_str(),
            "seconds": self.took.as_secs_f64(),
        })
    }
}

/// By characters, so that no character is cut in two.
fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, message: &str) -> RequestError {
        RequestError {
            at: Timestamp::UNIX_EPOCH,
            code: StatusCode::from_u16(code).unwrap(),
            method: "GET".into(),
            path: "/".into(),
            user: String::new(),
            message: message.into(),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_flood_of_rejections_leaves_failures_in_place() {
        let recent = RecentErrors::default();
        recent.add(error(500, "disk"));
        (0..10 * KEPT).for_each(|n| recent.add(error(403, &n.to_string())));
        let text = recent.describe();
        assert_eq!(text["failed"][0]["message"].as_str(), Some("disk"));
        assert_eq!(text["rejected"].as_array().map(Vec::len), Some(KEPT));
        assert_eq!(text["rejected"][0]["message"].as_str(), Some("999"), "the newest first");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut text = "ä".repeat(MAX_TEXT + 1);
        shorten(&mut text);
        assert_eq!(text.chars().count(), MAX_TEXT + 1);
    }

    #[test]
    fn the_usual_answers_to_controllers_are_no_errors() {
        let keeps = |code| RecentErrors::keeps(StatusCode::from_u16(code).unwrap());
        assert!(![200, 404, 409, 410].into_iter().any(keeps));
        assert!([400, 401, 403, 422, 429, 500, 503, 504].into_iter().all(keeps));
    }
}
