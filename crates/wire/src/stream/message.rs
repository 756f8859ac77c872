//! [`ClientMessage`]: the messages of a client to a stream.
//!
//! The first is the body of the request that opens the stream; later ones are separate requests that change its
//! subscriptions. Several changes fit into one message, because programs start many informers at once. The server's
//! side is `frame`.

use serde::{Deserialize, Serialize};

use crate::options::QueryWriter;

/// The longest identifier of a subscription.
const MAX_ID: usize = 63;

/// A message of the client: as the body of the request that opens a stream, as the body of one that changes it, or as a
/// WebSocket message.
///
/// Unknown members are refused: a server that ignored one might ignore a restriction and send too much.
///
/// ```
/// use listwatch_wire::stream::ClientMessage;
///
/// let json = br#"{"subscribe":[{"id":"pods","version":"v1","resource":"pods"}],"bookmark":"0"}"#;
/// let message = ClientMessage::parse(json)?;
/// assert_eq!(message.subscribe[0].resource, "pods");
/// assert!(ClientMessage::parse(br#"{"subscribers":[]}"#).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientMessage {
    /// Subscriptions to begin, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<Subscription>,
    /// Identifiers of subscriptions to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsubscribe: Vec<String>,
    /// A bookmark is wanted as soon as the stream has reached this resourceVersion; `0` for at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bookmark: Option<String>,
}

impl ClientMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// The reason why it is none, for the client.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        // Members by position, without their names, are no part of the protocol.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err("the message is no JSON object".to_owned());
        }
        serde_json::from_slice(json).map_err(|error| format!("the message cannot be read: {error}"))
    }
}

/// One watch of a stream. Its members mean what the query parameters of an ordinary watch mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscription {
    /// The name chosen by the client. See [`is_subscription_id`].
    pub id: String,
    /// The API group; empty for core.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The namespaces to watch; none for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The label selector; empty for all objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// The field selector; empty for all objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// Where to begin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Begin with the present state. Without a position that is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_initial_events: Option<bool>,
    /// End after so long; absent for as long as the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// The forms that the client accepts, like the `Accept` header of an ordinary watch.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accept: String,
}

impl Subscription {
    /// The query of the equivalent ordinary watch. A stream has bookmarks, and an initial state is never older than
    /// requested.
    #[must_use]
    pub fn to_query(&self) -> String {
        let version_match = if self.send_initial_events.is_some() { "NotOlderThan" } else { "" };
        QueryWriter::default()
            .flag("watch", true)
            .flag("allowWatchBookmarks", true)
            .text("labelSelector", &self.label_selector)
            .text("fieldSelector", &self.field_selector)
            .text("resourceVersion", &self.resource_version)
            .text("resourceVersionMatch", version_match)
            .option("sendInitialEvents", self.send_initial_events)
            .option("timeoutSeconds", self.timeout_seconds)
            .finish()
    }
}

/// Returns true if a text can name a subscription: 1 to 63 letters, digits, dots, dashes and underscores, none of which is
/// escaped in JSON or in a path.
#[must_use]
pub fn is_subscription_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_without_what_it_does_not_say() {
        let subscription = Subscription {
            id: "a".into(),
            version: "v1".into(),
            resource: "pods".into(),
            send_initial_events: Some(true),
            ..Subscription::default()
        };
        let message = ClientMessage { subscribe: vec![subscription], ..ClientMessage::default() };
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(
            text,
            r#"{"subscribe":[{"id":"a","version":"v1","resource":"pods","sendInitialEvents":true}]}"#
        );
        assert_eq!(ClientMessage::parse(text.as_bytes()), Ok(message));
    }

    #[test]
    fn a_subscription_stands_for_an_ordinary_watch() {
        let subscription = Subscription {
            label_selector: "a=b".into(),
            resource_version: "7".into(),
            send_initial_events: Some(true),
            timeout_seconds: Some(5),
            ..Subscription::default()
        };
        let expected = "watch=true&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7\
            &resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=5";
        assert_eq!(subscription.to_query(), expected);
        assert_eq!(Subscription::default().to_query(), "watch=true&allowWatchBookmarks=true");
    }

    #[test]
    fn unknown_members_are_refused() {
        for text in [
            r#"{"subscribes":[]}"#,
            r#"{"subscribe":[{"id":"a","version":"v1","resource":"pods","namespace":"x"}]}"#,
            r#"{"subscribe":[{"id":"a"}]}"#,
            "[]",
        ] {
            assert!(ClientMessage::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn identifiers_need_no_escapes() {
        assert!(is_subscription_id("Pods_1.v2-x") && is_subscription_id(&"a".repeat(63)));
        for bad in ["", "a b", "a\"", "ä", "a/b", "a\n", &"a".repeat(64)] {
            assert!(!is_subscription_id(bad), "{bad:?}");
        }
    }
}
