//! The Go structs of autoscalers whose JSON is in annotations of `v1`: fields in Go's order, and how each is written if unset.

use super::go_text::Unset::{Absent, Null, Zero};
use super::go_text::{GoField, GoType, field};

static OBJECT_REFERENCE: [GoField; 3] = [
    field("kind", GoType::Text, Zero),
    field("name", GoType::Text, Zero),
    field("apiVersion", GoType::Text, Absent),
];
static SELECTOR: [GoField; 2] = [
    field("matchLabels", GoType::TextMap, Absent),
    field("matchExpressions", GoType::List(&REQUIREMENT), Absent),
];
static REQUIREMENT: [GoField; 3] = [
    field("key", GoType::Text, Zero),
    field("operator", GoType::Text, Zero),
    field("values", GoType::Texts, Absent),
];
pub(super) static METRIC_SPEC: [GoField; 6] = [
    field("type", GoType::Text, Zero),
    field("object", GoType::Struct(&OBJECT_SPEC), Absent),
    field("pods", GoType::Struct(&PODS_SPEC), Absent),
    field("resource", GoType::Struct(&RESOURCE_SPEC), Absent),
    field("containerResource", GoType::Struct(&CONTAINER_SPEC), Absent),
    field("external", GoType::Struct(&EXTERNAL_SPEC), Absent),
];
static OBJECT_SPEC: [GoField; 5] = [
    field("target", GoType::Struct(&OBJECT_REFERENCE), Zero),
    field("metricName", GoType::Text, Zero),
    field("targetValue", GoType::Amount, Zero),
    field("selector", GoType::Struct(&SELECTOR), Absent),
    field("averageValue", GoType::Amount, Absent),
];
static PODS_SPEC: [GoField; 3] = [
    field("metricName", GoType::Text, Zero),
    field("targetAverageValue", GoType::Amount, Zero),
    field("selector", GoType::Struct(&SELECTOR), Absent),
];
static RESOURCE_SPEC: [GoField; 3] = [
    field("name", GoType::Text, Zero),
    field("targetAverageUtilization", GoType::Number, Absent),
    field("targetAverageValue", GoType::Amount, Absent),
];
static CONTAINER_SPEC: [GoField; 4] = [
    field("name", GoType::Text, Zero),
    field("targetAverageUtilization", GoType::Number, Absent),
    field("targetAverageValue", GoType::Amount, Absent),
    field("container", GoType::Text, Zero),
];
static EXTERNAL_SPEC: [GoField; 4] = [
    field("metricName", GoType::Text, Zero),
    field("metricSelector", GoType::Struct(&SELECTOR), Absent),
    field("targetValue", GoType::Amount, Absent),
    field("targetAverageValue", GoType::Amount, Absent),
];
pub(super) static METRIC_STATUS: [GoField; 6] = [
    field("type", GoType::Text, Zero),
    field("object", GoType::Struct(&OBJECT_STATUS), Absent),
    field("pods", GoType::Struct(&PODS_STATUS), Absent),
    field("resource", GoType::Struct(&RESOURCE_STATUS), Absent),
    field("containerResource", GoType::Struct(&CONTAINER_STATUS), Absent),
    field("external", GoType::Struct(&EXTERNAL_STATUS), Absent),
];
static OBJECT_STATUS: [GoField; 5] = [
    field("target", GoType::Struct(&OBJECT_REFERENCE), Zero),
    field("metricName", GoType::Text, Zero),
    field("currentValue", GoType::Amount, Zero),
    field("selector", GoType::Struct(&SELECTOR), Absent),
    field("averageValue", GoType::Amount, Absent),
];
static PODS_STATUS: [GoField; 3] = [
    field("metricName", GoType::Text, Zero),
    field("currentAverageValue", GoType::Amount, Zero),
    field("selector", GoType::Struct(&SELECTOR), Absent),
];
static RESOURCE_STATUS: [GoField; 3] = [
    field("name", GoType::Text, Zero),
    field("currentAverageUtilization", GoType::Number, Absent),
    field("currentAverageValue", GoType::Amount, Zero),
];
static CONTAINER_STATUS: [GoField; 4] = [
    field("name", GoType::Text, Zero),
    field("currentAverageUtilization", GoType::Number, Absent),
    field("currentAverageValue", GoType::Amount, Zero),
    field("container", GoType::Text, Zero),
];
static EXTERNAL_STATUS: [GoField; 4] = [
    field("metricName", GoType::Text, Zero),
    field("metricSelector", GoType::Struct(&SELECTOR), Absent),
    field("currentValue", GoType::Amount, Zero),
    field("currentAverageValue", GoType::Amount, Absent),
];
pub(super) static CONDITION: [GoField; 6] = [
    field("type", GoType::Text, Zero),
    field("status", GoType::Text, Zero),
    field("lastTransitionTime", GoType::Time, Null),
    field("reason", GoType::Text, Absent),
    field("message", GoType::Text, Absent),
    field("observedGeneration", GoType::Number, Absent),
];
/// kube-apiserver writes its internal struct here, which has no names of its own for JSON.
pub(super) static INTERNAL_BEHAVIOR: [GoField; 2] = [
    field("ScaleUp", GoType::Struct(&INTERNAL_RULES), Null),
    field("ScaleDown", GoType::Struct(&INTERNAL_RULES), Null),
];
static INTERNAL_RULES: [GoField; 4] = [
    field("StabilizationWindowSeconds", GoType::Number, Null),
    field("SelectPolicy", GoType::Text, Null),
    field("Policies", GoType::List(&INTERNAL_POLICY), Null),
    field("Tolerance", GoType::Amount, Null),
];
static INTERNAL_POLICY: [GoField; 3] = [
    field("Type", GoType::Text, Zero),
    field("Value", GoType::Number, Zero),
    field("PeriodSeconds", GoType::Number, Zero),
];
/// The fields of the behavior with the names of the API, for reading.
pub(super) static BEHAVIOR_FIELDS: [GoField; 2] = [
    field("scaleUp", GoType::Struct(&RULES_FIELDS), Absent),
    field("scaleDown", GoType::Struct(&RULES_FIELDS), Absent),
];
static RULES_FIELDS: [GoField; 4] = [
    field("stabilizationWindowSeconds", GoType::Number, Absent),
    field("selectPolicy", GoType::Text, Absent),
    field("policies", GoType::List(&POLICY_FIELDS), Absent),
    field("tolerance", GoType::Amount, Absent),
];
static POLICY_FIELDS: [GoField; 3] = [
    field("type", GoType::Text, Zero),
    field("value", GoType::Number, Zero),
    field("periodSeconds", GoType::Number, Zero),
];
