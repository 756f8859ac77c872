//! The validity of `metadata.managedFields` that something else than this crate has written.
//!
//! Webhooks and clients may send anything. Next: `record.rs`, which reads a record that is valid.

use listwatch_json::Value;

use super::FieldSet;

/// Returns the first error of entries of `managedFields`, with which they could not be read again.
#[must_use]
#[doc(alias = "ValidateManagedFields")]
pub fn managed_fields_error(entries: &[Value]) -> Option<String> {
    entries.iter().enumerate().find_map(|(index, entry)| entry_error(index, entry))
}

fn entry_error(index: usize, entry: &Value) -> Option<String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("operation"), "Apply" | "Update") {
        return Some("operation must be `Apply` or `Update`".to_owned());
    }
    if text("apiVersion").is_empty() {
        return Some("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Some(format!("missing fieldsType in managed fields entry {index}")),
        other => return Some(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
    }
    let fields = entry.get("fieldsV1").filter(|fields| !fields.is_null())?;
    let readable = FieldSet::from_json(fields.clone()).is_some();
    (!readable).then(|| format!("error decoding manager fields from {}", text("manager")))
}

#[cfg(test)]
mod tests {
    use listwatch_json::json;

    use super::*;

    #[test]
    fn an_entry_without_its_parts_is_invalid() {
        let whole = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}});
        assert_eq!(managed_fields_error(std::slice::from_ref(&whole)), None);
        for (key, why) in [
            ("operation", "operation must be `Apply` or `Update`"),
            ("apiVersion", "apiVersion must not be empty"),
            ("fieldsType", "missing fieldsType in managed fields entry 0"),
        ] {
            let mut entry = whole.clone();
            entry.as_object_mut().unwrap().remove(key);
            assert_eq!(managed_fields_error(&[entry]).as_deref(), Some(why));
        }
    }
}
