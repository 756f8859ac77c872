//! Aggregated discovery in protobuf: the messages of `k8s.io/api/apidiscovery/v2`.
//!
//! The server makes the document as JSON; the tables below have the numbers of its fields. Encoding by such tables is
//! [`super::message_table`].

use listwatch_wire::json::Value;

use super::envelope;
use super::message_table::FieldForm::{Many, One, Text, Texts};
use super::message_table::{MessageField as F, ProtoMessage};

/// Encodes an `APIGroupDiscoveryList` with its envelope.
#[must_use]
pub fn aggregated_discovery(document: &Value) -> Vec<u8> {
    envelope("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &LIST.of(document))
}

static LIST: ProtoMessage = ProtoMessage::Object {
    fields: &[F("metadata", 1, One(&LIST_META)), F("items", 2, Many(&GROUP))],
    extensions: None,
};

/// The metadata of the list, in which nothing is set.
static LIST_META: ProtoMessage = ProtoMessage::Object { fields: &[], extensions: None };

static GROUP: ProtoMessage = ProtoMessage::Object {
    fields: &[F("metadata", 1, One(&META)), F("versions", 2, Many(&VERSION))],
    extensions: None,
};

static META: ProtoMessage = ProtoMessage::Object { fields: &[F("name", 1, Text)], extensions: None };

static VERSION: ProtoMessage = ProtoMessage::Object {
    fields: &[F("version", 1, Text), F("resources", 2, Many(&RESOURCE)), F("freshness", 3, Text)],
    extensions: None,
};

static RESOURCE: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("resource", 1, Text),
        F("responseKind", 2, One(&KIND)),
        F("scope", 3, Text),
        F("singularResource", 4, Text),
        F("verbs", 5, Texts),
        F("shortNames", 6, Texts),
        F("categories", 7, Texts),
        F("subresources", 8, Many(&SUBRESOURCE)),
    ],
    extensions: None,
};

static SUBRESOURCE: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("subresource", 1, Text),
        F("responseKind", 2, One(&KIND)),
        F("acceptedTypes", 3, Many(&KIND)),
        F("verbs", 4, Texts),
    ],
    extensions: None,
};

static KIND: ProtoMessage = ProtoMessage::Object {
    fields: &[F("group", 1, Text), F("version", 2, Text), F("kind", 3, Text)],
    extensions: None,
};
