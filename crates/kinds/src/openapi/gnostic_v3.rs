//! The v3 documents in protobuf: the messages of gnostic's `OpenAPIv3.proto`.
//!
//! Parts of OpenAPI that Kubernetes does not use, such as links and callbacks, are not in the tables.

use listwatch_wire::json::Value;

use crate::proto::message_table::FieldForm::{Double, Flag, Integer, Many, One, Text, Texts};
use crate::proto::message_table::{MessageField as F, ProtoMessage};

/// Writes a v3 document, which is given as JSON, in protobuf. `None` if it is no JSON.
#[must_use]
pub fn v3_protobuf(document: &[u8]) -> Option<Vec<u8>> {
    Some(DOCUMENT.of(&Value::read(document).ok()?))
}

static DOCUMENT: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("openapi", 1, Text),
        F("info", 2, One(&INFO)),
        F("paths", 4, One(&PATHS)),
        F("components", 5, One(&COMPONENTS)),
    ],
    extensions: Some(9),
};

static INFO: ProtoMessage = ProtoMessage::Object {
    fields: &[F("title", 1, Text), F("description", 2, Text), F("version", 6, Text)],
    extensions: Some(7),
};

static PATHS: ProtoMessage = ProtoMessage::Map(1, &PATH_ITEM);

static PATH_ITEM: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("summary", 2, Text),
        F("description", 3, Text),
        F("get", 4, One(&OPERATION)),
        F("put", 5, One(&OPERATION)),
        F("post", 6, One(&OPERATION)),
        F("delete", 7, One(&OPERATION)),
        F("options", 8, One(&OPERATION)),
        F("head", 9, One(&OPERATION)),
        F("patch", 10, One(&OPERATION)),
        F("trace", 11, One(&OPERATION)),
        F("parameters", 13, Many(&ProtoMessage::OrReference(&PARAMETER))),
    ],
    extensions: Some(14),
};

static OPERATION: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("tags", 1, Texts),
        F("summary", 2, Text),
        F("description", 3, Text),
        F("operationId", 5, Text),
        F("parameters", 6, Many(&ProtoMessage::OrReference(&PARAMETER))),
        F("requestBody", 7, One(&ProtoMessage::OrReference(&REQUEST_BODY))),
        F("responses", 8, One(&ProtoMessage::Map(2, &RESPONSE_OR_REFERENCE))),
        F("deprecated", 10, Flag),
    ],
    extensions: Some(13),
};

static PARAMETER: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("name", 1, Text),
        F("in", 2, Text),
        F("description", 3, Text),
        F("required", 4, Flag),
        F("deprecated", 5, Flag),
        F("schema", 10, One(&SCHEMA_OR_REFERENCE)),
    ],
    extensions: Some(14),
};

static REQUEST_BODY: ProtoMessage = ProtoMessage::Object {
    fields: &[F("description", 1, Text), F("content", 2, One(&MEDIA_TYPES)), F("required", 3, Flag)],
    extensions: Some(4),
};

static RESPONSE_OR_REFERENCE: ProtoMessage = ProtoMessage::OrReference(&RESPONSE);

static RESPONSE: ProtoMessage = ProtoMessage::Object {
    fields: &[F("description", 1, Text), F("content", 3, One(&MEDIA_TYPES))],
    extensions: Some(5),
};

static MEDIA_TYPES: ProtoMessage = ProtoMessage::Map(1, &MEDIA_TYPE);

static MEDIA_TYPE: ProtoMessage =
    ProtoMessage::Object { fields: &[F("schema", 1, One(&SCHEMA_OR_REFERENCE))], extensions: Some(5) };

static COMPONENTS: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("schemas", 1, One(&SCHEMAS)),
        F("parameters", 3, One(&ProtoMessage::Map(1, &PARAMETER_OR_REFERENCE))),
        F("securitySchemes", 7, One(&ProtoMessage::Map(1, &SECURITY_SCHEME_OR_REFERENCE))),
    ],
    extensions: Some(10),
};

static PARAMETER_OR_REFERENCE: ProtoMessage = ProtoMessage::OrReference(&PARAMETER);

static SECURITY_SCHEME_OR_REFERENCE: ProtoMessage = ProtoMessage::OrReference(&SECURITY_SCHEME);

static SECURITY_SCHEME: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("type", 1, Text),
        F("description", 2, Text),
        F("name", 3, Text),
        F("in", 4, Text),
        F("scheme", 5, Text),
        F("bearerFormat", 6, Text),
    ],
    extensions: Some(9),
};

static SCHEMAS: ProtoMessage = ProtoMessage::Map(1, &SCHEMA_OR_REFERENCE);

static SCHEMA_OR_REFERENCE: ProtoMessage = ProtoMessage::OrReference(&SCHEMA);

static EXTERNAL_DOCS: ProtoMessage =
    ProtoMessage::Object { fields: &[F("description", 1, Text), F("url", 2, Text)], extensions: Some(3) };

static SCHEMA: ProtoMessage = ProtoMessage::Object {
    fields: &[
        F("nullable", 1, Flag),
        F("readOnly", 3, Flag),
        F("writeOnly", 4, Flag),
        F("externalDocs", 6, One(&EXTERNAL_DOCS)),
        F("example", 7, One(&ProtoMessage::Yaml)),
        F("deprecated", 8, Flag),
        F("title", 9, Text),
        F("multipleOf", 10, Double),
        F("maximum", 11, Double),
        F("exclusiveMaximum", 12, Flag),
        F("minimum", 13, Double),
        F("exclusiveMinimum", 14, Flag),
        F("maxLength", 15, Integer),
        F("minLength", 16, Integer),
        F("pattern", 17, Text),
        F("maxItems", 18, Integer),
        F("minItems", 19, Integer),
        F("uniqueItems", 20, Flag),
        F("maxProperties", 21, Integer),
        F("minProperties", 22, Integer),
        F("required", 23, Texts),
        F("enum", 24, Many(&ProtoMessage::Yaml)),
        F("type", 25, Text),
        F("allOf", 26, Many(&SCHEMA_OR_REFERENCE)),
        F("oneOf", 27, Many(&SCHEMA_OR_REFERENCE)),
        F("anyOf", 28, Many(&SCHEMA_OR_REFERENCE)),
        F("not", 29, One(&SCHEMA)),
        F("items", 30, One(&ProtoMessage::Only(&SCHEMA_OR_REFERENCE))),
        F("properties", 31, One(&SCHEMAS)),
        F("additionalProperties", 32, One(&ProtoMessage::OrFlag(&SCHEMA_OR_REFERENCE))),
        F("default", 33, One(&ProtoMessage::Scalar)),
        F("description", 34, Text),
        F("format", 35, Text),
    ],
    extensions: Some(36),
};
