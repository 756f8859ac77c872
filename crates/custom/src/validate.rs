//! Validation of values against a structural schema, with the messages of kube-apiserver (kube-openapi's validator).
//!
//! On an update, parts equal to the stored ones are skipped (ratcheting). Errors are bounded by [`FieldErrors`]; the
//! walk ends when the list is full. Pruning and defaulting come before (`prune`, `fill`). Expression rules are not here
//! but in [`crate::Rules`]; they run only when this found nothing.
//!
//! A schema of many alternatives and an object of many values multiply, so the work is counted ([`MAX_STEPS`]).

mod combinations;
mod lists;
mod numbers;
mod types;

use std::ops::Range;

use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrors};

pub(crate) use self::lists::map_key;
use self::lists::{OldItems, repetitions};
use crate::format;
use crate::schema::Schema;

/// The most steps of one validation; beyond them the object is refused. A step is about one value validated against one
/// schema. An object of the largest size has a million values, rarely with more than a few alternatives each;
/// kube-apiserver has no such bound and works until its request times out.
const MAX_STEPS: usize = 10_000_000;

/// The bytes of a text that count as one step: checks of texts read all of it.
const BYTES_PER_STEP: usize = 16;

/// The work of searching for a pattern that counts as one step. It is that of the worst case, which most searches are far from.
const SEARCH_WORK_PER_STEP: u64 = 4;

/// Checks a value, and on update only what changed: a part equal to the old one is not validated again, so that a
/// tightened schema does not lock up objects that were valid once.
///
/// Costs as much as the changed parts of the object and the schema have in common: equal parts are often the same
/// shared tree, which compares by pointer. Alternatives multiply that, within the size of the schema.
///
/// ```
/// use listwatch_custom::{Schema, validate};
/// use listwatch_wire::json::json;
///
/// let schema: Schema = json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}}).to_type()?;
/// let stored = json!({"size": 9});
/// assert_eq!(validate(&schema, &stored, None).len(), 1);
/// assert!(validate(&schema, &stored, Some(&stored)).is_empty(), "it was stored before the bound was tightened");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let errors = ValidateWalk::new(MAX_STEPS).run(schema, value, old);
    match old {
        // Once there are repeated elements, there may be more, wherever they are.
        Some(old) if !errors.is_empty() && repetitions(schema, old) => {
            let mode = ValidationMode::KeepRepetitions;
            ValidateWalk { mode, ..ValidateWalk::new(MAX_STEPS) }.run(schema, value, Some(old))
        }
        _ => errors,
    }
}

/// Validates a default by the schema that it is declared in.
pub(crate) fn validate_default(schema: &Schema, default: &Value) -> Vec<FieldError> {
    ValidateWalk { mode: ValidationMode::Default, ..ValidateWalk::new(MAX_STEPS) }.run(schema, default, None)
}

/// One walk over an object and its schema.
///
/// Steps bound the work: `anyOf`, `oneOf` and `allOf` of a hostile schema would multiply it otherwise.
struct ValidateWalk {
    errors: FieldErrors,
    path: String,
    /// The steps of the path that are keys of maps. Errors about elements that must differ show them in brackets.
    keys: Vec<Range<usize>>,
    /// Steps that are left.
    steps: usize,
    /// The place where they were used up.
    exhausted_at: Option<String>,
    /// The treatment of elements that must differ and of values that are integers or strings.
    mode: ValidationMode,
    /// The validators that were applied, which decide on the alternative whose errors are reported (kube-openapi's `MatchCount`).
    matches: usize,
}

/// The checks that a walk makes, by the value that it validates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValidationMode {
    /// An object: all of them.
    Object,
    /// An object whose stored form has repeated elements, which it may keep: all others.
    KeepRepetitions,
    /// A default, whose integers or strings may have any type, and whose elements are compared once it is in an object.
    Default,
}

/// The number of kube-openapi's validators that apply to a value, besides those of its parts and its alternatives: of
/// every value the composition and the enumeration, of a number its bounds, and so on. Some count twice.
fn validators_of(schema: &Schema, value: &Value) -> usize {
    let by_kind = match value {
        Value::Null => return 1,
        Value::String(_) => 1 + usize::from(format::is_known(&schema.format)),
        Value::Number(_) | Value::Array(_) => 2,
        Value::Object(_) => 1,
        Value::Bool(_) => 0,
    };
    4 + by_kind
}

impl ValidateWalk {
    fn new(steps: usize) -> Self {
        Self {
            errors: FieldErrors::new(),
            path: String::new(),
            keys: Vec::new(),
            steps,
            exhausted_at: None,
            mode: ValidationMode::Object,
            matches: 0,
        }
    }

    /// Validates a value and returns the errors. When the steps are used up, that is the only error: what was found
    /// before may be wrong.
    fn run(mut self, schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.value(schema, value, old);
        match self.exhausted_at {
            None => self.errors.into_vec(),
            // Other errors are dropped: they may be of alternatives that were not checked completely.
            Some(place) => {
                let detail = "validation failed due to running out of steps: the schema has too many alternatives or patterns for an \
                              object of this size";
                vec![FieldError::forbidden(place, detail)]
            }
        }
    }

    /// Counts work. Returns false if there was too much of it already.
    fn spend(&mut self, steps: usize) -> bool {
        if self.exhausted_at.is_some() {
            return false;
        }
        match self.steps.checked_sub(steps) {
            Some(left) => self.steps = left,
            None => self.exhausted_at = Some(self.field()),
        }
        self.exhausted_at.is_none()
    }

    /// Counts the work of a search.
    fn spend_search(&mut self, work: u64) -> bool {
        self.spend(usize::try_from(work / SEARCH_WORK_PER_STEP).unwrap_or(usize::MAX))
    }

    /// Validates a value and everything below it. A value equal to the old one is skipped, so that a tightened schema
    /// does not block unrelated updates.
    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>) {
        if old == Some(value) || self.errors.is_full() || (value.is_null() && schema.nullable) {
            return;
        }
        if !self.spend(1 + value.as_str().map_or(0, str::len) / BYTES_PER_STEP) {
            return;
        }
        // A value of the wrong type is checked by the rules of its actual type, as in kube-apiserver.
        let before = self.errors.len();
        self.check_type(schema, value);
        let has_type = schema.int_or_string || !schema.type_name.is_empty();
        // The validator of types counts itself, too, unless it fails.
        self.matches += usize::from(has_type) * (1 + usize::from(self.errors.len() == before));
        self.combinations(schema, value);
        self.matches += validators_of(schema, value);
        match value {
            Value::String(text) => self.string(schema, text),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), value),
            Value::Array(items) => self.array(schema, items, old),
            Value::Object(_) => self.object(schema, value, old),
            _ => {}
        }
        self.enumeration(schema, value);
    }

    /// Form and format are reported both: they are separate validators in kube-openapi.
    fn string(&mut self, schema: &Schema, text: &str) {
        self.string_form(schema, text);
        if !format::is_valid(&schema.format, text) {
            let detail = self.in_body(&format!("must be of type {}: {text:?}", schema.format));
            self.errors.push(FieldError::type_invalid(self.field(), text, detail));
        }
    }

    /// Only the first violated rule is reported.
    fn string_form(&mut self, schema: &Schema, text: &str) {
        let length = text.chars().count();
        if let Some(max) = schema.max_length.filter(|&max| length > max) {
            self.errors.push(FieldError::too_long(self.field(), max));
        } else if let Some(min) = schema.min_length.filter(|&min| length < min) {
            self.refuse(text, &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = schema.pattern.compiled()
            && self.spend_search(pattern.search_work(text.len()))
            && !pattern.is_match(text)
        {
            self.refuse(text, &format!("should match '{}'", schema.pattern.text()));
        }
    }

    /// Checks the elements of an array, then the array, as kube-apiserver does. Old elements are found by their keys in
    /// a `map` list, and not at all in others, where nothing identifies them.
    fn array(&mut self, schema: &Schema, items: &[Value], old: Option<&Value>) {
        if let Some(item) = schema.items.as_deref() {
            let old = old.map(|old| OldItems::new(schema, old)).unwrap_or_default();
            for (index, value) in items.iter().enumerate() {
                let old = old.find(schema, value);
                self.below(&format!("[{index}]"), |walk| walk.value(item, value, old));
            }
        }
        if let Some(max) = schema.max_items.filter(|&max| items.len() > max) {
            self.errors.push(FieldError::too_many(self.field(), items.len(), max));
        }
        if let Some(min) = schema.min_items.filter(|&min| items.len() < min) {
            self.refuse(items.len(), &format!("should have at least {min} items"));
        }
        self.duplicates(schema, items);
    }

    /// Checks an object and its fields, then which fields are missing. Unknown fields were pruned before; those that are
    /// preserved are not validated.
    fn object(&mut self, schema: &Schema, value: &Value, old: Option<&Value>) {
        let Some(fields) = value.as_object() else { return };
        if let Some(min) = schema.min_properties.filter(|&min| fields.len() < min) {
            self.refuse(fields.len(), &format!("should have at least {min} properties"));
        }
        if let Some(max) = schema.max_properties.filter(|&max| fields.len() > max) {
            self.errors.push(FieldError::too_many(self.field(), fields.len(), max));
        }
        let is_key = |name: &str| !schema.properties.contains_key(name);
        for (name, value) in fields {
            if let Some(schema) = schema.field(name) {
                // The version is always judged, since the old object was converted to that of the new one.
                let judged_again = self.path.is_empty() && matches!(&**name, "apiVersion" | "kind");
                let old = old.filter(|_| !judged_again).and_then(|old| old.get(name));
                let step = format!(".{name}");
                let depth = self.keys.len();
                self.keys.extend(is_key(name).then(|| self.path.len()..self.path.len() + step.len()));
                self.below(&step, |walk| walk.value(schema, value, old));
                self.keys.truncate(depth);
            }
        }
        let embedded: &[&str] = if schema.embedded { &["apiVersion", "kind"] } else { &[] };
        let required = schema.required.iter().map(String::as_str).chain(embedded.iter().copied());
        for name in required.filter(|&name| !fields.contains_key(name)) {
            if self.errors.is_full() {
                return;
            }
            let field = self.below(&format!(".{name}"), |walk| walk.field());
            self.errors.push(FieldError::required(field, ""));
        }
    }

    /// Checks `enum` by equality of JSON values.
    fn enumeration(&mut self, schema: &Schema, value: &Value) {
        if schema.allowed.is_empty() || !self.spend(size(value)) || schema.allowed.contains(value) {
            return;
        }
        // 1.0 is 1.
        let number = value.as_f64().filter(|_| value.as_i64().is_none());
        if number.is_some() && schema.allowed.iter().any(|allowed| allowed.as_f64() == number) {
            return;
        }
        // All of them are reported.
        if !self.spend(schema.allowed.len()) {
            return;
        }
        let supported: Vec<String> =
            schema.allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        self.errors.push(FieldError::not_supported(self.field(), value.clone(), &supported));
    }

    /// Refuses a value for all of it. kube-apiserver loses the path of such errors and names it in their text.
    fn refuse_whole(&mut self, what: &str) {
        let detail = format!("{:?} {what}", self.field());
        self.errors.push(FieldError::invalid("<nil>", "", detail));
    }

    /// An error about the value itself, which it shows.
    fn refuse(&mut self, value: impl Into<Value>, what: &str) {
        let detail = self.in_body(what);
        self.errors.push(FieldError::invalid(self.field(), value, detail));
    }

    /// The name of a field in go-openapi's messages: everything is `in body`.
    fn in_body(&self, what: &str) -> String {
        format!("{} in body {what}", self.field())
    }

    /// The path, without the dot that it begins with below the root.
    fn field(&self) -> String {
        self.path.trim_start_matches('.').to_owned()
    }

    /// The path in the form of field paths, in which keys of maps are in brackets.
    fn keyed_field(&self) -> String {
        let (mut out, mut end) = (String::with_capacity(self.path.len()), 0);
        let text = |range: Range<usize>| self.path.get(range).unwrap_or_default();
        for key in &self.keys {
            out.push_str(text(end..key.start));
            out.extend(["[", text(key.start + 1..key.end), "]"]);
            end = key.end;
        }
        out.push_str(text(end..self.path.len()));
        out.trim_start_matches('.').to_owned()
    }

    /// Calls a function one step down the path, and restores the path afterwards.
    fn below<T>(&mut self, step: &str, inside: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(step);
        let result = inside(self);
        self.path.truncate(length);
        result
    }
}

/// The steps that it takes to compare or hash a value.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(_, value)| size(value)).sum::<usize>(),
        Value::String(text) => 1 + text.len() / BYTES_PER_STEP,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
