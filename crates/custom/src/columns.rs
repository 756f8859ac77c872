//! [`Columns`]: the `additionalPrinterColumns` of a definition.
//!
//! The result fills the Table that `kubectl get` prints. A cell whose value is absent or of another type than the
//! column is null, never an error: a list must not fail because of one object. Of several values that a path
//! ([`path`]) leads to, the first counts. Columns of built-in kinds are in `listwatch-kinds`.

mod budget;
mod parse;
mod path;

use listwatch_wire::json::{Value, json};
use serde::Deserialize;

use budget::RowBudget;
use path::ColumnPath;

/// The descriptions of the columns that every kind has: those of the fields of ObjectMeta.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATION_TIMESTAMP: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

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
        let texts = declared.and_then(Value::as_array).into_iter().flatten();
        let columns: Vec<_> =
            columns.into_iter().zip(texts).map(|(column, text)| column.described(text)).collect();
        Self(if columns.is_empty() { vec![CustomColumn::age()] } else { columns })
    }

    /// The `columnDefinitions` of a Table, the name first.
    ///
    /// Columns with a priority above zero are listed too: the client leaves them out unless it prints wide.
    pub fn definitions(&self) -> impl Iterator<Item = Value> {
        let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
            "description": NAME});
        std::iter::once(name).chain(self.0.iter().map(CustomColumn::definition))
    }

    /// The cells of one object; `age` turns a timestamp into how long ago it was.
    ///
    /// `age` is passed in because this crate has no clock. A date that does not parse is that function's to handle.
    pub fn cells(&self, object: &Value, age: impl Fn(&str) -> String) -> Vec<Value> {
        // Bookmarks have none.
        let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| "".into());
        let mut budget = RowBudget::default();
        std::iter::once(name)
            .chain(self.0.iter().map(|column| column.cell(object, &age, &mut budget)))
            .collect()
    }
}

impl CustomColumn {
    /// The column that a definition without columns has.
    fn age() -> Self {
        Self {
            name: "Age".into(),
            type_name: "date".into(),
            description: CREATION_TIMESTAMP.into(),
            json_path: ColumnPath::from(".metadata.creationTimestamp".to_owned()),
            ..Self::default()
        }
    }

    /// Describes a column without a description by its path, as kube-apiserver does.
    fn described(mut self, declared: &Value) -> Self {
        if self.description.is_empty() {
            let path = declared.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
            self.description = format!("Custom resource definition column (in JSONPath format): {path}");
        }
        self
    }

    fn definition(&self) -> Value {
        json!({"name": self.name, "type": self.type_name, "format": self.format, "priority": self.priority,
            "description": self.description})
    }

    /// Returns the cell. A value of another type than the column's is shown as empty, as in kube-apiserver, which reads a
    /// number of any form as the type of its column.
    fn cell(&self, object: &Value, age: &impl Fn(&str) -> String, budget: &mut RowBudget) -> Value {
        let Some(found) = self.json_path.find(object, budget) else { return Value::Null };
        match self.type_name.as_str() {
            "date" => found.as_str().map(|time| age(time).into()).unwrap_or_default(),
            "integer" => integer(found),
            "number" if found.is_number() => found.clone(),
            "boolean" if found.is_boolean() => found.clone(),
            "number" | "boolean" => Value::Null,
            _ => budget.shown(|| text(found)).map(Value::from).unwrap_or_default(),
        }
    }
}

/// A number without its fraction; null for anything else.
fn integer(value: &Value) -> Value {
    match value.as_f64() {
        _ if value.is_i64() || value.is_u64() => value.clone(),
        #[expect(clippy::cast_possible_truncation, reason = "that is what the cell shows")]
        Some(number) => (number as i64).into(),
        None => Value::Null,
    }
}

/// A value as it is printed in a cell: text without quotes, null as Go prints it, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(_) | Value::Object(_) => escape_html(&value.to_string()),
        other => other.to_string(),
    }
}

/// Go's encoder escapes the characters of HTML tags, and this is what a cell shows.
fn escape_html(json: &str) -> String {
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A thousand columns that show the same megabyte took a gigabyte for one row.
    #[test]
    fn the_cells_of_a_row_are_bounded_together() {
        let column = json!({"name": "A", "type": "string", "jsonPath": ".spec"});
        let columns = Columns::read(Some(&vec![column; 1000].into()));
        let object = json!({"metadata": {"name": "a"}, "spec": ["x".repeat(1 << 20)]});
        let cells = columns.cells(&object, |_| String::new());
        let shown = cells.iter().filter(|cell| !cell.is_null()).count();
        assert!(cells.len() == 1001 && (2..20).contains(&shown), "{shown}");
    }

    #[test]
    fn the_paths_of_a_row_are_bounded_together() {
        let column = json!({"name": "A", "type": "string", "jsonPath": ".spec..x"});
        let columns = Columns::read(Some(&vec![column; 2000].into()));
        let object = json!({"metadata": {"name": "a"}, "spec": vec![json!([1]); 10_000]});
        let began = std::time::Instant::now();
        assert_eq!(columns.cells(&object, |_| String::new()).len(), 2001);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn numbers_and_nulls_are_shown_as_go_prints_them() {
        let declared = json!([{"name": "A", "type": "string", "jsonPath": ".a"}, {"name": "B", "type": "integer", "jsonPath": ".b"},
            {"name": "C", "type": "string", "jsonPath": ".c"}]);
        let cells = |object| Columns::read(Some(&declared)).cells(&object, |_| String::new());
        let shown = cells(json!({"metadata": {"name": "a"}, "a": null, "b": 1.7, "c": ["<"]}));
        assert_eq!(shown, [json!("a"), json!("<no value>"), json!(1), json!("[\"\\u003c\"]")]);
    }
}
