//! Interned names of `x-kubernetes-list-map-keys`.
//!
//! The schema trait of `listwatch-merge` returns a slice of `&str`, and is asked for each element of each list on every
//! apply. Interning gives names the lifetime of the process, so that no allocation is needed there. The set is never
//! emptied; 4,096 distinct names bound the memory that hostile definitions can take, and a definition beyond that is
//! refused.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer};

/// Distinct key names a process takes. Definitions use a handful (`name`, `type`, `port`); the bound keeps a stream of
/// invented ones from holding memory.
const MAX_NAMES: usize = 4096;

static NAMES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// The name with a life as long as the process, so that schemas can lend slices of names without allocating on each
/// element of each list. `None` if there are too many.
///
/// The lock is held for one lookup, and only while a definition is parsed.
fn keep(name: &str) -> Option<&'static str> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = names.get(name) {
        return Some(kept);
    }
    if names.len() >= MAX_NAMES {
        return None;
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    Some(kept)
}

/// Reads a list of key names.
///
/// # Errors
///
/// If the process has [`MAX_NAMES`] names already: the definition is refused as invalid, and others keep working.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<&'static str>, D::Error> {
    let names = Vec::<String>::deserialize(source)?;
    let kept = names.iter().map(|name| keep(name).ok_or("too many distinct names of list keys"));
    kept.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}
