//! Many watches in one stream: the messages of the client and the frames of the server, as `docs/many-kinds.md` specifies them.
//!
//! A frame is a line of JSON. The one that matters carries an event of a subscription, exactly as an ordinary watch would send
//! it, so that neither end encodes or parses it a second time: the server copies the line between two constants
//! ([`enclose`]), the client slices it out again ([`FrameDecoder`]).

mod frame;
mod message;

pub use frame::{FrameDecoder, StreamFrame, StreamHead, SubscriptionStart, enclose, event_prefix};
pub use message::{ClientMessage, Subscription, is_subscription_id};

/// The path that lists the features of a server beyond Kubernetes.
pub const FEATURES_PATH: &str = "/listwatch/v1";
/// The path of streams.
pub const PATH: &str = "/listwatch/v1/watch";
/// The name of the feature.
pub const FEATURE: &str = "watch";

/// The path to which changes of the subscriptions of a stream are posted.
#[must_use]
pub fn subscriptions_path(id: &str) -> String {
    format!("{PATH}/{id}/subscriptions")
}
