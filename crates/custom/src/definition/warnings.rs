//! Warnings about a definition that is valid but has parts without effect, for `Warning` headers.
//!
//! Unknown formats and sets of objects are accepted, because kube-apiserver has always accepted them, and refusing them
//! now would break stored definitions. An update only warns about what it adds. Errors are in `check` and `parts`.

use std::collections::BTreeSet;

use listwatch_wire::json::Value;

use super::text;

/// Formats of strings that are checked, without the hyphens that make no difference.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns the warnings for the writer of a definition. On an update, only those that the old one did not have.
#[must_use]
pub fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let (mut formats, mut sets) = Found::of(object);
    if let Some((known_formats, known_sets)) = old.map(Found::of) {
        formats.retain(|format| !known_formats.contains(format));
        sets.retain(|set| !known_sets.contains(set));
    }
    let formats = formats.into_iter().map(|format| format!("unrecognized format {format:?}"));
    let sets = sets.into_iter().map(|kind| {
        format!("x-kubernetes-list-type: set for items of type {kind:?} is not supported by server-side apply or CEL validation rules")
    });
    formats.chain(sets).collect()
}

/// Unknown formats in the order in which they occur, and the types of items of sets that cannot be compared.
///
/// Sets are ordered by name and without repetitions, formats as they occur: kube-apiserver does it that way.
#[derive(Default)]
struct Found {
    formats: Vec<String>,
    sets: BTreeSet<String>,
}

impl Found {
    /// Collects the formats that are not known, and the lists that are sets of objects, over the schemas of all
    /// versions.
    fn of(object: &Value) -> (Vec<String>, BTreeSet<String>) {
        let mut found = Self::default();
        let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        for schema in versions.filter_map(|version| version.pointer("/schema/openAPIV3Schema")) {
            found.visit(schema);
        }
        (found.formats, found.sets)
    }

    /// Does not bound its depth by itself: validation has refused schemas that are nested too deep.
    fn visit(&mut self, schema: &Value) {
        let Some(fields) = schema.as_object() else { return };
        let kind = text(schema, "type").unwrap_or_default();
        if let Some(format) = text(schema, "format").filter(|format| !is_known(kind, format)) {
            self.formats.push(format.to_owned());
        }
        let items = schema.get("items").and_then(|items| text(items, "type"));
        if let Some(items @ ("object" | "array")) = items
            && text(schema, "x-kubernetes-list-type") == Some("set")
        {
            self.sets.insert(items.to_owned());
        }
        for (key, inside) in fields {
            match key.as_str() {
                "items" | "additionalProperties" | "not" => self.visit(inside),
                "properties" => inside.as_object().into_iter().flatten().for_each(|(_, one)| self.visit(one)),
                "allOf" | "anyOf" | "oneOf" => {
                    inside.as_array().into_iter().flatten().for_each(|one| self.visit(one));
                }
                _ => {}
            }
        }
    }
}

/// A format of a node without a type is taken for one of strings.
fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        _ if format.is_empty() => true,
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn definition(property: Value) -> Value {
        json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": property}}}}]}})
    }

    #[test]
    fn unchecked_formats_are_warned_of_once() {
        let odd = definition(json!({"type": "string", "format": "int32"}));
        assert_eq!(warnings(&odd, None), ["unrecognized format \"int32\""]);
        assert_eq!(warnings(&odd, Some(&odd)), [""; 0]);
        let plain = definition(json!({"type": "string", "format": "date-time"}));
        assert_eq!(warnings(&plain, None), [""; 0]);
    }
}
