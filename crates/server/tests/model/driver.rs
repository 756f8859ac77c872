//! [`run`]: random calls of the API, whose responses are compared with the model.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::choices::Choices;
use super::client::Http;
use super::selectors::{ModelSelector, SELECTORS};
use super::state::{ModelObject, ModelState, ObjectKey};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const NAMES: [&str; 4] = ["a", "b", "b-c", "d"];
/// Watches that are open at the same time.
const WATCHES: usize = 4;

/// The two namespaces of a run, used by no other.
pub type Namespaces = [&'static str; 2];

struct OpenWatch {
    http: Http,
    after: u64,
    namespace: Option<&'static str>,
    selector: ModelSelector,
}

/// A list that has been read in part.
struct OpenList {
    path: String,
    token: String,
    revision: u64,
    /// The keys that are still to come.
    rest: Vec<ObjectKey>,
}

struct Run<'a> {
    http: Http,
    address: SocketAddr,
    token: &'a str,
    namespaces: Namespaces,
    state: ModelState,
    watches: Vec<OpenWatch>,
    list: Option<OpenList>,
    choices: Choices<'a>,
}

/// Makes one call per few bytes, and at the end reads what the watches saw.
pub fn run(address: SocketAddr, token: &str, namespaces: Namespaces, bytes: &[u8]) {
    let mut http = Http::connect(address, token);
    for name in namespaces {
        let (code, _) =
            http.call("POST", "/api/v1/namespaces", JSON, Some(&json!({"metadata": {"name": name}})));
        assert!(matches!(code, 201 | 409), "{code}");
    }
    let (_, list) = http.call("GET", "/api/v1/configmaps?limit=1", JSON, None);
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let state = ModelState { revision, ..ModelState::default() };
    let choices = Choices::new(bytes);
    let mut run = Run { http, address, token, namespaces, state, watches: Vec::new(), list: None, choices };
    while !run.choices.is_empty() {
        run.step();
    }
    run.finish();
}

impl Run<'_> {
    fn step(&mut self) {
        let key = (self.choices.one(&self.namespaces), self.choices.one(&NAMES));
        match self.choices.below(16) {
            0..=2 => self.create(key),
            3..=4 => self.update(key),
            5..=6 => self.merge_patch(key),
            7..=8 => self.json_patch(key),
            9..=10 => self.delete(key),
            11 => self.get(key),
            12 => self.list(),
            13 => self.page(),
            14 => self.watch(),
            _ => self.delete_some(),
        }
    }

    /// Contents of an object.
    fn contents(&mut self) -> ModelObject {
        let mut object = ModelObject::default();
        if let Some(label) = self.choices.one(&[None, Some("a"), Some("b")]) {
            object.labels.insert("l".to_owned(), label.to_owned());
        }
        for key in ["k1", "k2"] {
            if let Some(value) = self.choices.one(&[None, Some("1"), Some("2")]) {
                object.data.insert(key.to_owned(), value.to_owned());
            }
        }
        if self.choices.rarely(4) {
            object.finalizers.push("example.com/f".to_owned());
        }
        object
    }

    fn create(&mut self, key: ObjectKey) {
        let object = self.contents();
        let (code, body) = self.http.call("POST", &collection(key.0), JSON, Some(&object.sent(key)));
        if self.state.objects.contains_key(&key) {
            return assert_eq!((code, &body["reason"]), (409, &json!("AlreadyExists")), "{body}");
        }
        assert_eq!(code, 201, "{body}");
        let made = ModelObject::read(&body);
        assert!(!made.differs(&object) && !made.deleting, "{body}");
        self.state.set(key, made.revision, Some(made));
    }

    /// A PUT, sometimes of an old version or another object.
    fn update(&mut self, key: ObjectKey) {
        let new = self.contents();
        let mut body = new.sent(key);
        let old = self.state.objects.get(&key).cloned();
        let revision = old.as_ref().map_or(1, |old| old.revision);
        let stale = match self.choices.below(4) {
            0 => {
                body["metadata"]["resourceVersion"] = json!(revision.to_string());
                false
            }
            1 => {
                body["metadata"]["resourceVersion"] = json!((revision - 1).max(1).to_string());
                true
            }
            2 => {
                body["metadata"]["uid"] = json!("11111111-1111-1111-1111-111111111111");
                true
            }
            _ => false,
        };
        let (code, body) = self.http.call("PUT", &object_path(key), JSON, Some(&body));
        match old {
            None => assert_eq!(code, 404, "{body}"),
            Some(_) if stale => assert_eq!((code, &body["reason"]), (409, &json!("Conflict")), "{body}"),
            Some(old) => self.changed(key, &old, new, code, &body),
        }
    }

    fn merge_patch(&mut self, key: ObjectKey) {
        let Some(old) = self.state.objects.get(&key).cloned() else {
            let (code, body) =
                self.http.call("PATCH", &object_path(key), MERGE, Some(&json!({"data": {"a": "b"}})));
            return assert_eq!(code, 404, "{body}");
        };
        let mut new = old.clone();
        let mut patch = json!({});
        let field = self.choices.one(&["k1", "k2", "k3"]);
        match self.choices.one(&[None, Some("1"), Some("2")]) {
            Some(value) => {
                patch["data"] = json!({field: value});
                new.data.insert(field.to_owned(), value.to_owned());
            }
            None => {
                patch["data"] = json!({field: null});
                new.data.remove(field);
            }
        }
        if self.choices.rarely(3) {
            patch["metadata"]["labels"] = json!({"l": null});
            new.labels.remove("l");
        }
        if self.choices.rarely(3) {
            patch["metadata"]["finalizers"] = Value::Null;
            new.finalizers.clear();
        }
        let stale = self.choices.rarely(5);
        if stale {
            patch["metadata"]["resourceVersion"] = json!((old.revision - 1).max(1).to_string());
        }
        let (code, body) = self.http.call("PATCH", &object_path(key), MERGE, Some(&patch));
        match stale {
            true => assert_eq!((code, &body["reason"]), (409, &json!("Conflict")), "{body}"),
            false => self.changed(key, &old, new, code, &body),
        }
    }

    fn json_patch(&mut self, key: ObjectKey) {
        let field = self.choices.one(&["k1", "k2"]);
        let path = format!("/data/{field}");
        let old = self.state.objects.get(&key).cloned();
        let held = old.as_ref().and_then(|old| old.data.get(field)).cloned();
        let mut new = old.clone().unwrap_or_default();
        let (patch, possible) = match self.choices.below(3) {
            0 => {
                new.data.remove(field);
                (json!([{"op": "remove", "path": path}]), held.is_some())
            }
            1 => {
                new.data.insert(field.to_owned(), "3".to_owned());
                let test = json!({"op": "test", "path": path, "value": "1"});
                (json!([test, {"op": "replace", "path": path, "value": "3"}]), held.as_deref() == Some("1"))
            }
            _ => {
                new.data.insert(field.to_owned(), "4".to_owned());
                // An object without any data has no map to add to.
                let possible = old.as_ref().is_some_and(|old| !old.data.is_empty());
                (json!([{"op": "add", "path": path, "value": "4"}]), possible)
            }
        };
        let (code, body) = self.http.call("PATCH", &object_path(key), JSON_PATCH, Some(&patch));
        match old {
            None => assert_eq!(code, 404, "{body}"),
            Some(old) if possible => self.changed(key, &old, new, code, &body),
            Some(old) => {
                let map_is_there = code == 200 && held.is_none() && new.data.len() == 1;
                match map_is_there {
                    // An empty map that was sent as such is one that can be added to.
                    true => self.changed(key, &old, new, code, &body),
                    false => assert_eq!(code, 422, "{body}"),
                }
            }
        }
    }

    /// The response to a change that is in order: the new object, the old one if nothing changed, or its last state.
    fn changed(&mut self, key: ObjectKey, old: &ModelObject, new: ModelObject, code: u16, body: &Value) {
        if old.deleting && new.finalizers.iter().any(|finalizer| !old.finalizers.contains(finalizer)) {
            return assert_eq!(code, 422, "no finalizers are added to what is being deleted: {body}");
        }
        assert_eq!(code, 200, "{body}");
        let answered = ModelObject::read(body);
        assert!(!answered.differs(&new), "{body} instead of {new:?}");
        assert_eq!((&answered.uid, answered.deleting), (&old.uid, old.deleting), "{body}");
        if old.deleting && new.finalizers.is_empty() {
            assert!(answered.revision >= old.revision);
            let gone = self.revision_of_the_deletion();
            return self.state.set(key, gone, None);
        }
        match new.differs(old) {
            true => self.state.set(key, answered.revision, Some(answered)),
            false => assert_eq!(answered.revision, old.revision, "nothing has changed: {body}"),
        }
    }

    /// The deletion was the last change of all, so that a list has its revision.
    fn revision_of_the_deletion(&mut self) -> u64 {
        let (_, list) = self.http.call("GET", "/api/v1/configmaps?limit=1", JSON, None);
        list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    fn delete(&mut self, key: ObjectKey) {
        let old = self.state.objects.get(&key).cloned();
        let (preconditions, wrong) = match (self.choices.below(4), &old) {
            (0, Some(old)) => (json!({"uid": old.uid, "resourceVersion": old.revision.to_string()}), false),
            (1, _) => (json!({"uid": "11111111-1111-1111-1111-111111111111"}), true),
            (2, Some(old)) => (json!({"resourceVersion": (old.revision + 1000).to_string()}), true),
            _ => (Value::Null, false),
        };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if !preconditions.is_null() {
            options["preconditions"] = preconditions;
        }
        let (code, body) = self.http.call("DELETE", &object_path(key), JSON, Some(&options));
        match old {
            None => assert_eq!(code, 404, "{body}"),
            Some(_) if wrong => assert_eq!((code, &body["reason"]), (409, &json!("Conflict")), "{body}"),
            Some(old) => {
                assert_eq!(code, 200, "{body}");
                self.deleted(key, &old);
            }
        }
    }

    /// An object was deleted: it is removed, or marked if it has finalizers.
    fn deleted(&mut self, key: ObjectKey, old: &ModelObject) {
        if old.finalizers.is_empty() {
            let gone = self.revision_of_the_deletion();
            return self.state.set(key, gone, None);
        }
        let (code, body) = self.http.call("GET", &object_path(key), JSON, None);
        assert_eq!(code, 200, "finalizers hold it: {body}");
        let marked = ModelObject::read(&body);
        assert!(marked.deleting && !marked.differs(old), "{body}");
        match old.deleting {
            true => assert_eq!(marked.revision, old.revision, "it was marked before: {body}"),
            false => self.state.set(key, marked.revision, Some(marked)),
        }
    }

    /// Deletes what a selector matches in a namespace, one by one as far as revisions go.
    fn delete_some(&mut self) {
        let (namespace, selector) = (self.choices.one(&self.namespaces), self.choices.one(&SELECTORS[1..]));
        let path = format!("{}?labelSelector={}", collection(namespace), selector.text);
        let meant: Vec<(ObjectKey, ModelObject)> = self
            .state
            .objects
            .iter()
            .filter(|(key, object)| key.0 == namespace && (selector.matches)(object))
            .map(|(key, object)| (*key, object.clone()))
            .collect();
        let before = self.state.revision;
        let (code, body) = self.http.call("DELETE", &path, JSON, None);
        assert_eq!(code, 200, "{body}");
        // Their order is not guaranteed: a watch opened before shows their revisions.
        let changes = meant.iter().filter(|(_, object)| !object.deleting).count();
        let mut watch = Http::connect(self.address, self.token)
            .watch(&format!("{}?watch=1&resourceVersion={before}", collection(namespace)));
        let mut buffer = Vec::new();
        for _ in 0..changes {
            let event = watch.event(&mut buffer);
            let object = ModelObject::read(&event["object"]);
            let name = event["object"]["metadata"]["name"].as_str().unwrap();
            let (key, old) = meant.iter().find(|(key, _)| key.1 == name).unwrap_or_else(|| panic!("{event}"));
            let gone = old.finalizers.is_empty();
            assert_eq!(event["type"], if gone { "DELETED" } else { "MODIFIED" }, "{event}");
            self.state.set(*key, object.revision, (!gone).then_some(object));
        }
    }

    fn get(&mut self, key: ObjectKey) {
        let query = match self.choices.rarely(2) {
            true => format!("?resourceVersion={}", self.state.revision),
            false => String::new(),
        };
        let (code, body) = self.http.call("GET", &format!("{}{query}", object_path(key)), JSON, None);
        match self.state.objects.get(&key) {
            Some(object) => assert_eq!((code, &ModelObject::read(&body)), (200, object), "{body}"),
            None => assert_eq!(code, 404, "{body}"),
        }
    }

    /// A list of now or of an old revision, whole.
    fn list(&mut self) {
        let selector = self.choices.one(&SELECTORS);
        let namespace = self.choices.one(&[Some(self.namespaces[0]), Some(self.namespaces[1]), None]);
        let mut path = format!("{}?labelSelector={}", scope(namespace), selector.text);
        let mut at = self.state.revision;
        if let Some(&(revision, ..)) = self.some_change()
            && self.choices.rarely(2)
        {
            at = revision;
            path += &format!("&resourceVersion={revision}&resourceVersionMatch=Exact");
        }
        let (code, body) = self.http.call("GET", &path, JSON, None);
        assert_eq!(code, 200, "{path}: {body}");
        let expected = self.expected(at, namespace, selector);
        assert_eq!(self.keys(&body), expected, "{path}: {body}");
        let objects = self.state.at(at);
        for (key, item) in self.own(&body) {
            assert_eq!(Some(&ModelObject::read(item)), objects.get(&key), "{path}");
        }
    }

    fn some_change(&mut self) -> Option<&(u64, ObjectKey, Option<ModelObject>)> {
        let count = self.state.history.len();
        let at = if count == 0 { 0 } else { self.choices.below(count) };
        self.state.history.get(at)
    }

    fn expected(&self, at: u64, namespace: Option<&str>, selector: ModelSelector) -> Vec<ObjectKey> {
        let objects = self.state.at(at);
        let own = objects.iter().filter(|(key, object)| {
            namespace.is_none_or(|namespace| namespace == key.0) && (selector.matches)(object)
        });
        own.map(|(key, _)| *key).collect()
    }

    /// The objects of a list that belong to this run.
    fn own<'v>(&self, list: &'v Value) -> Vec<(ObjectKey, &'v Value)> {
        let own = |item: &'v Value| {
            let meta = &item["metadata"];
            let namespace = self.namespaces.into_iter().find(|name| meta["namespace"] == *name)?;
            Some(((namespace, NAMES.into_iter().find(|name| meta["name"] == *name)?), item))
        };
        list["items"].as_array().into_iter().flatten().filter_map(own).collect()
    }

    fn keys(&self, list: &Value) -> Vec<ObjectKey> {
        self.own(list).into_iter().map(|(key, _)| key).collect()
    }

    /// One page: the first of a list, or the next of the one at hand. All pages show the revision of the first.
    fn page(&mut self) {
        let (path, at, rest) = match self.list.take() {
            Some(list) => (format!("{}&continue={}", list.path, list.token), list.revision, list.rest),
            None => {
                let namespace = self.choices.one(&self.namespaces);
                let (limit, selector) = (1 + self.choices.below(3), self.choices.one(&SELECTORS));
                let path = format!("{}?limit={limit}&labelSelector={}", collection(namespace), selector.text);
                (path, self.state.revision, self.expected(self.state.revision, Some(namespace), selector))
            }
        };
        let (code, body) = self.http.call("GET", &path, JSON, None);
        assert_eq!(code, 200, "{path}: {body}");
        let keys = self.keys(&body);
        assert_eq!(rest.get(..keys.len()), Some(&keys[..]), "{path} at {at}: {body}");
        let rest = rest[keys.len()..].to_vec();
        match body["metadata"]["continue"].as_str().unwrap_or_default() {
            "" => assert!(rest.is_empty(), "{path}: {rest:?} are missing"),
            token => {
                let path = path.split("&continue=").next().unwrap().to_owned();
                self.list = Some(OpenList { path, token: token.to_owned(), revision: at, rest });
            }
        }
    }

    /// Begins a watch from now or from an old revision.
    fn watch(&mut self) {
        if self.watches.len() == WATCHES {
            return;
        }
        let selector = self.choices.one(&SELECTORS);
        let namespace = self.choices.one(&[Some(self.namespaces[0]), Some(self.namespaces[1]), None]);
        let after = match self.choices.rarely(2) {
            true => self.some_change().map_or(0, |change| change.0),
            false => 0,
        };
        let after = if after == 0 { self.state.revision } else { after };
        let path =
            format!("{}?watch=1&resourceVersion={after}&labelSelector={}", scope(namespace), selector.text);
        let http = Http::connect(self.address, self.token).watch(&path);
        self.watches.push(OpenWatch { http, after, namespace, selector });
    }

    /// Every watch has seen every change that it was about, once and in order.
    fn finish(mut self) {
        for mut watch in std::mem::take(&mut self.watches) {
            let wanted = |key: ObjectKey, object: &ModelObject| {
                watch.namespace.is_none_or(|namespace| namespace == key.0) && (watch.selector.matches)(object)
            };
            let mut buffer = Vec::new();
            for (kind, key, revision) in self.state.events(watch.after, &wanted) {
                let event = watch.http.event(&mut buffer);
                let meta = &event["object"]["metadata"];
                let seen = (event["type"].as_str(), meta["namespace"].as_str(), meta["name"].as_str());
                assert_eq!(seen, (Some(kind), Some(key.0), Some(key.1)), "{event}");
                assert_eq!(meta["resourceVersion"], revision.to_string(), "{event}");
            }
        }
        self.empty();
    }

    /// Leaves nothing behind.
    fn empty(&mut self) {
        for namespace in self.namespaces {
            for key in NAMES.map(|name| (namespace, name)) {
                let open = json!({"metadata": {"finalizers": null}});
                self.http.call("PATCH", &object_path(key), MERGE, Some(&open));
                self.http.call("DELETE", &object_path(key), JSON, None);
            }
        }
    }
}

fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn scope(namespace: Option<&str>) -> String {
    namespace.map_or("/api/v1/configmaps".to_owned(), collection)
}

fn object_path((namespace, name): ObjectKey) -> String {
    format!("{}/{name}", collection(namespace))
}
