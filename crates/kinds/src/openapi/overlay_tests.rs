//! Makes the overlay from the documents of kube-apiserver, and compares the committed one with it.
//!
//! `LISTWATCH_KUBERNETES_DOCUMENTS` names a folder with the documents that kube-apiserver of the pinned release serves:
//! `v3/*.json`, one for each path of `/openapi/v3`, and `swagger.json`, which is `/openapi/v2`. Those in Kubernetes'
//! sources will not do: they have no enumerations. `cargo xtask kinds --documents` runs the test and, by
//! `LISTWATCH_WRITE_OVERLAY=1`, lets it write the file; `cargo xtask test generated` runs it to compare.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use listwatch_wire::json::Map;

use super::components::bare;
use super::docs::Docs;
use super::overlay::Overlay;
use super::*;

/// The definitions of all v3 documents. That of the core group counts where they differ: in others, the kinds that
/// every group has name that group too.
fn definitions(folder: &Path) -> BTreeMap<String, Value> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut all = BTreeMap::new();
    for file in files {
        let document = Value::read(&std::fs::read(file).unwrap()).unwrap();
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object).cloned();
        for (name, schema) in schemas.into_iter().flatten() {
            all.entry(name.to_string()).or_insert(schema);
        }
    }
    all
}

/// The names of definitions that the served documents refer to, directly or through others.
fn reached(definitions: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let mut waiting = Vec::new();
    each_path(|path| {
        let operations = path.operations.iter();
        waiting.extend(
            operations.flat_map(|operation| [operation.body.clone(), operation.answer.clone()]).flatten(),
        );
    });
    let mut reached = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(schema) = definitions.get(&name) else { continue };
        if reached.insert(name) {
            references(schema, &mut waiting);
        }
    }
    reached
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
            found.extend(name.map(str::to_owned));
            map.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

/// The merge patch that makes `wanted` of `given`; none if they are equal.
fn difference(given: &Value, wanted: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (given, wanted) else {
        return (given != wanted).then(|| wanted.clone());
    };
    let mut patch = Map::new();
    for (key, wanted) in to {
        let changed = match from.get(key) {
            Some(given) => difference(given, wanted),
            None => Some(wanted.clone()),
        };
        changed.map(|changed| patch.insert(key.clone(), changed));
    }
    for (key, _) in from.iter().filter(|(key, _)| !to.contains_key(key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then(|| patch.into())
}

/// The patches of definitions from what the table alone makes of them in v3.
fn all(names: &BTreeSet<String>, definitions: &BTreeMap<String, Value>) -> Value {
    let docs = Docs::unpack();
    let patch = |name: &String| {
        let patch = difference(&bare(name, &docs, Dialect::V3), definitions.get(name)?)?;
        Some((name.clone(), patch))
    };
    Value::Object(names.iter().filter_map(patch).collect())
}

/// The patches of definitions from what those of v3 make of them in v2.
fn v2(names: &BTreeSet<String>, all: &Value, swagger: &Value) -> Value {
    let docs = Docs::unpack();
    let definitions = swagger.get("definitions").and_then(Value::as_object).unwrap();
    let overlay = Overlay(json!({"all": all.clone()}));
    let patch = |name: &String| {
        let made = overlay.over(name, bare(name, &docs, Dialect::V2), Dialect::V2);
        Some((name.clone(), difference(&made, definitions.get(name)?)?))
    };
    Value::Object(names.iter().filter_map(patch).collect())
}

#[test]
#[ignore = "needs documents of kube-apiserver; `cargo xtask kinds --documents` and `cargo xtask test generated` run it"]
fn the_overlay_is_what_kubernetes_documents_make() {
    let folder =
        PathBuf::from(std::env::var_os("LISTWATCH_KUBERNETES_DOCUMENTS").expect("a folder of documents"));
    let definitions = definitions(&folder.join("v3"));
    let names = reached(&definitions);
    let all = all(&names, &definitions);
    let committed = Overlay::unpack().0;
    let swagger = Value::read(&std::fs::read(folder.join("swagger.json")).unwrap()).unwrap();
    let v2 = v2(&names, &all, &swagger);
    let made = json!({"all": all, "v2": v2});
    if std::env::var_os("LISTWATCH_WRITE_OVERLAY").is_some() {
        let mut file = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
        file.write_all(made.to_string().as_bytes()).unwrap();
        std::fs::write("src/schema/overlay.json.gz", file.finish().unwrap()).unwrap();
        return;
    }
    let differing = difference(&committed, &made);
    assert!(
        differing.is_none(),
        "overlay.json.gz differs from the documents: {}",
        differing.unwrap_or_default()
    );
}
