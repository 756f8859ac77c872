//! [`Columns`]: the `additionalPrinterColumns` of a definition, and the small JSONPath that they are written in.
//!
//! The result fills the Table that `kubectl get` prints. A cell whose value is absent or of another type than the
//! column is null, never an error: a list must not fail because of one object. The path supports fields, indexes and
//! one equality filter (`[?(@.type=="Ready")]`), the forms that occur in definitions; of several matches the first
//! counts. Columns of built-in kinds are in `listwatch-kinds`.

use listwatch_wire::json::{Value, json};
use serde::Deserialize;

/// The columns of one version: the name first, then the declared ones, or the age if none are declared.
///
/// Built once per version, so a table of many objects parses no path again. kubectl asks for a Table with each `get`.
#[derive(Clone, Debug, Default)]
#[doc(alias = "additionalPrinterColumns")]
pub struct Columns(Vec<CustomColumn>);

/// Every field has a default, as in kube-apiserver's decoding of stored definitions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CustomColumn {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    format: String,
    description: String,
    /// Zero is always shown, more only with `-o wide`.
    priority: i32,
    json_path: ColumnPath,
}

impl Columns {
    /// Reads `additionalPrinterColumns` of a version. Columns that cannot be read were refused with the definition;
    /// without any, there is the age.
    ///
    /// A list with one broken column is dropped as a whole, since such a definition could not have been accepted.
    #[must_use]
    pub fn read(declared: Option<&Value>) -> Self {
        let columns: Vec<CustomColumn> = declared.and_then(|v| v.to_type().ok()).unwrap_or_default();
        Self(if columns.is_empty() { vec![CustomColumn::age()] } else { columns })
    }

    /// The `columnDefinitions` of a Table, the name first.
    ///
    /// Columns with a priority above zero are listed too: the client leaves them out unless it prints wide.
    pub fn definitions(&self) -> impl Iterator<Item = Value> {
        let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
            "description": "Name must be unique within a namespace."});
        std::iter::once(name).chain(self.0.iter().map(CustomColumn::definition))
    }

    /// The cells of one object; `age` turns a timestamp into how long ago it was.
    ///
    /// `age` is passed in because this crate has no clock. A date that does not parse is that function's to handle.
    pub fn cells(&self, object: &Value, age: impl Fn(&str) -> String) -> Vec<Value> {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
        std::iter::once(name).chain(self.0.iter().map(|column| column.cell(object, &age))).collect()
    }
}

impl CustomColumn {
    /// The column that a definition without columns has.
    fn age() -> Self {
        Self {
            name: "Age".into(),
            type_name: "date".into(),
            json_path: ColumnPath::from(".metadata.creationTimestamp".to_owned()),
            ..Self::default()
        }
    }

    fn definition(&self) -> Value {
        json!({"name": self.name, "type": self.type_name, "format": self.format, "priority": self.priority,
            "description": self.description})
    }

    /// Returns the cell. A value of another type than the column's is shown as empty, as in kube-apiserver.
    fn cell(&self, object: &Value, age: &impl Fn(&str) -> String) -> Value {
        let found = self.json_path.find(object);
        let found = found.filter(|value| !value.is_null());
        match self.type_name.as_str() {
            "date" => found.and_then(Value::as_str).map(|time| age(time).into()).unwrap_or_default(),
            "integer" => found.filter(|v| v.is_i64() || v.is_u64()).cloned().unwrap_or_default(),
            "number" => found.filter(|v| v.is_number()).cloned().unwrap_or_default(),
            "boolean" => found.filter(|v| v.is_boolean()).cloned().unwrap_or_default(),
            _ => found.map(|value| text(value).into()).unwrap_or_default(),
        }
    }
}

/// A value as it is printed in a cell or compared in a filter: text without quotes, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// A path such as `.spec.ports[0].name` or `.status.conditions[?(@.type=="Ready")].status`.
///
/// Not the whole of `k8s.io/client-go/util/jsonpath`: no ranges, unions, wildcards or recursive descent. Such a path
/// was accepted with its definition and gives an empty cell.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub(crate) struct ColumnPath(Vec<ColumnStep>);

/// A step of the subset of JSONPath that columns use.
#[derive(Clone, Debug, PartialEq)]
enum ColumnStep {
    Field(String),
    Index(usize),
    /// The first element whose field has this text.
    Where(String, String),
}

impl From<String> for ColumnPath {
    fn from(text: String) -> Self {
        Self(parse(&text))
    }
}

impl ColumnPath {
    /// The first value the path leads to.
    ///
    /// Linear in the steps, and in the elements of lists that a filter looks at.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(object, |value, step| match step {
            ColumnStep::Field(name) => value.get(name),
            ColumnStep::Index(index) => value.as_array().and_then(|items| items.get(*index)),
            ColumnStep::Where(field, wanted) => value
                .as_array()?
                .iter()
                .find(|item| item.get(field).is_some_and(|value| text(value) == *wanted)),
        })
    }
}

/// Parses a path leniently: anything that is no step is a field name that no object has, and the cell stays empty.
fn parse(text: &str) -> Vec<ColumnStep> {
    let mut steps = Vec::new();
    let mut rest = text.trim_start_matches(['{', '$']).trim_end_matches('}');
    while !rest.is_empty() {
        let (step, left) = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside),
            None => field(rest.trim_start_matches('.')),
        };
        steps.extend(step);
        rest = left;
    }
    steps
}

/// A field name up to the next separator; `\.` stands for a dot in the name.
fn field(text: &str) -> (Option<ColumnStep>, &str) {
    let mut escaped = false;
    let end = text.find(|c: char| !std::mem::replace(&mut escaped, c == '\\') && (c == '.' || c == '['));
    let (name, left) = text.split_at(end.unwrap_or(text.len()));
    ((!name.is_empty()).then(|| ColumnStep::Field(name.replace('\\', ""))), left)
}

/// An index that is negative or a slice does not parse as a number and becomes a field name that no list has.
fn bracket(text: &str) -> (Option<ColumnStep>, &str) {
    let (inside, left) = text.split_once(']').unwrap_or((text, ""));
    let unquoted = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    let filter =
        inside.strip_prefix("?(@.").and_then(|f| f.strip_suffix(')')).and_then(|f| f.split_once("=="));
    let step = match (filter, inside.parse()) {
        (Some((name, wanted)), _) => ColumnStep::Where(name.trim().to_owned(), unquoted(wanted)),
        (None, Ok(index)) => ColumnStep::Index(index),
        (None, Err(_)) => ColumnStep::Field(unquoted(inside)),
    };
    (Some(step), left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str, object: &Value) -> Option<Value> {
        ColumnPath::from(path.to_owned()).find(object).cloned()
    }

    #[test]
    fn paths_lead_through_fields_elements_and_filters() {
        let object = json!({"spec": {"ports": [{"name": "a"}, {"name": "b"}]}, "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(find(".spec.ports[1].name", &object), Some(json!("b")));
        assert_eq!(find(r".metadata.labels.a\.b/c", &object), Some(json!("x")));
        assert_eq!(find(".metadata.labels['a.b/c']", &object), Some(json!("x")));
        assert_eq!(find(r#".status.conditions[?(@.type=="Ready")].status"#, &object), Some(json!("True")));
        assert_eq!(find(".spec.nothing.here", &object), None);
    }

    #[test]
    fn missing_values_and_values_of_another_type_are_null() {
        let declared = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
        let columns = Columns::read(Some(&declared));
        let age = |_: &str| "5m".to_owned();
        let full = json!({"metadata": {"name": "a", "creationTimestamp": "t"}, "spec": {"size": 3}});
        assert_eq!(columns.cells(&full, age), [json!("a"), json!(3), json!("5m")]);
        let empty = json!({"metadata": {"name": "b"}, "spec": {"size": "x"}});
        assert_eq!(columns.cells(&empty, age), [json!("b"), Value::Null, Value::Null]);
    }
}
