//! Parameters of operations, in paths and queries.
//!
//! Their texts and their names in the v2 document, which names a parameter by its content, are in `parameters.txt`: key, name in
//! v2 or `-` if it is written out wherever it is used, place, type, text.

use std::borrow::Cow;

use listwatch_wire::json::{Value, json};

use super::Dialect;
use super::docs::unescape;

const TABLE: &str = include_str!("parameters.txt");

/// A parameter of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) place: &'a str,
    ty: &'a str,
    description: Cow<'a, str>,
    /// Name in the v2 document's list of shared parameters.
    shared: Option<&'a str>,
}

impl Parameter<'static> {
    /// The parameter with a key of the table.
    pub(super) fn get(key: &str) -> Option<Self> {
        all().find(|(known, _)| *known == key).map(|(_, parameter)| parameter)
    }

    /// The parameters with these keys.
    pub(super) fn list(keys: &[&str]) -> Vec<Self> {
        keys.iter().filter_map(|key| Self::get(key)).collect()
    }

    /// The name of an object in a path.
    pub(super) fn object_name(kind: &str) -> Self {
        let description = Cow::Owned(format!("name of the {kind}"));
        Self { name: "name", place: "path", ty: "string", description, shared: None }
    }
}

/// The table, with its keys.
fn all() -> impl Iterator<Item = (&'static str, Parameter<'static>)> {
    TABLE.lines().filter_map(|line| {
        let mut columns = line.splitn(5, '\t');
        let key = columns.next()?;
        let shared = columns.next().filter(|shared| *shared != "-");
        let (place, ty, description) = (columns.next()?, columns.next()?, columns.next()?);
        let name = key.split('.').next()?;
        let description = Cow::Borrowed(description);
        Some((key, Parameter { name, place, ty, description, shared }))
    })
}

impl Parameter<'_> {
    /// The parameter as an operation or a path lists it.
    pub(super) fn value(&self, dialect: Dialect) -> Value {
        match (dialect, self.shared) {
            (Dialect::V2, Some(shared)) => json!({"$ref": format!("#/parameters/{shared}")}),
            _ => self.written_out(dialect),
        }
    }

    /// Returns the parameter as a document has it. Those in the path are always required.
    fn written_out(&self, dialect: Dialect) -> Value {
        let description = unescape(&self.description);
        let mut parameter = match dialect {
            Dialect::V2 => {
                json!({"uniqueItems": true, "type": self.ty, "description": description, "name": self.name, "in": self.place})
            }
            Dialect::V3 => {
                let schema = json!({"type": self.ty, "uniqueItems": true});
                json!({"name": self.name, "in": self.place, "description": description, "schema": schema})
            }
        };
        if let (Value::Object(map), "path") = (&mut parameter, self.place) {
            map.insert("required".to_owned(), true.into());
        }
        parameter
    }
}

/// The v2 name of the parameter that is the body of a patch, and that of a delete.
pub(super) const PATCH_BODY: &str = "body-78PwaGsr";
pub(super) const DELETE_BODY: &str = "body-2Y1dVQaQ";

/// The shared parameters of the v2 document by name.
pub(super) fn shared(patch: &str, delete: &str) -> Vec<(&'static str, Value)> {
    let body =
        |definition: &str| json!({"name": "body", "in": "body", "schema": Dialect::V2.reference(definition)});
    let mut patch = body(patch);
    if let Value::Object(map) = &mut patch {
        map.insert("required".to_owned(), true.into());
    }
    let bodies = [(DELETE_BODY, body(delete)), (PATCH_BODY, patch)];
    let table =
        all().filter_map(|(_, parameter)| Some((parameter.shared?, parameter.written_out(Dialect::V2))));
    let mut shared: Vec<_> = table.chain(bodies).collect();
    shared.sort_by_key(|(name, _)| *name);
    shared
}
