//! Unknown and repeated fields in the order in which the body has them.
//!
//! Parsed objects keep their keys sorted, so the order in which a client wrote them is only in the body. It matters when
//! several fields are wrong: warnings and errors name them as a reader of the body meets them. That is rare, so the body is
//! read a second time for it rather than every object carrying its order along.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Errors about unknown and repeated fields in the order of the body. Paths that cannot be found in it come last.
///
/// The wanted paths are in a map, so that many errors cost one lookup per key of the body.
pub(super) fn strict_decoding_errors(unknown: &[String], duplicates: &[String], body: &[u8]) -> Vec<String> {
    let repeated = duplicates.iter().filter(|path| !unknown.iter().any(|outer| is_within(path, outer)));
    let known: Vec<&String> = repeated.collect();
    let mut finder = OrderFinder { wanted: HashMap::new(), path: String::new(), next: 0 };
    finder.wanted.extend(unknown.iter().chain(known.iter().copied()).map(|path| (path.clone(), Vec::new())));
    if finder.wanted.len() > 1 {
        // Up to an error in the body, the order of its fields is known.
        let mut json = serde_json::Deserializer::from_slice(body);
        let _ = finder.deserialize_in(&mut json);
    }
    let place = |path: &String, time: usize| {
        finder.wanted.get(path).and_then(|places| places.get(time)).copied().unwrap_or(usize::MAX)
    };
    let unknown = unknown.iter().map(|path| (place(path, 0), format!("unknown field {path:?}")));
    let known = known.into_iter().map(|path| (place(path, 1), format!("duplicate field {path:?}")));
    let mut all: Vec<(usize, String)> = unknown.chain(known).collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, text)| text).collect()
}

/// Returns true if a path is another one or below it.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Parses a body without keeping values, and records the first and second position of each wanted path.
struct OrderFinder {
    wanted: HashMap<String, Vec<usize>>,
    path: String,
    next: usize,
}

impl OrderFinder {
    fn deserialize_in<'de, D: Deserializer<'de>>(&mut self, json: D) -> Result<(), D::Error> {
        Here(self).deserialize(json)
    }

    /// Notes the position of the present path, if it is wanted.
    fn meet(&mut self) {
        if let Some(places) = self.wanted.get_mut(&self.path).filter(|places| places.len() < 2) {
            places.push(self.next);
        }
        self.next += 1;
    }
}

/// The value at the finder's path.
struct Here<'a>(&'a mut OrderFinder);

impl<'de> DeserializeSeed<'de> for Here<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Here<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&key);
            self.0.meet();
            map.next_value_seed(Here(self.0))?;
            self.0.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        for index in 0.. {
            self.0.path.push_str(&format!("[{index}]"));
            let more = list.next_element_seed(Here(self.0))?.is_some();
            self.0.path.truncate(length);
            if !more {
                break;
            }
        }
        Ok(())
    }

    listwatch_wire::skip_scalars!();
}
