//! [`Conversion`]: the conversion webhook of a CustomResourceDefinition, as one of its versions uses it.
//!
//! It makes ConversionReviews and checks their responses: number, kind, version and identity must fit, and of the
//! metadata only labels and annotations may change, as in kube-apiserver. Converted objects are kept up to 16 MiB per
//! version, so that watchers of one version share a call per event. The calls themselves are made by
//! `api/convert.rs`, because a registry entry must not wait.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use listwatch_custom::{Definition, DefinitionVersion};
use listwatch_kinds::field::{Errors, Path};
use listwatch_kinds::meta;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Revision;
use listwatch_wire::json::{self, Map, Value, json};
use parking_lot::Mutex;

use crate::outbound::Endpoint;
use crate::registry::custom::stages::Stages;

/// Bytes of converted objects that are kept per version, so that watchers of one version share a call per event.
const KEPT_BYTES: usize = 16 << 20;

/// The conversion webhook of a definition, as one of its versions uses it.
///
/// Belongs to one version of one state of the definition, so what it keeps can never be of another schema.
#[derive(Debug)]
pub(crate) struct Conversion {
    /// `group/version` of the version that is shown.
    pub(crate) api_version: String,
    /// `group/version` of the version that is stored.
    pub(crate) stored_api_version: String,
    /// The webhook, or the problem with its configuration, which shows at the first call.
    ///
    /// Not an error of the definition: kube-apiserver accepts it and fails each request as well.
    pub(crate) endpoint: Result<Endpoint, String>,
    /// `apiVersion` of reviews: the first the webhook accepts that this server has.
    review: Option<&'static str>,
    stages: Stages,
    kept: Mutex<ConversionCache>,
}

/// The request of one ConversionReview, with the uid that the response must repeat.
///
/// All objects of one call in one review; the caller decides how many those are.
#[derive(Debug)]
pub(crate) struct ConversionReviewBody {
    version: &'static str,
    uid: String,
    pub(crate) body: Bytes,
}

impl Conversion {
    /// The conversion webhook of a definition that has one.
    pub(super) fn new(definition: &Definition, version: &DefinitionVersion, stages: &Stages) -> Option<Self> {
        let webhook = definition.conversion.as_ref()?;
        let named = |version: &DefinitionVersion| format!("{}/{}", definition.group, version.name);
        Some(Self {
            api_version: named(version),
            stored_api_version: definition.storage_version().map(named).unwrap_or_default(),
            endpoint: Endpoint::read(&webhook.client_config),
            review: webhook.review_versions.iter().find_map(|version| match version.as_str() {
                "v1" => Some("apiextensions.k8s.io/v1"),
                "v1beta1" => Some("apiextensions.k8s.io/v1beta1"),
                _ => None,
            }),
            stages: stages.clone(),
            kept: Mutex::default(),
        })
    }

    /// Returns the review that asks for these objects in another version.
    ///
    /// # Errors
    /// If the webhook accepts no review that this server has.
    pub(crate) fn ask(&self, objects: &[Value], wanted: &str) -> Result<ConversionReviewBody, String> {
        let version = self.review.ok_or("no supported conversion review versions")?;
        let uid = uuid::Uuid::new_v4().to_string();
        let review = json!({"kind": "ConversionReview", "apiVersion": version, "request": {
            "uid": uid.as_str(), "desiredAPIVersion": wanted, "objects": objects.to_vec(),
        }});
        Ok(ConversionReviewBody { version, uid, body: json::encode(&review).into() })
    }

    /// Prunes unknown fields of the version. The storage version also gets its defaults.
    pub(crate) fn accept(&self, object: &mut Value, wanted: &str) {
        self.stages.accept(object, wanted, wanted == self.stored_api_version);
    }

    /// Completes an object by the version it is stored in, if its definition may have changed since. Returns true if it is
    /// of the version that is shown.
    pub(crate) fn begin(&self, object: &mut Value, old: bool) -> bool {
        self.stages.complete(object, old);
        object.text("apiVersion") == self.api_version
    }

    /// Returns a converted object that was kept.
    ///
    /// A hit saves a call of the webhook. Writes do not use it: see `ConversionFreshness` in `api/convert.rs`.
    pub(crate) fn kept(&self, key: &Arc<str>, revision: Revision) -> Option<Bytes> {
        self.kept.lock().get(&(Arc::clone(key), revision))
    }

    /// Keeps a converted object for others.
    pub(crate) fn keep(&self, key: &Arc<str>, revision: Revision, bytes: &Bytes) {
        self.kept.lock().put((Arc::clone(key), revision), bytes.clone());
    }
}

impl ConversionReviewBody {
    /// Reads the response: the originals in the wanted version.
    ///
    /// # Errors
    /// The problem, with kube-apiserver's text.
    pub(crate) fn read(
        &self,
        answer: &[u8],
        originals: &[Value],
        wanted: &str,
    ) -> Result<Vec<Value>, String> {
        let kind = originals.first().map(kind_of).unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {kind} failed: {why}");
        let converted = self.converted(answer).map_err(failed)?;
        if converted.len() != originals.len() {
            let (found, expected) = (converted.len(), originals.len());
            return Err(format!(
                "conversion webhook for {kind} returned {found} objects, expected {expected}"
            ));
        }
        let read = |(index, (original, converted)): (usize, (&Value, &Value))| {
            restored(original, converted, wanted).map_err(|why| match why {
                Invalid::Type(why) => {
                    format!("conversion webhook for {kind} returned invalid object at index {index}: {why}")
                }
                Invalid::Object(why) => {
                    format!("conversion webhook for {kind} returned invalid object: {why}")
                }
                Invalid::Metadata(why) => {
                    format!("conversion webhook for {kind} returned invalid metadata: {why}")
                }
            })
        };
        originals.iter().zip(&converted).enumerate().map(read).collect()
    }

    /// The objects of a ConversionReview, or the reason for which the webhook refused.
    fn converted(&self, answer: &[u8]) -> Result<Vec<Value>, String> {
        let review = Value::read(answer).map_err(|error| error.to_string())?;
        let strict = self.version.ends_with("/v1");
        if strict && (review.text("apiVersion"), review.text("kind")) != (self.version, "ConversionReview") {
            return Err(format!(
                "expected webhook response of {}, Kind=ConversionReview, got {}",
                self.version,
                kind_of(&review)
            ));
        }
        let response = review.at("response");
        if !response.is_object() {
            return Err("no response provided".to_owned());
        }
        if strict && response.text("uid") != self.uid {
            return Err(format!("expected response.uid={:?}, got {:?}", self.uid, response.text("uid")));
        }
        let result = response.at("result");
        match (result.text("status"), result.text("message")) {
            ("Success", _) => Ok(response.list("convertedObjects").to_vec()),
            (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
            (_, message) => Err(message.to_owned()),
        }
    }
}

/// Group, version and kind as errors name them.
pub(crate) fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", object.text("apiVersion"), object.text("kind"))
}

/// The part of a converted object that is invalid.
enum Invalid {
    Type(String),
    Object(String),
    Metadata(String),
}

/// Returns the converted object with the metadata of the original, of which a webhook may change labels and annotations only.
///
/// A webhook must not be able to rename an object, move it or take away its finalizers.
fn restored(original: &Value, converted: &Value, wanted: &str) -> Result<Value, Invalid> {
    if converted.text("apiVersion") != wanted {
        let found = converted.text("apiVersion");
        return Err(Invalid::Type(format!("invalid groupVersion (expected {wanted}, received {found})")));
    }
    if converted.text("kind") != original.text("kind") {
        let (expected, found) = (original.text("kind"), converted.text("kind"));
        return Err(Invalid::Type(format!("invalid kind (expected {expected}, received {found})")));
    }
    let (before, after) = (original.at("metadata"), converted.at("metadata"));
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (before.text(field), after.text(field));
        if expected != found {
            return Err(Invalid::Object(format!("must have the same {name}: {expected} != {found}")));
        }
    }
    if !after.is_object() {
        let why = if converted.has("metadata") { "invalid" } else { "missing" };
        return Err(Invalid::Metadata(format!("{why} metadata in converted object")));
    }
    let mut metadata = before.as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        take_texts(&mut metadata, before, after, field).map_err(Invalid::Metadata)?;
    }
    let mut object = converted.clone();
    object.put("metadata", Value::Object(metadata));
    Ok(object)
}

/// Takes labels or annotations from the converted object.
fn take_texts(metadata: &mut Map, before: &Value, after: &Value, field: &str) -> Result<(), String> {
    let found = after.at(field);
    if found.is_null() {
        metadata.remove(field);
        return Ok(());
    }
    let Some(texts) = found.as_object() else {
        return Err(format!("invalid metadata.{field} in converted object"));
    };
    if let Some((key, _)) = texts.iter().find(|(_, value)| value.as_str().is_none()) {
        return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
    }
    if found != before.at(field) {
        let (mut errors, path) = (Errors::new(), Path::root("metadata"));
        match field {
            "labels" => meta::validate_labels(after, &path.child(field), &mut errors),
            _ => meta::validate_annotations(after, &path.child(field), &mut errors),
        }
        if let Some(error) = errors.into_vec().first() {
            return Err(error.to_string());
        }
    }
    metadata.put(field, found.clone());
    Ok(())
}

/// Converted objects in two generations: when the younger one is full, the older one is dropped.
///
/// Half of the bound per generation. An entry is a key with a revision, so no entry is ever outdated.
#[derive(Debug, Default)]
struct ConversionCache {
    young: HashMap<ConversionPlace, Bytes>,
    old: HashMap<ConversionPlace, Bytes>,
    bytes: usize,
}

/// A storage key and a revision: a stored version never changes.
type ConversionPlace = (Arc<str>, Revision);

impl ConversionCache {
    /// Returns a cached conversion. One of the old generation moves to the young one, and so survives the next change
    /// of generations.
    fn get(&mut self, place: &ConversionPlace) -> Option<Bytes> {
        if let Some(found) = self.young.get(place) {
            return Some(found.clone());
        }
        let found = self.old.remove(place)?;
        self.put(place.clone(), found.clone());
        Some(found)
    }

    /// Two generations: when the young one is full, the old one is dropped. No order of use is kept.
    fn put(&mut self, place: ConversionPlace, bytes: Bytes) {
        self.bytes += bytes.len() + place.0.len();
        self.young.insert(place, bytes);
        if self.bytes > KEPT_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review() -> ConversionReviewBody {
        ConversionReviewBody { version: "apiextensions.k8s.io/v1", uid: "u".to_owned(), body: Bytes::new() }
    }

    fn original() -> Value {
        json!({"kind": "W", "apiVersion": "g/v1", "metadata": {"name": "a", "uid": "1", "labels": {"a": "b"}, "generation": 3}})
    }

    fn read(response: Value) -> Result<Vec<Value>, String> {
        let answer = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response});
        review().read(&json::encode(&answer), &[original()], "g/v2")
    }

    fn converted(object: Value) -> Result<Vec<Value>, String> {
        read(json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [object]}))
    }

    #[test]
    fn a_webhook_changes_labels_and_annotations_and_no_other_metadata() {
        let answer = converted(json!({"kind": "W", "apiVersion": "g/v2", "metadata": {
            "name": "a", "uid": "1", "annotations": {"n": "1"}, "generation": 9, "finalizers": ["x"]}, "spec": {"two": 2}}));
        assert_eq!(
            answer.unwrap(),
            [json!({"kind": "W", "apiVersion": "g/v2", "metadata": {
                "name": "a", "uid": "1", "annotations": {"n": "1"}, "generation": 3}, "spec": {"two": 2}})]
        );
    }

    #[test]
    fn answers_that_cannot_be_used_are_refused_with_the_messages_of_kube_apiserver() {
        let object = |api_version: &str, kind: &str, metadata: Value| json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        for (answer, expected) in [
            (
                read(json!({"uid": "u", "result": {"status": "Failed", "message": "no way"}})),
                "conversion webhook for g/v1, Kind=W failed: no way",
            ),
            (
                read(json!({"uid": "u", "result": {"status": "Failed"}})),
                "conversion webhook for g/v1, Kind=W failed: response.result.status was 'Failed', not 'Success'",
            ),
            (
                read(json!({"uid": "x", "result": {"status": "Success"}})),
                "conversion webhook for g/v1, Kind=W failed: expected response.uid=\"u\", got \"x\"",
            ),
            (
                read(json!({"uid": "u", "result": {"status": "Success"}})),
                "conversion webhook for g/v1, Kind=W returned 0 objects, expected 1",
            ),
            (read(Value::Null), "conversion webhook for g/v1, Kind=W failed: no response provided"),
            (
                converted(object("g/v1", "W", json!({}))),
                "conversion webhook for g/v1, Kind=W returned invalid object at index 0: invalid groupVersion (expected g/v2, received g/v1)",
            ),
            (
                converted(object("g/v2", "X", json!({}))),
                "conversion webhook for g/v1, Kind=W returned invalid object at index 0: invalid kind (expected W, received X)",
            ),
            (
                converted(object("g/v2", "W", json!({"name": "b"}))),
                "conversion webhook for g/v1, Kind=W returned invalid object: must have the same name: a != b",
            ),
            (
                converted(object("g/v2", "W", json!({"name": "a", "uid": "2"}))),
                "conversion webhook for g/v1, Kind=W returned invalid object: must have the same UID: 1 != 2",
            ),
            (
                converted(object("g/v2", "W", json!({"name": "a", "uid": "1", "labels": {"a": 1}}))),
                "conversion webhook for g/v1, Kind=W returned invalid metadata: metadata.labels[a] must be a string in converted object",
            ),
        ] {
            assert_eq!(answer.unwrap_err(), expected);
        }
    }

    #[test]
    fn conversions_are_bounded_and_used_ones_stay() {
        let mut kept = ConversionCache::default();
        let place = |n: u64| -> ConversionPlace { ("key".into(), Revision(n)) };
        let object = Bytes::from(vec![0; 1 << 20]);
        for n in 0..64 {
            kept.put(place(n), object.clone());
            assert!(kept.get(&place(0)).is_some(), "{n}");
            assert!((kept.young.len() + kept.old.len()) * object.len() <= KEPT_BYTES + 2 * object.len());
        }
        assert!(kept.get(&place(1)).is_none());
    }
}
