//! Merges the v2 documents of extension API servers into the server's v2 document.
//!
//! [`extension_v2`] extracts the part about one group and version; [`DocumentMerge`] merges it with the server's own
//! paths and definitions by the rules of kube-aggregator: the server's own paths win; a definition that both have and
//! that is the same but for its kinds is shared, with the kinds of both; one that differs is renamed (`NAME_v2`,
//! `NAME_v3`), with all references to it. The documents are untrusted: parts of unexpected form are left out, and
//! dangling references are tolerated.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use listwatch_wire::json::{self, Map, Value, json};

use super::Section;
use crate::tree::Tree;

const KINDS: &str = "x-kubernetes-group-version-kind";

/// Returns the part of an extension API server's v2 document that describes one group and version, as a smaller document;
/// `None` if there is none.
#[must_use]
pub fn extension_v2(document: &[u8], group: &str, version: &str) -> Option<Vec<u8>> {
    let extension = Extension::read(document)?;
    let prefix = format!("/apis/{group}/{version}/");
    extension.with_paths(|path| path.starts_with(&prefix)).map(|part| part.encode())
}

/// The paths, definitions and parameters of a document, each a map of objects.
#[derive(Default)]
struct Extension {
    paths: Map,
    definitions: Map,
    parameters: Map,
}

impl Extension {
    /// Reads the parts of a document that are merged; everything else in it is left alone.
    fn read(document: &[u8]) -> Option<Self> {
        let document = Value::read(document).ok()?;
        let section = |name: &str| -> Map {
            let members = document.entries(name).filter(|(_, value)| value.is_object());
            members.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        let (paths, definitions) = (section("paths"), section("definitions"));
        Some(Self { paths, definitions, parameters: section("parameters") })
    }

    /// Encodes the same parts as a document of their own.
    fn encode(&self) -> Vec<u8> {
        let section = |map: &Map| Value::Object(map.clone());
        json::encode(&json!({
            "paths": section(&self.paths), "definitions": section(&self.definitions), "parameters": section(&self.parameters),
        }))
    }

    /// Keeps some paths, and drops the definitions that only others used; `None` if no path is left.
    fn with_paths(mut self, keep: impl Fn(&str) -> bool) -> Option<Self> {
        let before = self.reached();
        self.paths.retain(|path, _| keep(path));
        let after = self.reached();
        self.definitions.retain(|name, _| after.contains(&**name) || !before.contains(&**name));
        (!self.paths.is_empty()).then_some(self)
    }

    /// The names of the definitions that the paths lead to.
    fn reached(&self) -> HashSet<String> {
        let (mut found, mut parameters) = (HashSet::new(), HashSet::new());
        let mut open: Vec<&Value> = self.paths.values().collect();
        while let Some(value) = open.pop() {
            each_reference(value, &mut |reference| {
                if let Some(name) = reference.strip_prefix(Pool::DEFINITIONS) {
                    if found.insert(name.to_owned()) {
                        open.extend(self.definitions.get(name));
                    }
                } else if let Some(name) = reference.strip_prefix(Pool::PARAMETERS)
                    && parameters.insert(name.to_owned())
                {
                    open.extend(self.parameters.get(name));
                }
            });
        }
        found
    }

    /// Changes the references to definitions that were renamed because another API server uses the name for something
    /// else.
    fn rename_references(&mut self, renames: &BTreeMap<String, String>) {
        if renames.is_empty() {
            return;
        }
        let sections = [&mut self.paths, &mut self.definitions, &mut self.parameters];
        sections.into_iter().flat_map(Map::values_mut).for_each(|value| rename(value, renames));
    }
}

/// Calls a function with each `$ref` in a tree. Parsing bounds the depth of the tree.
fn each_reference<'a>(value: &'a Value, found: &mut impl FnMut(&'a str)) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found(reference.as_str());
            }
            fields.values().for_each(|value| each_reference(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| each_reference(value, found)),
        _ => {}
    }
}

/// Changes the references in a value and below it.
fn rename(value: &mut Value, renames: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            let renamed = fields.get("$ref").and_then(Value::as_str).and_then(|name| renames.get(name));
            if let Some(renamed) = renamed {
                fields.insert("$ref", renamed.as_str().into());
            }
            fields.values_mut().for_each(|value| rename(value, renames));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, renames)),
        _ => {}
    }
}

/// The merge of extension documents into the server's own document.
///
/// The server's own parts are passed to it first, in any order; [`DocumentMerge::finish`] then returns what the extensions add.
pub(super) struct DocumentMerge {
    extensions: Vec<Extension>,
    own_paths: HashSet<String>,
    definitions: Pool,
    parameters: Pool,
}

impl DocumentMerge {
    /// Those of higher priority first.
    pub(super) fn new(documents: &[&[u8]]) -> Self {
        let extensions: Vec<Extension> =
            documents.iter().filter_map(|document| Extension::read(document)).collect();
        let pool = |prefix| Pool::new(prefix, extensions.len());
        let (definitions, parameters) = (pool(Pool::DEFINITIONS), pool(Pool::PARAMETERS));
        Self { definitions, parameters, own_paths: HashSet::new(), extensions }
    }

    /// Shows a part of the server's own document; returns it with the kinds that extensions add to it.
    pub(super) fn own<'a>(&mut self, section: Section, name: &str, value: &'a Value) -> Cow<'a, Value> {
        if self.extensions.is_empty() {
            return Cow::Borrowed(value);
        }
        match section {
            Section::Paths => {
                self.own_paths.insert(name.to_owned());
                Cow::Borrowed(value)
            }
            Section::Definitions => {
                self.definitions.own(name, value, self.extensions.iter_mut().map(|one| &mut one.definitions))
            }
            Section::Parameters => {
                self.parameters.own(name, value, self.extensions.iter_mut().map(|one| &mut one.parameters))
            }
        }
    }

    /// Calls `put` with the parts that extensions add.
    pub(super) fn finish(mut self, mut put: impl FnMut(Section, &str, &Value)) {
        for (at, extension) in std::mem::take(&mut self.extensions).into_iter().enumerate() {
            let own = &self.own_paths;
            let Some(mut extension) = extension.with_paths(|path| !own.contains(path)) else { continue };
            let renames = self.definitions.renames(at, &extension.definitions);
            extension.rename_references(&renames);
            self.definitions.add(&renames, &extension.definitions);
            let renames = self.parameters.renames(at, &extension.parameters);
            extension.rename_references(&renames);
            self.parameters.add(&renames, &extension.parameters);
            extension.paths.iter().for_each(|(path, value)| put(Section::Paths, path, value));
        }
        self.definitions.added.iter().for_each(|(name, value)| put(Section::Definitions, name, value));
        self.parameters.added.iter().for_each(|(name, value)| put(Section::Parameters, name, value));
    }
}

/// The definitions, or the parameters, of the document being made.
struct Pool {
    /// The beginning of references to them.
    prefix: &'static str,
    own: HashSet<String>,
    /// By extension, the names that mean something else in the server's own document.
    taken: Vec<HashSet<String>>,
    /// Those that extensions brought so far.
    added: BTreeMap<String, Value>,
}

impl Pool {
    const DEFINITIONS: &str = "#/definitions/";
    const PARAMETERS: &str = "#/parameters/";

    fn new(prefix: &'static str, extensions: usize) -> Self {
        Self { prefix, own: HashSet::new(), taken: vec![HashSet::new(); extensions], added: BTreeMap::new() }
    }

    /// Takes one of the server's own. An extension that has the same leaves it to the server.
    fn own<'a, 'e>(
        &mut self,
        name: &str,
        value: &'a Value,
        extensions: impl Iterator<Item = &'e mut Map>,
    ) -> Cow<'a, Value> {
        let mut shown = Cow::Borrowed(value);
        for (theirs, taken) in extensions.zip(&mut self.taken) {
            let Some(other) = theirs.get(name) else { continue };
            if same(&shown, other) {
                add_kinds(&mut shown, other);
                theirs.remove(name);
            } else {
                taken.insert(name.to_owned());
            }
        }
        self.own.insert(name.to_owned());
        shown
    }

    /// New names for what an extension calls by a name that is taken, as references.
    fn renames(&self, extension: usize, theirs: &Map) -> BTreeMap<String, String> {
        let (mut renames, mut used) = (BTreeMap::new(), BTreeSet::new());
        let nothing = HashSet::new();
        let taken = self.taken.get(extension).unwrap_or(&nothing);
        for (name, value) in theirs.iter() {
            let differs = self.added.get(&**name).is_some_and(|other| !same(other, value));
            if !differs && !taken.contains(&**name) {
                continue;
            }
            let fits = |new: &String| match self.added.get(new) {
                Some(other) => same(other, value),
                None => !self.own.contains(new) && !theirs.contains_key(new) && !used.contains(new),
            };
            let Some(new) = (2..).map(|n: usize| format!("{name}_v{n}")).find(fits) else { continue };
            renames.insert(format!("{}{name}", self.prefix), format!("{}{new}", self.prefix));
            used.insert(new);
        }
        renames
    }

    /// Adds the definitions of an extension API server, each under its new name if it has one. Definitions that are
    /// there already are the same ones and gain only the kinds that they name.
    fn add(&mut self, renames: &BTreeMap<String, String>, theirs: &Map) {
        for (name, value) in theirs.iter() {
            let renamed = renames.get(&format!("{}{name}", self.prefix));
            let name = renamed.and_then(|new| new.strip_prefix(self.prefix)).unwrap_or(name);
            match self.added.get_mut(name) {
                Some(known) => {
                    let mut shown = Cow::Borrowed(&*known);
                    add_kinds(&mut shown, value);
                    *known = shown.into_owned();
                }
                None => drop(self.added.insert(name.to_owned(), value.clone())),
            }
        }
    }
}

/// Compares two definitions without their kinds.
fn same(one: &Value, other: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        value.drop_field(KINDS);
        value
    };
    one == other || rest(one) == rest(other)
}

/// Adds the kinds of a definition to those of another, in the order of group, version and kind.
fn add_kinds(to: &mut Cow<'_, Value>, from: &Value) {
    let key = |kind: &Value| format!("{}/{}.{}", kind.text("group"), kind.text("version"), kind.text("kind"));
    let known: BTreeSet<String> = to.list(KINDS).iter().map(key).collect();
    let new = from.list(KINDS).iter().filter(|kind| kind.is_object() && !known.contains(&key(kind)));
    let mut kinds: Vec<Value> = to.list(KINDS).iter().chain(new).cloned().collect();
    if kinds.len() > known.len() {
        kinds.sort_by_key(key);
        to.to_mut().put(KINDS, kinds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(colour: &str) -> Vec<u8> {
        let document = json!({
            "swagger": "2.0",
            "paths": {
                "/apis/sea/v1/fishes": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Fish"}}},
                    "parameters": [{"$ref": "#/parameters/name"}]}},
                "/apis/sea/v2/crabs": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Crab"}}}}},
                "/healthz": "not an object",
            },
            "definitions": {
                "Fish": {"properties": {"colour": {"$ref": "#/definitions/Colour"}, "school": {"$ref": "#/definitions/Fish"}}},
                "Crab": {"type": "object"},
                "Colour": {"description": colour, KINDS: [{"group": "sea", "version": "v1", "kind": "Colour"}]},
                "Nothing": {"$ref": "#/definitions/Nobody"},
            },
            "parameters": {"name": {"in": "query", "name": colour}},
        });
        json::encode(&document)
    }

    fn merged(documents: &[&[u8]], own: &[(Section, &str, Value)]) -> Value {
        let mut out = json!({"paths": {}, "definitions": {}, "parameters": {}});
        let mut put = |section, name: &str, value: &Value| {
            let section = match section {
                Section::Paths => "paths",
                Section::Definitions => "definitions",
                Section::Parameters => "parameters",
            };
            out.get_mut(section).unwrap().put(name, value.clone());
        };
        let mut merge = DocumentMerge::new(documents);
        for (section, name, value) in own {
            put(*section, name, &merge.own(*section, name, value));
        }
        merge.finish(put);
        out
    }

    #[test]
    fn a_part_has_the_paths_of_its_version_and_what_they_lead_to() {
        let part = extension_v2(&document("red"), "sea", "v1").unwrap();
        let part = Value::read(&part).unwrap();
        let names =
            |section: &str| part.entries(section).map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(names("paths"), ["/apis/sea/v1/fishes"]);
        assert_eq!(names("definitions"), ["Colour", "Fish", "Nothing"]);
        assert!(extension_v2(&document("red"), "sky", "v1").is_none());
        for garbage in ["", "null", "[]", r#"{"paths":[]}"#, r#"{"paths":{"/apis/sea/v1/x":1}}"#] {
            assert!(extension_v2(garbage.as_bytes(), "sea", "v1").is_none(), "{garbage}");
        }
    }

    #[test]
    fn a_definition_that_differs_gets_another_name_and_one_that_does_not_is_shared() {
        let part = |colour| extension_v2(&document(colour), "sea", "v1").unwrap();
        let kind = |group: &str| json!([{"group": group, "version": "v1", "kind": "Colour"}]);
        let own = |colour: &str| {
            [
                (Section::Definitions, "Colour", json!({"description": colour, KINDS: kind("air")})),
                (Section::Parameters, "name", json!({"in": "query", "name": colour})),
            ]
        };
        let (red, green) = (part("red"), part("green"));
        let seen = merged(&[&red], &own("red"));
        assert_eq!(seen["definitions"]["Colour"][KINDS].as_array().unwrap().len(), 2, "the kinds of both");
        assert_eq!(seen["definitions"]["Fish"]["properties"]["colour"]["$ref"], "#/definitions/Colour");
        assert!(!seen["definitions"].has("Colour_v2") && !seen["parameters"].has("name_v2"));

        let seen = merged(&[&green, &green], &own("red"));
        assert_eq!(seen["definitions"]["Colour"]["description"], "red");
        assert_eq!(seen["definitions"]["Colour_v2"]["description"], "green");
        assert_eq!(seen["definitions"]["Fish"]["properties"]["colour"]["$ref"], "#/definitions/Colour_v2");
        let parameter = &seen["paths"]["/apis/sea/v1/fishes"]["get"]["parameters"][0];
        assert_eq!(parameter["$ref"], "#/parameters/name_v2");
        assert!(!seen["definitions"].has("Colour_v3"), "a renamed one is shared, too");
    }

    #[test]
    fn own_paths_win() {
        let part = extension_v2(&document("red"), "sea", "v1").unwrap();
        let seen = merged(&[&part], &[(Section::Paths, "/apis/sea/v1/fishes", json!({"own": true}))]);
        assert_eq!(seen["paths"]["/apis/sea/v1/fishes"]["own"], true);
        assert_eq!(seen.count("definitions"), 0);
    }
}
