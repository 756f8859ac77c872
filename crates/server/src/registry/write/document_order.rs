//! Puts field paths into the order in which a JSON text has them.
//!
//! Trees are sorted by key, but people read warnings from the top of what they wrote, and so do recorded clients. Only
//! bodies with several unknown fields come here.

use std::collections::HashMap;

use listwatch_wire::json::raw;

/// Sorts paths such as `spec.ports[0].nmae` by where they occur; those not found come last.
pub(super) fn sort(bytes: &[u8], paths: &mut [String]) {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(paths.len());
    for path in paths.iter() {
        places.insert(path, find(bytes, path).unwrap_or(usize::MAX));
    }
    let order: HashMap<String, usize> = places.into_iter().map(|(path, at)| (path.to_owned(), at)).collect();
    paths.sort_by_key(|path| order.get(path).copied());
}

/// Where the value of a path begins. Keys with dots in them make a path ambiguous; then the longest key that fits is
/// taken at each step.
fn find(bytes: &[u8], path: &str) -> Option<usize> {
    step(bytes, raw::skip_space(bytes, 0), path)
}

fn step(bytes: &[u8], at: usize, path: &str) -> Option<usize> {
    if path.is_empty() {
        return Some(at);
    }
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        let element = element(bytes, at, index.parse().ok()?)?;
        return step(bytes, element, rest.strip_prefix('.').unwrap_or(rest));
    }
    let mut found = None;
    for field in raw::fields(bytes, at)? {
        let key = std::str::from_utf8(bytes.get(field.key.clone())?).ok()?;
        if let Some(rest) = path.strip_prefix(key)
            && (rest.is_empty() || rest.starts_with(['.', '[']))
        {
            let below = step(bytes, field.value.start, rest.strip_prefix('.').unwrap_or(rest));
            found = below.or(found);
        }
    }
    found
}

/// Where the element of an array begins.
fn element(bytes: &[u8], at: usize, index: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    let mut at = raw::skip_space(bytes, at + 1);
    for _ in 0..index {
        at = raw::skip_space(bytes, raw::skip_value(bytes, at)?);
        if bytes.get(at) != Some(&b',') {
            return None;
        }
        at = raw::skip_space(bytes, at + 1);
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_the_order_they_were_written() {
        let body = br#"{"spec": {"containers": [{"name": "m", "wrong": 1, "env": [{"name": "A", "valeu": "x"}]}]}, "a": 1}"#;
        let mut paths = ["a", "spec.containers[0].env[0].valeu", "spec.containers[0].wrong", "gone"].map(str::to_owned);
        sort(body, &mut paths);
        assert_eq!(paths, ["spec.containers[0].wrong", "spec.containers[0].env[0].valeu", "a", "gone"]);
    }
}
