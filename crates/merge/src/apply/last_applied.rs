//! Migration from client-side `kubectl apply`, which kept its last configuration in an annotation, to server-side
//! apply.
//!
//! A client that applied an object client-side owns its fields under another manager. kube-apiserver transfers the fields that
//! the annotation lists and that no other manager has changed since, and keeps the annotation for clients that still read it.
//!
//! kube-apiserver does the same in its `lastapplied` managers. Other clients' annotations are ignored.

use listwatch_json::{self as json, Value};

use super::compare;
use super::conflict::{ApplyError, Conflict};
use super::extract;
use super::field_set::FieldSet;
use super::manager::{Applied, FieldManager};
use crate::patch::MergeSchema;

/// Only this manager is known to have applied in the old way under another name.
const KUBECTL: &str = "kubectl";
/// The annotation in which kubectl keeps the configuration that it applied last.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl<S: MergeSchema> FieldManager<'_, S> {
    /// Applies a configuration: sets its fields, and removes the fields that the manager applied before and that no
    /// manager owns now.
    ///
    /// `live` is the object before, or `None` if there is none yet.
    ///
    /// Costs two comparisons of the objects and one walk of the configuration; a conflict of `kubectl` costs them
    /// again.
    ///
    /// # Errors
    /// See [`ApplyError`]; nothing has changed then.
    pub fn apply(&self, live: Option<&Value>, config: &Value, force: bool) -> Result<Applied, ApplyError> {
        let applied = self.merge_in(live, config, force);
        if self.manager != KUBECTL {
            return applied;
        }
        let mut applied = match (applied, live) {
            (Err(ApplyError::Conflicts(conflicts)), Some(live)) => self.take_back(live, config, conflicts),
            (applied, _) => applied,
        }?;
        remember(&mut applied.object, config);
        Ok(applied)
    }

    /// Tries again, if all that is contested is its own.
    ///
    /// All or nothing: one field that is really contested refuses the whole configuration, with only those conflicts
    /// named.
    fn take_back(
        &self,
        live: &Value,
        config: &Value,
        mut conflicts: Vec<Conflict>,
    ) -> Result<Applied, ApplyError> {
        let own = self.applied_before(live).unwrap_or_default();
        conflicts.iter_mut().for_each(|conflict| conflict.fields.subtract(&own));
        conflicts.retain(|conflict| !conflict.fields.is_empty());
        if conflicts.is_empty() {
            self.merge_in(Some(live), config, true)
        } else {
            Err(ApplyError::Conflicts(conflicts))
        }
    }

    /// The fields of the annotation that still have the applied value.
    fn applied_before(&self, live: &Value) -> Option<FieldSet> {
        let last = Value::read(annotation(live)?.as_bytes()).ok()?;
        if last.get("apiVersion").and_then(Value::as_str) != Some(self.api_version) {
            return None;
        }
        let mut fields = extract::field_set(&last, self.schema).ok()?;
        let since = compare::objects(&last, live, self.schema);
        fields.subtract(&since.changed);
        fields.subtract(&since.removed);
        Some(fields)
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Brings the annotation up to date, where there is one.
fn remember(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    let annotations = |value: &mut Value| -> Option<()> {
        value.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?.remove(ANNOTATION);
        Some(())
    };
    annotations(&mut config);
    let text = written(&config);
    let place = object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"));
    if let Some(annotations) = place.and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION, text.into());
    }
}

/// The configuration as Go writes it, and with it kubectl: keys in order, and nothing that HTML could mistake for markup.
fn written(config: &Value) -> String {
    let mut bytes = Vec::new();
    json::write_value(&mut bytes, config);
    let text = String::from_utf8(bytes).unwrap_or_default() + "\n";
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::super::{FieldSet, KindVersions};
    use super::*;
    use crate::patch::Schemaless;
    use listwatch_json::json;

    fn manager<'a>(name: &'a str, zero: &'a Value, ignored: &'a FieldSet) -> FieldManager<'a, Schemaless> {
        FieldManager {
            schema: Schemaless,
            zero,
            ignored,
            versions: KindVersions::any(),
            manager: name,
            api_version: "v1",
            subresource: "",
            now: "2020-01-01T00:00:00Z",
        }
    }

    #[test]
    fn kubectl_apply_removes_fields_of_the_last_applied_configuration() {
        let (zero, ignored) = (json!({}), FieldSet::new());
        let last = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","b":"1"}}"#;
        let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {ANNOTATION: last}}, "data": {"a": "1", "b": "2"}});
        manager("kubectl-client-side-apply", &zero, &ignored).update(None, &mut live);
        let config = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
        let apply =
            |name: &str, data: Value| manager(name, &zero, &ignored).apply(Some(&live), &config(data), false);
        assert!(apply("other", json!({"a": "9"})).is_err());
        // It was changed since, so kubectl no longer owns it.
        assert!(apply("kubectl", json!({"b": "9"})).is_err());
        let applied = apply("kubectl", json!({"a": "9"})).unwrap().object;
        assert_eq!(applied["data"], json!({"a": "9", "b": "2"}));
        let kept = applied["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
        assert_eq!(Value::read(kept.as_bytes()).unwrap(), config(json!({"a": "9"})));
        assert_eq!(
            written(&config(json!({"a": "<"}))),
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c\"},\"kind\":\"ConfigMap\"}\n"
        );
    }
}
