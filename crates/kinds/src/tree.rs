//! Short ways through a `listwatch_wire::json::Value` whose shape is known.
//!
//! Rules read objects after the type check, so a field has its declared type or is absent. Absent and `null` mean the
//! same everywhere in the API, and these helpers make that the default: reading what is not there gives the empty
//! value, writing below it makes the object first.

use listwatch_wire::json::{Map, Text, Value};

/// The value of an absent field.
static NULL: Value = Value::Null;

/// Reading and filling in fields by name, for values whose types have been checked. Wrong types read as absent.
///
/// For values and for their maps alike, so that defaulting functions can hold the map of a struct and go on from
/// there.
///
/// ```
/// use listwatch_kinds::tree::Tree;
/// use listwatch_wire::json::json;
///
/// let mut service = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}});
/// assert_eq!(service.at("spec").text("type"), "ClusterIP");
/// assert_eq!(service.at("spec").list("ports")[0].int("port"), Some(80));
/// // Nothing is there, and that is not an error.
/// assert_eq!(service.below("status.loadBalancer.ingress").list("x").len(), 0);
///
/// // A default fills in what is absent and leaves what is there.
/// let spec = service.inner("spec").unwrap();
/// spec.fill("type", "NodePort");
/// spec.fill("sessionAffinity", "None");
/// assert_eq!((spec.text("type"), spec.text("sessionAffinity")), ("ClusterIP", "None"));
/// ```
pub trait Tree {
    /// The object's fields, if it is an object.
    fn fields(&self) -> Option<&Map>;
    /// The object's fields for writing, if it is an object.
    fn fields_mut(&mut self) -> Option<&mut Map>;

    /// The field, or `null`.
    fn at(&self, key: &str) -> &Value {
        self.fields().and_then(|fields| fields.get(key)).unwrap_or(&NULL)
    }

    /// The field below several names, or `null`.
    fn path(&self, keys: &[&str]) -> &Value {
        let Some((first, rest)) = keys.split_first() else { return &NULL };
        rest.iter().fold(self.at(first), |value, key| value.at(key))
    }

    /// The field at the end of a dotted path (`spec.template.metadata`), or `null`.
    fn below(&self, path: &str) -> &Value {
        let mut names = path.split('.');
        let first = self.at(names.next().unwrap_or_default());
        names.fold(first, |value, name| value.at(name))
    }

    /// Returns true if the field is present and not `null`.
    fn has(&self, key: &str) -> bool {
        !self.at(key).is_null()
    }

    /// The field as text; empty if absent.
    fn text(&self, key: &str) -> &str {
        self.at(key).as_str().unwrap_or_default()
    }

    /// The field as a whole number.
    fn int(&self, key: &str) -> Option<i64> {
        self.at(key).as_i64()
    }

    /// The field as a flag; false if absent.
    fn flag(&self, key: &str) -> bool {
        self.at(key).as_bool().unwrap_or_default()
    }

    /// The field's elements; none if absent.
    fn list(&self, key: &str) -> &[Value] {
        self.at(key).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The field's entries; none if absent.
    fn entries(&self, key: &str) -> impl Iterator<Item = (&Text, &Value)> {
        self.at(key).as_object().into_iter().flatten()
    }

    /// The number of elements or entries of the field.
    fn count(&self, key: &str) -> usize {
        match self.at(key) {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    /// Sets the field if it is absent.
    ///
    /// `null` counts as absent, as in a Go struct.
    fn fill(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.put(key, value);
        }
    }

    /// Sets the field if it is absent or empty text.
    fn fill_text(&mut self, key: &str, value: &str) {
        if self.text(key).is_empty() {
            self.put(key, value);
        }
    }

    /// Sets the field.
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        if let Some(fields) = self.fields_mut() {
            fields.insert(key, value.into());
        }
    }

    /// Removes the field.
    fn drop_field(&mut self, key: &str) -> Option<Value> {
        self.fields_mut().and_then(|fields| fields.remove(key))
    }

    /// The object below the field if there is one.
    fn inner(&mut self, key: &str) -> Option<&mut Map> {
        self.fields_mut().and_then(|fields| fields.get_mut(key)).and_then(Value::as_object_mut)
    }

    /// The object below the field, made if absent.
    ///
    /// `None` only if the field has another type, which the type check has excluded.
    fn inner_or_new(&mut self, key: &str) -> Option<&mut Map> {
        self.fill(key, Value::Object(Map::new()));
        self.inner(key)
    }

    /// The elements below the field that are objects.
    ///
    /// Copies a list that is shared with the stored object. Functions that may have nothing to do look first.
    fn each(&mut self, key: &str) -> impl Iterator<Item = &mut Map> {
        self.fields_mut()
            .and_then(|fields| fields.get_mut(key))
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
    }
}

impl Tree for Value {
    fn fields(&self) -> Option<&Map> {
        self.as_object()
    }
    fn fields_mut(&mut self) -> Option<&mut Map> {
        self.as_object_mut()
    }
}

impl Tree for Map {
    fn fields(&self) -> Option<&Map> {
        Some(self)
    }
    fn fields_mut(&mut self) -> Option<&mut Map> {
        Some(self)
    }
}
