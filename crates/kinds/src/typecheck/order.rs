//! Unknown fields in the order in which the body has them.
//!
//! Parsed objects keep their keys sorted, so the order in which a client wrote them is only in the body. It matters when
//! several fields are wrong: warnings and errors name them as a reader of the body meets them. That is rare, so the body is
//! read a second time for it rather than every object carrying its order along.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Sorts paths by where the body, which is JSON, first has them. Paths it does not have keep their place at the end.
pub(super) fn by_body(paths: &mut [String], body: &[u8]) {
    let mut finder = Finder { wanted: HashMap::new(), path: String::new(), next: 0 };
    finder.wanted.extend(paths.iter().map(|path| (path.clone(), usize::MAX)));
    // A body that cannot be read to its end still has the order of what came before.
    let mut json = serde_json::Deserializer::from_slice(body);
    let _ = finder.deserialize_in(&mut json);
    let found = finder.wanted;
    paths.sort_by_key(|path| found.get(path).copied().unwrap_or(usize::MAX));
}

/// Reads a body, forgets its values, and remembers when it met each wanted path.
struct Finder {
    wanted: HashMap<String, usize>,
    path: String,
    next: usize,
}

impl Finder {
    fn deserialize_in<'de, D: Deserializer<'de>>(&mut self, json: D) -> Result<(), D::Error> {
        Here(self).deserialize(json)
    }

    fn meet(&mut self) {
        if let Some(position) = self.wanted.get_mut(&self.path).filter(|p| **p == usize::MAX) {
            *position = self.next;
            self.next += 1;
        }
    }
}

/// The value at the finder's path.
struct Here<'a>(&'a mut Finder);

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

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    /// Numbers and raw values that a format wraps in a type of its own.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(json).map(drop)
    }
}
