//! [`Value::share`]: one tree takes over the containers in which it equals another one.
//!
//! A tree that was parsed shares nothing with the stored one, however little it differs. After this, every step that
//! skips what two trees share does so for it as well: one comparison instead of one per step.

use super::{Map, Value};

impl Value {
    /// Replaces every container that equals the one at the same place of `other` by that one. Returns true if both
    /// trees are equal.
    ///
    /// ```
    /// use listwatch_json::json;
    ///
    /// let stored = json!({"data": {"a": "1"}, "metadata": {"name": "x"}});
    /// let mut sent = json!({"data": {"a": "1"}, "metadata": {"name": "y"}});
    /// assert!(!sent.share(&stored));
    /// assert!(sent["data"].is_same(&stored["data"]) && sent["metadata"]["name"] == "y");
    /// ```
    ///
    /// Costs one walk over what is not shared yet. Containers that other trees share with this one are copied if they differ.
    pub fn share(&mut self, other: &Self) -> bool {
        if self.is_same(other) {
            return true;
        }
        let is_equal = match (&mut *self, other) {
            (Self::Object(fields), Self::Object(others)) => share_fields(fields, others),
            (Self::Array(items), Self::Array(others)) => {
                let pairs = items.iter_mut().zip(others.iter());
                let all = pairs.fold(true, |all, (item, other)| item.share(other) & all);
                all && items.len() == others.len()
            }
            // Scalars that are equal are the same.
            _ => return false,
        };
        if is_equal {
            *self = other.clone();
        }
        is_equal
    }
}

/// Walks both maps in the order of names.
fn share_fields(fields: &mut Map, others: &Map) -> bool {
    let is_as_long = fields.len() == others.len();
    let mut rest = others.iter().peekable();
    let mut all = true;
    for (key, value) in fields.iter_mut() {
        while rest.next_if(|(other, _)| *other < key).is_some() {}
        match rest.next_if(|(other, _)| *other == key) {
            Some((_, other)) => all &= value.share(other),
            None => all = false,
        }
    }
    all && is_as_long
}

#[cfg(test)]
mod tests {
    use crate::json;

    #[test]
    fn equal_containers_are_shared_and_values_stay() {
        let stored =
            json!({"a": {"b": [1, {"c": "x"}], "d": {}}, "e": [{"f": 1}, {"g": 2}], "h": "i", "z": {"y": 1}});
        for sent in [
            stored.clone(),
            json!({"a": {"b": [1, {"c": "x"}], "d": {}}, "e": [{"f": 1}, {"g": 2}], "h": "i", "z": {"y": 1}}),
            json!({"a": {"b": [1, {"c": "x"}, 2], "d": {}}, "e": [{"f": 1}, {"g": 3}], "x": null}),
            json!({"a": [], "e": {"f": 1}, "h": ["i"], "z": {"y": 1.0}}),
        ] {
            let (mut shared, copy) = (sent.clone(), sent.clone());
            assert_eq!(shared.share(&stored), sent == stored);
            assert_eq!(shared, copy);
            assert_eq!(sent, copy, "another copy stays as it was");
        }
        let mut sent = json!({"a": {"b": [1, {"c": "x"}, 2]}, "e": [{"f": 1}, {"g": 3}]});
        sent.share(&stored);
        assert!(sent["a"]["b"][1].is_same(&stored["a"]["b"][1]) && sent["e"][0].is_same(&stored["e"][0]));
        assert!(!sent["e"][1].is_same(&stored["e"][1]));
    }
}
