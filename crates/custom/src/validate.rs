//! Validation of values against a structural schema, with the messages of kube-apiserver (kube-openapi's validator).
//!
//! On an update, parts equal to the stored ones are skipped (ratcheting). Errors are bounded by [`FieldErrors`]; the
//! walk ends when the list is full. Pruning and defaulting come before (`prune`, `fill`). Expression rules are not here
//! but in [`crate::Rules`]; they run only when this found nothing.

use std::collections::{HashMap, HashSet};

use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrors};

use crate::format;
use crate::schema::Schema;

/// Checks a value, and on update only what changed: a part equal to the old one is not judged again, so that a
/// tightened schema does not lock up objects that were valid once.
///
/// Costs as much as the changed parts of the object and the schema have in common: equal parts are often the same
/// shared tree, which compares by pointer. Alternatives multiply that, within the size of the schema.
pub fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut walk = ValidateWalk { errors: FieldErrors::new(), path: String::new() };
    walk.value(schema, value, old);
    walk.errors.into_vec()
}

struct ValidateWalk {
    errors: FieldErrors,
    path: String,
}

impl ValidateWalk {
    /// Validates a value and everything below it. A value equal to the old one is skipped, so that a tightened schema
    /// does not block unrelated updates.
    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>) {
        if old == Some(value) || self.errors.is_full() || (value.is_null() && schema.nullable) {
            return;
        }
        // A value of another type is held to the rules of the type that it has, as kube-apiserver does it.
        self.check_type(schema, value);
        self.combinations(schema, value);
        if value.is_null() {
            return;
        }
        match value {
            Value::String(text) => self.string(schema, text),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), value),
            Value::Array(items) => self.array(schema, items, old),
            Value::Object(_) => self.object(schema, value, old),
            _ => {}
        }
        self.enumeration(schema, value);
    }

    /// Checks the JSON type. A mismatch does not end the validation of the value.
    fn check_type(&mut self, schema: &Schema, value: &Value) {
        let actual = type_of(value);
        if schema.int_or_string {
            return self.expect_type(matches!(actual, "integer" | "string"), "integer,string", actual);
        }
        match schema.type_name.as_str() {
            "" => {}
            "number" => self.expect_type(matches!(actual, "integer" | "number"), "number", actual),
            "integer" if actual == "number" => {
                self.expect_type(false, "integer", actual);
                // kube-apiserver checks the default integer format too and loses the path on the way.
                let field = self.field();
                let detail = format!("Checked value must be of type integer (default format) in {field}");
                self.errors.push(FieldError::invalid("<nil>", "", detail));
            }
            expected => self.expect_type(expected == actual, expected, actual),
        }
    }

    fn expect_type(&mut self, fits: bool, expected: &str, actual: &str) {
        if !fits {
            let detail = self.in_body(&format!("must be of type {expected}: {actual:?}"));
            self.errors.push(FieldError::type_invalid(self.field(), actual, detail));
        }
    }

    /// Form and format are reported both: they are separate validators in kube-openapi.
    fn string(&mut self, schema: &Schema, text: &str) {
        self.string_form(schema, text);
        if !format::is_valid(&schema.format, text) {
            let detail = self.in_body(&format!("must be of type {}: {text:?}", schema.format));
            self.errors.push(FieldError::type_invalid(self.field(), text, detail));
        }
    }

    /// The first of these rules that a text breaks is the one that is told.
    fn string_form(&mut self, schema: &Schema, text: &str) {
        let length = text.chars().count();
        if let Some(max) = schema.max_length.filter(|&max| length > max) {
            self.errors.push(FieldError::too_long(self.field(), max));
        } else if let Some(min) = schema.min_length.filter(|&min| length < min) {
            self.refuse(text, &format!("should be at least {min} chars long"));
        } else if !schema.pattern.matches(text) {
            self.refuse(text, &format!("should match '{}'", schema.pattern.text()));
        }
    }

    /// Checks the bounds of a number. Numbers are compared as doubles, so integers beyond 2^53 lose precision here.
    fn number(&mut self, schema: &Schema, number: f64, value: &Value) {
        self.number_format(schema, number);
        if let Some(max) = schema.maximum {
            match schema.exclusive_maximum {
                true if number >= max => self.refuse(value.clone(), &format!("should be less than {max}")),
                false if number > max => {
                    self.refuse(value.clone(), &format!("should be less than or equal to {max}"))
                }
                _ => {}
            }
        }
        if let Some(min) = schema.minimum {
            match schema.exclusive_minimum {
                true if number <= min => self.refuse(value.clone(), &format!("should be greater than {min}")),
                false if number < min => {
                    self.refuse(value.clone(), &format!("should be greater than or equal to {min}"));
                }
                _ => {}
            }
        }
        if let Some(step) = schema.multiple_of.filter(|&step| step > 0.0 && (number / step).fract() != 0.0) {
            self.refuse(value.clone(), &format!("should be a multiple of {step}"));
        }
    }

    /// Refuses a number outside the range of its format. As with types, kube-apiserver reports no path.
    fn number_format(&mut self, schema: &Schema, number: f64) {
        let fits = match schema.format.as_str() {
            "int32" => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
            "uint32" => (0.0..=f64::from(u32::MAX)).contains(&number),
            "float" | "float32" => number.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let (kind, format) = (&schema.type_name, &schema.format);
            let detail =
                format!("Checked value must be of type {kind} with format {format} in {}", self.field());
            self.errors.push(FieldError::invalid("<nil>", "", detail));
        }
    }

    /// Checks an array and its elements. Old elements are found by their keys in a `map` list, and not at all in
    /// others, where nothing identifies them.
    fn array(&mut self, schema: &Schema, items: &[Value], old: Option<&Value>) {
        if let Some(max) = schema.max_items.filter(|&max| items.len() > max) {
            self.errors.push(FieldError::too_many(self.field(), items.len(), max));
        }
        if let Some(min) = schema.min_items.filter(|&min| items.len() < min) {
            self.refuse(items.len(), &format!("should have at least {min} items"));
        }
        self.duplicates(schema, items);
        let Some(item) = schema.items.as_deref() else { return };
        let old = old.map(|old| OldItems::new(schema, old)).unwrap_or_default();
        for (index, value) in items.iter().enumerate() {
            let old = old.find(schema, value);
            self.below(&format!("[{index}]"), |walk| walk.value(item, value, old));
        }
    }

    /// Elements of sets and keyed lists must differ, the latter in their keys only.
    ///
    /// A hash set of the elements or of their keys, so long lists stay linear.
    fn duplicates(&mut self, schema: &Schema, items: &[Value]) {
        let key_of: fn(&Schema, &Value) -> Value = match schema.list_type.as_str() {
            "map" => map_key,
            "set" => |_, value| value.clone(),
            _ if schema.unique_items => |_, value| value.clone(),
            _ => return,
        };
        let mut seen = HashSet::new();
        for (index, value) in items.iter().enumerate() {
            let key = key_of(schema, value);
            if !seen.insert(key.clone()) {
                self.errors.push(FieldError::duplicate(format!("{}[{index}]", self.field()), key));
            }
        }
    }

    /// Checks an object and its fields. Unknown fields were pruned before; those that are preserved are not validated.
    fn object(&mut self, schema: &Schema, value: &Value, old: Option<&Value>) {
        let Some(fields) = value.as_object() else { return };
        if let Some(max) = schema.max_properties.filter(|&max| fields.len() > max) {
            self.errors.push(FieldError::too_many(self.field(), fields.len(), max));
        }
        if let Some(min) = schema.min_properties.filter(|&min| fields.len() < min) {
            self.refuse(fields.len(), &format!("should have at least {min} properties"));
        }
        let embedded: &[&str] = if schema.embedded { &["apiVersion", "kind"] } else { &[] };
        let required = schema.required.iter().map(String::as_str).chain(embedded.iter().copied());
        for name in required.filter(|&name| !fields.contains_key(name)) {
            let field = self.below(&format!(".{name}"), |walk| walk.field());
            self.errors.push(FieldError::required(field, ""));
        }
        for (name, value) in fields {
            if let Some(schema) = schema.field(name) {
                let old = old.and_then(|old| old.get(name));
                self.below(&format!(".{name}"), |walk| walk.value(schema, value, old));
            }
        }
    }

    /// Checks `enum` by equality of JSON values.
    fn enumeration(&mut self, schema: &Schema, value: &Value) {
        if schema.allowed.is_empty() || schema.allowed.contains(value) {
            return;
        }
        let supported: Vec<String> =
            schema.allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        self.errors.push(FieldError::not_supported(self.field(), value.clone(), &supported));
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`. Ratcheting ends here: alternatives have no old value.
    fn combinations(&mut self, schema: &Schema, value: &Value) {
        self.any_of(&schema.any_of, value);
        self.one_of(&schema.one_of, value);
        self.all_of(&schema.all_of, value);
        if schema.not.as_deref().is_some_and(|part| self.alternative(part, value).is_empty()) {
            self.refuse_whole("must not validate the schema (not)");
        }
    }

    /// At least one must hold. If none does, the errors of the closest one are reported, too.
    ///
    /// Every alternative is tried, also after one that holds: kube-apiserver does the same, and the cost is that of
    /// the schema.
    fn any_of(&mut self, parts: &[Schema], value: &Value) {
        let failures: Vec<_> = parts.iter().map(|part| self.alternative(part, value)).collect();
        if !failures.is_empty() && failures.iter().all(|errors| !errors.is_empty()) {
            self.refuse_whole("must validate at least one schema (anyOf)");
            self.report_closest(failures);
        }
    }

    /// Exactly one must hold. If none does, the errors of the closest one are reported, too.
    fn one_of(&mut self, parts: &[Schema], value: &Value) {
        if parts.is_empty() {
            return;
        }
        let failures: Vec<_> = parts.iter().map(|part| self.alternative(part, value)).collect();
        let valid = failures.iter().filter(|errors| errors.is_empty()).count();
        match valid {
            1 => {}
            0 => {
                self.refuse_whole("must validate one and only one schema (oneOf). Found none valid");
                self.report_closest(failures);
            }
            _ => {
                let what = "must validate one and only one schema (oneOf)";
                self.refuse_whole(&format!("{what}. Found {valid} valid alternatives"));
            }
        }
    }

    /// All must hold. The errors of each come before the summary.
    fn all_of(&mut self, parts: &[Schema], value: &Value) {
        let failures: Vec<_> = parts.iter().map(|part| self.alternative(part, value)).collect();
        let failed = failures.iter().filter(|errors| !errors.is_empty()).count();
        self.errors.extend(failures.into_iter().flatten());
        if failed > 0 {
            let none = if failed == parts.len() { ". None validated" } else { "" };
            self.refuse_whole(&format!("must validate all the schemas (allOf){none}"));
        }
    }

    /// The errors that one alternative alone would have here.
    ///
    /// Each alternative gets a list of errors of its own, which is thrown away if another one holds.
    fn alternative(&self, part: &Schema, value: &Value) -> Vec<FieldError> {
        let mut walk = Self { errors: FieldErrors::new(), path: self.path.clone() };
        walk.value(part, value, None);
        walk.errors.into_vec()
    }

    /// Reports the errors of the alternative with the fewest, the first of several. Errors without a path repeat others.
    fn report_closest(&mut self, failures: Vec<Vec<FieldError>>) {
        let count = |errors: &Vec<FieldError>| errors.iter().filter(|error| error.field != "<nil>").count();
        let closest = failures.into_iter().min_by_key(count);
        self.errors.extend(closest.into_iter().flatten());
    }

    /// Refuses a value for all of it. kube-apiserver loses the path of such errors and names it in their text.
    fn refuse_whole(&mut self, what: &str) {
        let detail = format!("{:?} {what}", self.field());
        self.errors.push(FieldError::invalid("<nil>", "", detail));
    }

    fn refuse(&mut self, value: impl Into<Value>, what: &str) {
        let detail = self.in_body(what);
        self.errors.push(FieldError::invalid(self.field(), value, detail));
    }

    fn in_body(&self, what: &str) -> String {
        format!("{} in body {what}", self.field())
    }

    fn field(&self) -> String {
        self.path.trim_start_matches('.').to_owned()
    }

    fn below<T>(&mut self, step: &str, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(step);
        let result = inside(self);
        self.path.truncate(length);
        result
    }
}

/// The elements of an old list by what makes them the same ones: their keys in a keyed list. Elsewhere there are none,
/// because position does not tell.
///
/// Made per list and only if there is an old one; a hash per element instead of a search for each.
#[derive(Default)]
struct OldItems<'a>(HashMap<Value, &'a Value>);

impl<'a> OldItems<'a> {
    fn new(schema: &Schema, old: &'a Value) -> Self {
        let items = old.as_array().filter(|_| schema.is_keyed_list()).into_iter().flatten();
        // The first of several counts.
        Self(items.rev().map(|item| (map_key(schema, item), item)).collect())
    }

    /// The element that `value` replaces.
    fn find(&self, schema: &Schema, value: &Value) -> Option<&'a Value> {
        if self.0.is_empty() { None } else { self.0.get(&map_key(schema, value)).copied() }
    }
}

/// Keys with defaults have been filled in before, so an absent key is absent in both lists.
fn map_key(schema: &Schema, value: &Value) -> Value {
    let field = |name: &&str| value.get(name).map(|value| ((*name).to_owned(), value.clone()));
    Value::Object(schema.list_map_keys.iter().filter_map(field).collect())
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() && n.as_f64().is_some_and(|n| n.fract() != 0.0) => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::schema;
    use listwatch_wire::json::json;

    /// `field reason` of each error, for a schema of one field `f`.
    fn errors(field: Value, value: Value) -> Vec<String> {
        let schema = schema(json!({"type": "object", "properties": {"f": field}}));
        let errors = validate(&schema, &json!({"f": value}), None);
        errors.iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
    }

    #[test]
    fn wrong_types_are_named_with_their_path() {
        assert_eq!(errors(json!({"type": "string"}), json!(5)), ["f TypeInvalid"]);
        assert_eq!(
            errors(json!({"type": "array", "items": {"type": "string"}}), json!(["a", 2])),
            ["f[1] TypeInvalid"]
        );
        assert_eq!(errors(json!({"type": "integer"}), json!(1.5)), ["f TypeInvalid", "<nil> Invalid"]);
        assert_eq!(errors(json!({"type": "integer"}), json!(2.0)), [""; 0], "a whole float is an integer");
        assert_eq!(errors(json!({"type": "number"}), json!(2)), [""; 0]);
        let small = json!({"type": "integer", "format": "int32"});
        assert_eq!(errors(small.clone(), json!(2_147_483_648_i64)), ["<nil> Invalid"]);
        assert_eq!(errors(small, json!(-2_147_483_648_i64)), [""; 0]);
        assert_eq!(errors(json!({"x-kubernetes-int-or-string": true}), json!(true)), ["f TypeInvalid"]);
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(errors(json!({"type": "integer", "minimum": 1}), json!(0)), ["f Invalid"]);
        assert_eq!(
            errors(json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}), json!(0)),
            ["f Invalid"]
        );
        assert_eq!(errors(json!({"type": "integer", "multipleOf": 5}), json!(7)), ["f Invalid"]);
        assert_eq!(
            errors(json!({"type": "string", "maxLength": 3}), json!("äöü")),
            [""; 0],
            "characters, not bytes"
        );
        assert_eq!(errors(json!({"type": "string", "maxLength": 3}), json!("abcd")), ["f TooLong"]);
        assert_eq!(errors(json!({"type": "string", "pattern": "^a+$"}), json!("b")), ["f Invalid"]);
        // The classes of Go are ASCII; those of Unicode made a thousand such patterns compile for a minute.
        assert_eq!(errors(json!({"type": "string", "pattern": r"^\w$"}), json!("é")), ["f Invalid"]);
        assert!(errors(json!({"type": "string", "pattern": r"^\w$"}), json!("e")).is_empty());
        assert_eq!(errors(json!({"type": "string", "enum": ["red"]}), json!("green")), ["f NotSupported"]);
        assert_eq!(errors(json!({"type": "array", "maxItems": 1}), json!([1, 2])), ["f TooMany"]);
        assert_eq!(errors(json!({"type": "object", "required": ["x"]}), json!({})), ["f.x Required"]);
    }

    #[test]
    fn keyed_lists_and_sets_refuse_duplicates() {
        let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "properties": {"port": {"type": "integer"}}}});
        assert_eq!(errors(keyed, json!([{"port": 1}, {"port": 1}])), ["f[1] Duplicate"]);
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        assert_eq!(errors(set, json!(["x", "x"])), ["f[1] Duplicate"]);
    }

    #[test]
    fn an_untouched_part_is_not_judged_again() {
        let schema = schema(json!({"type": "object", "properties": {
            "a": {"type": "string", "maxLength": 3}, "b": {"type": "string"}}}));
        let old = json!({"a": "toolong", "b": "1"});
        assert!(validate(&schema, &json!({"a": "toolong", "b": "2"}), Some(&old)).is_empty());
        assert_eq!(validate(&schema, &json!({"a": "alsolong", "b": "1"}), Some(&old)).len(), 1);
    }

    #[test]
    fn combinations_hold() {
        let any = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
        assert_eq!(errors(any.clone(), json!(1)), [""; 0]);
        assert_eq!(errors(any, json!(true)), ["<nil> Invalid", "f TypeInvalid"]);
        assert_eq!(errors(json!({"not": {"enum": ["x"]}}), json!("x")), ["<nil> Invalid"]);
        let one = json!({"oneOf": [{"minimum": 1}, {"maximum": 3}]});
        assert_eq!(errors(one, json!(2)), ["<nil> Invalid"], "both are valid");
        let all = json!({"type": "integer", "allOf": [{"minimum": 3}, {"multipleOf": 2}]});
        assert_eq!(errors(all, json!(1)), ["f Invalid", "f Invalid", "<nil> Invalid"]);
    }
}
