//! [`ModelState`]: a model of the API made of maps.
//!
//! Every change has a revision, and the state at each is kept, so that lists at an old revision, pages, and watches from
//! anywhere can be compared with it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A namespace and a name.
pub type ObjectKey = (&'static str, &'static str);

/// An object as far as the model knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelObject {
    pub revision: u64,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub data: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

impl ModelObject {
    /// Reads the parts that the model knows from an object of the API.
    pub fn read(object: &Value) -> Self {
        let meta = &object["metadata"];
        let map = |value: &Value| -> BTreeMap<String, String> {
            let entries = value.as_object().into_iter().flatten();
            entries.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
        };
        let finalizers = meta["finalizers"].as_array().into_iter().flatten();
        Self {
            revision: meta["resourceVersion"].as_str().unwrap().parse().unwrap(),
            uid: meta["uid"].as_str().unwrap().to_owned(),
            labels: map(&meta["labels"]),
            data: map(&object["data"]),
            finalizers: finalizers.map(|name| name.as_str().unwrap().to_owned()).collect(),
            deleting: meta.get("deletionTimestamp").is_some(),
        }
    }

    /// The object as a client sends it.
    pub fn sent(&self, (namespace, name): ObjectKey) -> Value {
        let mut meta = json!({"namespace": namespace, "name": name});
        if !self.labels.is_empty() {
            meta["labels"] = json!(self.labels);
        }
        if !self.finalizers.is_empty() {
            meta["finalizers"] = json!(self.finalizers);
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": self.data})
    }

    /// True if the two differ in what a client can change.
    pub fn differs(&self, other: &Self) -> bool {
        (&self.labels, &self.data, &self.finalizers) != (&other.labels, &other.data, &other.finalizers)
    }
}

pub type Objects = BTreeMap<ObjectKey, ModelObject>;

/// All objects, now and at each revision before.
#[derive(Clone, Debug, Default)]
pub struct ModelState {
    pub objects: Objects,
    pub revision: u64,
    /// The object that each revision made; `None` if it deleted it.
    pub history: Vec<(u64, ObjectKey, Option<ModelObject>)>,
}

impl ModelState {
    /// Puts an object in its place, or takes it away.
    pub fn set(&mut self, key: ObjectKey, revision: u64, object: Option<ModelObject>) {
        assert!(revision > self.revision, "revisions grow: {revision} after {}", self.revision);
        self.revision = revision;
        match &object {
            Some(object) => drop(self.objects.insert(key, ModelObject { revision, ..object.clone() })),
            None => drop(self.objects.remove(&key)),
        }
        self.history.push((revision, key, self.objects.get(&key).cloned()));
    }

    /// The objects at a revision.
    pub fn at(&self, revision: u64) -> Objects {
        let mut objects = Objects::new();
        for (_, key, object) in self.history.iter().take_while(|(at, ..)| *at <= revision) {
            match object {
                Some(object) => drop(objects.insert(*key, object.clone())),
                None => drop(objects.remove(key)),
            }
        }
        objects
    }

    /// The events that a watch of some objects gets after a revision: type, key and revision.
    pub fn events(
        &self,
        after: u64,
        wanted: &dyn Fn(ObjectKey, &ModelObject) -> bool,
    ) -> Vec<(&'static str, ObjectKey, u64)> {
        let mut objects = self.at(after);
        let mut events = Vec::new();
        for (at, key, object) in self.history.iter().filter(|(at, ..)| *at > after) {
            let was = objects.get(key).is_some_and(|object| wanted(*key, object));
            let is = object.as_ref().is_some_and(|object| wanted(*key, object));
            match object {
                Some(object) => drop(objects.insert(*key, object.clone())),
                None => drop(objects.remove(key)),
            }
            let kind = match (was, is) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => continue,
            };
            events.push((kind, *key, *at));
        }
        events
    }
}
