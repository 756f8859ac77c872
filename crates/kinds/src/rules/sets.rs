//! The rule sets of all structs, each compiled when an object that has the struct is validated for the first time.
//!
//! Compiling all of them takes longer than the rest of a server's start and a megabyte of memory, and most servers
//! are sent a few kinds only.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::compile::{self, RuleStop, SetId};
use super::tables::Tables;
use crate::schema::{SchemaTable, StructId, schema};

/// All rule sets, compiled or not.
///
/// Indexes into one vector, so that sets can refer to each other in cycles, as schemas of definitions do.
#[derive(Debug)]
pub(super) struct RuleSets {
    pub(super) tables: Tables,
    pub(super) schema: &'static SchemaTable,
    by_name: HashMap<&'static str, SetId>,
    sets: Vec<RuleSet>,
    /// Held while sets are compiled, so that two requests do not do it twice.
    compiling: Mutex<()>,
}

/// The rules of one block.
#[derive(Debug)]
struct RuleSet {
    name: &'static str,
    /// `None` for a block about a struct that the schema does not have.
    structure: Option<StructId>,
    stops: OnceLock<Vec<RuleStop>>,
}

impl RuleSets {
    /// Finds the blocks of the tables and compiles none. The sets of structs have the indexes of the structs.
    pub(super) fn new(tables: Tables) -> Self {
        let schema = schema();
        let mut rules =
            Self { tables, schema, by_name: HashMap::new(), sets: Vec::new(), compiling: Mutex::new(()) };
        for (id, found) in schema.structs() {
            rules.add(short(found.name), Some(id));
        }
        let mut variants: Vec<_> =
            rules.tables.names().filter(|name| !rules.by_name.contains_key(name)).collect();
        variants.sort_unstable();
        for name in variants {
            let plain = name.split('@').next().unwrap_or(name);
            let structure = rules.position(plain).and_then(|set| rules.sets.get(set)?.structure);
            rules.add(name, structure);
        }
        rules
    }

    fn add(&mut self, name: &'static str, structure: Option<StructId>) {
        self.by_name.insert(name, self.sets.len());
        self.sets.push(RuleSet { name, structure, stops: OnceLock::new() });
    }

    /// The rules of a struct, ready for a walk.
    pub(super) fn of(&self, id: StructId) -> Option<SetId> {
        self.ready(id.index())
    }

    /// The rules of a block, ready for a walk.
    pub(super) fn named(&self, name: &str) -> Option<SetId> {
        self.ready(self.position(name)?)
    }

    /// Compiles a set, unless it is, and all that a walk can reach from it.
    fn ready(&self, set: SetId) -> Option<SetId> {
        let found = self.sets.get(set)?;
        if found.stops.get().is_none() {
            let _one_at_a_time = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
            if found.stops.get().is_none() {
                self.keep(compile::compile(self, set).sets);
            }
        }
        Some(set)
    }

    fn keep(&self, compiled: impl IntoIterator<Item = (SetId, Vec<RuleStop>)>) {
        for (set, stops) in compiled {
            if let Some(set) = self.sets.get(set) {
                // Sets are compiled under a lock, so the cell is still empty.
                let _ = set.stops.set(stops);
            }
        }
    }

    /// The checks at a struct, in order. Empty for a set that no walk was made ready for.
    pub(super) fn stops(&self, set: SetId) -> &[RuleStop] {
        self.compiled(set).unwrap_or_default()
    }

    /// The checks of a set, if it is compiled.
    pub(super) fn compiled(&self, set: SetId) -> Option<&[RuleStop]> {
        self.sets.get(set)?.stops.get().map(Vec::as_slice)
    }

    /// The index of the set of a block.
    pub(super) fn position(&self, name: &str) -> Option<SetId> {
        self.by_name.get(name).copied()
    }

    /// The name of a set's block and the struct that it is about.
    pub(super) fn heading(&self, set: SetId) -> Option<(&'static str, Option<StructId>)> {
        self.sets.get(set).map(|found| (found.name, found.structure))
    }

    /// Everything in the tables that is not understood.
    #[cfg(test)]
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for set in 0..self.sets.len() {
            if self.compiled(set).is_none() {
                let compiled = compile::compile(self, set);
                self.keep(compiled.sets);
                problems.extend(compiled.problems);
            }
        }
        problems
    }
}

/// `core.v1.Container` of `io.k8s.api.core.v1.Container`.
pub(super) fn short(name: &'static str) -> &'static str {
    let start = name.rmatch_indices('.').nth(2).map_or(0, |(at, _)| at + 1);
    name.get(start..).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> RuleSets {
        RuleSets::new(Tables::new([include_str!("written.txt"), include_str!("declared.txt")]))
    }

    /// A server that is sent ConfigMaps does not pay for the rules of Pods.
    #[test]
    fn only_what_can_be_reached_is_compiled() {
        let rules = rules();
        rules.named("core.v1.ConfigMap");
        let pod = rules.position("core.v1.Pod").unwrap();
        assert!(rules.compiled(pod).is_none());
        assert!(rules.compiled(rules.position("core.v1.ConfigMap").unwrap()).is_some());
    }

    /// The order in which kinds are first written must not change their rules: sets are joined from several starts.
    #[test]
    fn sets_are_the_same_in_whatever_order_they_are_compiled() {
        let (forth, back) = (rules(), rules());
        let count = forth.sets.len();
        for set in 0..count {
            forth.ready(set);
            back.ready(count - 1 - set);
        }
        for set in 0..count {
            assert_eq!(
                format!("{:?}", forth.stops(set)),
                format!("{:?}", back.stops(set)),
                "{:?}",
                forth.heading(set)
            );
        }
    }
}
