//! Pruning: unknown fields of custom objects are removed, and named for warnings or strict decoding.
//!
//! Order and paths of the names are kube-apiserver's, since they appear in `Warning` headers and in errors of
//! `fieldValidation=Strict`. At most 100 names and 64 KiB of them are reported; all unknown fields are removed in any
//! case. `x-kubernetes-preserve-unknown-fields` stops pruning below it except where properties are declared, and
//! embedded resources keep `apiVersion`, `kind` and known metadata. Defaulting (`fill`) follows.

use listwatch_wire::json::{Map, Value};

use crate::Schema;

/// The fields of ObjectMeta; anything else in `metadata` is unknown in every custom object.
///
/// In this order for people; it is searched linearly.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes unknown fields from a whole custom object and returns their paths in kube-apiserver's order: those of its
/// own metadata, those that the schema does not have, those in the metadata of objects inside it; each sorted.
///
/// Removes nothing on the way back from the walk, so one pass is enough. Costs as much as the object has fields.
///
/// ```
/// use listwatch_custom::{Schema, prune};
/// use listwatch_wire::json::json;
///
/// let schema: Schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
///     "size": {"type": "integer"}
/// }}}}).to_type()?;
/// let mut object = json!({"spec": {"size": 3, "colour": "red"}});
/// assert_eq!(prune(&schema, &mut object), ["spec.colour"]);
/// assert_eq!(object, json!({"spec": {"size": 3}}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut walk = PruneWalk::default();
    walk.resource(schema, object);
    for paths in [&mut walk.of_metadata, &mut walk.unknown, &mut walk.of_inner_metadata] {
        paths.sort();
    }
    [walk.of_metadata, walk.unknown, walk.of_inner_metadata].concat()
}

/// Returns true if a part of an object has fields that are not in its schema.
///
/// For defaults in schemas, which are checked when the definition is; the copy does not matter there.
pub(crate) fn has_unknown(schema: &Schema, value: &Value) -> bool {
    let mut walk = PruneWalk::default();
    walk.value(schema, &mut value.clone());
    !walk.unknown.is_empty()
}

/// Removes unknown fields of the metadata of embedded resources from the defaults of a schema, as kube-apiserver does
/// before it uses them: from defaults of whole resources, of their metadata, and of single fields.
pub(crate) fn prune_defaults(schema: &mut Schema) {
    if let Some(mut default) = schema.default.take() {
        PruneWalk::default().value(schema, &mut default);
        schema.default = Some(default);
    }
    if let Some(metadata) = schema.embedded_metadata_mut() {
        if let Some(Value::Object(default)) = &mut metadata.default {
            default.retain(|name, _| METADATA.contains(&&**name));
        }
        let unknown = metadata.named_mut().filter(|(name, _)| !METADATA.contains(name));
        unknown.for_each(|(_, field)| field.default = None);
    }
    schema.children_mut().for_each(prune_defaults);
}

/// The most unknown fields reported, as in kube-apiserver; all are dropped. More would only make the answer large.
const MAX_UNKNOWN: usize = 100;
/// The most bytes of their paths: a key may be as long as the object.
const MAX_UNKNOWN_BYTES: usize = 64 << 10;

/// Three lists, because kube-apiserver makes three passes, and each sorts by itself.
#[derive(Default)]
struct PruneWalk {
    of_metadata: Vec<String>,
    unknown: Vec<String>,
    of_inner_metadata: Vec<String>,
    /// Steps from the root; joined only where something unknown was found.
    path: Vec<String>,
    /// Names reported so far, in all lists.
    told: usize,
    /// Bytes of those names.
    told_bytes: usize,
}

impl PruneWalk {
    /// An object with apiVersion, kind and metadata of its own: the root, or an embedded resource.
    fn resource(&mut self, schema: &Schema, value: &mut Value) {
        let Value::Object(fields) = value else { return };
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            let own = self.path.is_empty();
            let unknown = self.at("metadata", |walk| walk.retain(metadata, |name| METADATA.contains(&name)));
            let paths = if own { &mut self.of_metadata } else { &mut self.of_inner_metadata };
            paths.extend(unknown);
        }
        self.fields(schema, fields, |name| matches!(name, "apiVersion" | "kind" | "metadata"));
    }

    /// Prunes a value. Embedded resources keep their metadata under any schema.
    fn value(&mut self, schema: &Schema, value: &mut Value) {
        match value {
            Value::Object(_) if schema.embedded => self.resource(schema, value),
            Value::Object(fields) => self.fields(schema, fields, |_| false),
            Value::Array(items) => self.items(schema, items),
            _ => {}
        }
    }

    /// `exempt` are the fields of every resource, which need no place in the schema and are not looked into.
    fn fields(&mut self, schema: &Schema, fields: &mut Map, exempt: fn(&str) -> bool) {
        if !schema.keeps_unknown() {
            let unknown = self.retain(fields, |name| exempt(name) || schema.field(name).is_some());
            self.unknown.extend(unknown);
        }
        for (name, value) in fields.iter_mut().filter(|(name, _)| !exempt(name)) {
            if let Some(field) = schema.field(name) {
                self.at(name, |walk| walk.value(field, value));
            }
        }
    }

    /// Prunes the elements of a list.
    fn items(&mut self, schema: &Schema, items: &mut [Value]) {
        let Some(item) = schema.items.as_deref() else { return };
        for (index, value) in items.iter_mut().enumerate() {
            self.at(&format!("[{index}]"), |walk| walk.value(item, value));
        }
    }

    /// Removes what is not known; the paths of it.
    fn retain(&mut self, fields: &mut Map, known: impl Fn(&str) -> bool) -> Vec<String> {
        let unknown: Vec<_> = fields.keys().filter(|name| !known(name)).cloned().collect();
        let mut paths = Vec::new();
        for name in unknown {
            fields.remove(&name);
            if self.told < MAX_UNKNOWN && self.told_bytes < MAX_UNKNOWN_BYTES {
                let path = self.at(&name, |walk| join(&walk.path));
                self.told += 1;
                self.told_bytes += path.len();
                paths.push(path);
            }
        }
        paths
    }

    /// Calls a function one step deeper, so that the paths of pruned fields can be reported.
    fn at<T>(&mut self, step: &str, inside: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step.to_owned());
        let result = inside(self);
        self.path.pop();
        result
    }
}

/// Joins the steps of a path: `spec.list[0].field`.
fn join(steps: &[String]) -> String {
    steps.iter().fold(String::new(), |mut path, step| {
        if !path.is_empty() && !step.starts_with('[') {
            path.push('.');
        }
        path + step
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::schema;
    use listwatch_wire::json::json;

    #[test]
    fn unknown_fields_are_pruned_and_reported() {
        let schema = schema(
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "known": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}}}}}),
        );
        let mut object = json!({"kind": "W", "metadata": {"name": "a", "oops": 1}, "extra": 1,
            "spec": {"known": "k", "zap": 1, "list": [{"a": "1"}, {"b": 1}]}});
        let unknown = prune(&schema, &mut object);
        assert_eq!(unknown, ["metadata.oops", "extra", "spec.list[1].b", "spec.zap"]);
        assert_eq!(
            object,
            json!({"kind": "W", "metadata": {"name": "a"}, "spec": {"known": "k", "list": [{"a": "1"}, {}]}})
        );
    }

    #[test]
    fn preserved_parts_keep_unknown_fields_but_known_ones_inside_are_pruned() {
        let schema = schema(json!({"type": "object", "properties": {"free": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"tight": {"type": "object", "properties": {}}}}}}));
        let mut object = json!({"free": {"any": {"thing": 1}, "tight": {"x": 1}}});
        assert_eq!(prune(&schema, &mut object), ["free.tight.x"]);
        assert_eq!(object, json!({"free": {"any": {"thing": 1}, "tight": {}}}));
    }

    #[test]
    fn an_embedded_resource_keeps_its_type_and_known_metadata() {
        let schema = schema(json!({"type": "object", "properties": {"t": {"type": "object",
            "x-kubernetes-embedded-resource": true, "properties": {"data": {"type": "object"}}}}}));
        let mut object =
            json!({"t": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "junk": 1}, "y": 1}});
        assert_eq!(prune(&schema, &mut object), ["t.y", "t.metadata.junk"]);
    }

    /// A definition with such defaults was refused, and unknown metadata would have been stored.
    #[test]
    fn defaults_have_no_unknown_metadata() {
        let metadata = json!({"type": "object", "default": {"name": "a", "unknown": "x"}, "properties": {
            "name": {"type": "string"}, "unknown": {"type": "string", "default": "x"}}});
        let inner = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"metadata": metadata}});
        let whole = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "b", "unknown": "y"}});
        let mut with_default = inner.clone();
        with_default["default"] = whole;
        let mut schema: Schema =
            json!({"type": "object", "properties": {"one": inner, "two": with_default}}).to_type().unwrap();
        prune_defaults(&mut schema);
        let mut object = json!({"one": {}, "three": 1});
        crate::fill(&schema, &mut object);
        assert_eq!(object["one"], json!({"metadata": {"name": "a"}}));
        assert_eq!(object["two"]["metadata"], json!({"name": "b"}));
        let mut object = json!({"one": {"metadata": {}}});
        crate::fill(&schema, &mut object);
        assert_eq!(object["one"], json!({"metadata": {}}));
    }
}
