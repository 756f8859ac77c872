//! Joins the rows of the tables with the schema into rule sets: for each struct, its fields with rules and the sets of
//! the structs below.
//!
//! A rule set belongs to a struct, or to a struct in a certain place (`core.v1.Container@init`). Only fields with rules
//! at or below them are part of a set, so that a walk never enters the rest. That is known only once everything below a
//! set is compiled: [`compile`] joins a set and all that are reachable from it. [`super::sets`] keeps the results.

use std::collections::{BTreeMap, HashSet};

use super::parse;
use super::route::Route;
use super::rows::{RuleLine, RuleRow};
use super::sets::{RuleSets, short};
use crate::schema::{Field, FieldType, StructId};

/// Index of a rule set.
pub(super) type SetId = usize;

/// Values below a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldShape {
    One,
    List,
    Map,
}

/// Something to do at a struct.
#[derive(Debug)]
pub(super) enum RuleStop {
    /// Rules of the struct itself.
    Own(Vec<RuleLine>),
    /// Rules of a field, and the rules below it.
    Field(FieldStop),
    /// Rules of fields further below.
    Route(RouteStop),
}

/// Fields that a route leads to from a struct.
#[derive(Debug)]
pub(super) struct RouteStop {
    pub(super) route: Route,
    /// The field at the end of the route; none for an element or an entry.
    pub(super) field: Option<&'static Field>,
    pub(super) lines: Vec<RuleLine>,
    /// The path of the field in errors.
    pub(super) shown: Route,
}

/// A field that has rules, or something below it that has.
#[derive(Debug)]
pub(super) struct FieldStop {
    pub(super) field: &'static Field,
    pub(super) lines: Vec<RuleLine>,
    pub(super) below: Option<(FieldShape, SetId)>,
    /// Errors are reported at the struct itself.
    pub(super) flat: bool,
    /// The rules below hold for new objects only.
    pub(super) once: bool,
    /// The name of the field in errors.
    pub(super) shown: &'static str,
}

/// A set and all that are reachable from it, apart from those that are compiled already.
pub(super) struct Compiled {
    pub(super) sets: BTreeMap<SetId, Vec<RuleStop>>,
    /// Rows about unknown structs or fields, and unknown words. Tests fail unless it is empty; a release build ignores
    /// such rows.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests of the tables read it"))]
    pub(super) problems: Vec<String>,
}

/// Joins the rows of a set, and of all sets that a walk can reach from it, with the schema.
pub(super) fn compile(rules: &RuleSets, root: SetId) -> Compiled {
    let mut compiler = Compiler { rules, open: vec![root], sets: BTreeMap::new(), problems: Vec::new() };
    while let Some(set) = compiler.open.pop() {
        if !compiler.sets.contains_key(&set) {
            let stops = compiler.set(set);
            compiler.sets.insert(set, stops);
        }
    }
    compiler.prune();
    Compiled { sets: compiler.sets, problems: compiler.problems }
}

/// Joins the tables with the schema, set by set.
struct Compiler<'a> {
    rules: &'a RuleSets,
    /// Sets that were reached and not looked at.
    open: Vec<SetId>,
    sets: BTreeMap<SetId, Vec<RuleStop>>,
    problems: Vec<String>,
}

impl Compiler<'_> {
    /// Kept for the test that reads the tables.
    fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// One set, unpruned.
    fn set(&mut self, set: SetId) -> Vec<RuleStop> {
        let Some((name, structure)) = self.rules.heading(set) else { return Vec::new() };
        let Some(id) = structure else {
            self.problem(format!("no struct {name}"));
            return Vec::new();
        };
        let rows = self.rows(name, &mut HashSet::new());
        #[cfg(test)]
        self.check_conditions(name, id, &rows);
        let mut seen = HashSet::new();
        let mut stops: Vec<RuleStop> =
            rows.into_iter().filter_map(|row| self.stop(name, id, row, &mut seen)).collect();
        for field in self.rules.schema.fields(id).iter().filter(|field| !seen.contains(field.name)) {
            let Some(below) = self.below(name, field, None) else { continue };
            stops.push(RuleStop::Field(FieldStop {
                field,
                lines: Vec::new(),
                below: Some(below),
                flat: false,
                once: false,
                shown: field.name,
            }));
        }
        stops
    }

    /// The place in a struct that a row is about. `None` if the struct has no such field.
    fn stop(
        &mut self,
        set: &'static str,
        id: StructId,
        row: RuleRow,
        seen: &mut HashSet<&'static str>,
    ) -> Option<RuleStop> {
        if row.name == ":" {
            return Some(RuleStop::Own(row.lines));
        }
        if !parse::is_field(row.name) {
            return Some(self.route(set, id, row));
        }
        let Some(field) = self.rules.schema.field(id, row.name) else {
            self.problem(format!("no field {set}.{}", row.name));
            return None;
        };
        seen.insert(row.name);
        let skipped = row.lines.iter().any(|line| line.skip && line.guards.is_empty());
        let below = if skipped { None } else { self.below(set, field, row.variant) };
        let shown = row.shown.unwrap_or(row.name);
        let (flat, once) = (row.flat, row.once);
        Some(RuleStop::Field(FieldStop { field, lines: row.lines, below, flat, once, shown }))
    }

    /// Resolves the route of a row in the schema. A route that does not exist is a problem of the table and fails its
    /// test.
    fn route(&mut self, set: &'static str, id: StructId, row: RuleRow) -> RuleStop {
        let mut route = Route::parse(row.name);
        let shown = row.shown.map_or_else(|| route.clone(), Route::parse);
        let found = route.resolve(self.rules.schema, id);
        if found.is_none() {
            self.problem(format!("{set} has no {}", row.name));
        }
        RuleStop::Route(RouteStop { route, field: found.flatten(), lines: row.lines, shown })
    }

    /// Finds conditions about fields that the struct does not have.
    #[cfg(test)]
    fn check_conditions(&mut self, set: &'static str, id: StructId, rows: &[RuleRow]) {
        for condition in rows.iter().flat_map(|row| &row.lines).flat_map(|line| &line.guards) {
            let known = condition.routes().is_some_and(|routes| {
                routes.iter().all(|route| (*route).clone().resolve(self.rules.schema, id).is_some())
            });
            if !known {
                self.problem(format!("{set}: {condition:?}"));
            }
        }
    }

    /// The rows of a block; those of a variant replace the ones of its base for the same field.
    fn rows(&mut self, name: &'static str, seen: &mut HashSet<&'static str>) -> Vec<RuleRow> {
        let own = parse::rows(&self.rules.tables, name, &mut self.problems);
        let Some(base) = self.rules.tables.base(name).filter(|base| seen.insert(base)) else { return own };
        let mut rows = self.rows(base, seen);
        rows.retain(|row| row.name == ":" || own.iter().all(|own| own.name != row.name));
        rows.extend(own);
        rows
    }

    /// The set that the walk continues with; a variant (`@init`) replaces that of the plain struct.
    fn below(
        &mut self,
        set: &'static str,
        field: &'static Field,
        variant: Option<&'static str>,
    ) -> Option<(FieldShape, SetId)> {
        let (shape, ty) = match field.ty {
            FieldType::List(id) => (FieldShape::List, self.rules.schema.element(id)),
            FieldType::Map(id) => (FieldShape::Map, self.rules.schema.element(id)),
            other => (FieldShape::One, other),
        };
        let FieldType::Struct(id) = ty else { return None };
        let name = variant.unwrap_or_else(|| short(self.rules.schema.structure(id).name));
        let Some(found) = self.rules.position(name) else {
            self.problem(format!("{set}.{}: no rules {name}", field.name));
            return None;
        };
        if self.rules.compiled(found).is_none() {
            self.open.push(found);
        }
        Some((shape, found))
    }

    /// Drops what leads to no rule.
    ///
    /// Most structs of the API have no rule anywhere below them, and a walk does not enter those.
    fn prune(&mut self) {
        let live = self.live();
        let has_rules = |set: SetId| {
            live.contains(&set) || self.rules.compiled(set).is_some_and(|stops| !stops.is_empty())
        };
        for stops in self.sets.values_mut() {
            for stop in &mut *stops {
                if let RuleStop::Field(stop) = stop {
                    stop.below = stop.below.filter(|(_, set)| has_rules(*set));
                }
            }
            stops.retain(RuleStop::has_rules);
            stops.shrink_to_fit();
        }
    }

    /// The sets that have a rule, or lead to one that has: repeated until nothing changes, since sets refer to each
    /// other in cycles.
    fn live(&self) -> HashSet<SetId> {
        let mut live: HashSet<SetId> = HashSet::new();
        loop {
            let leads = |(_, below): (FieldShape, SetId)| {
                live.contains(&below) || self.rules.compiled(below).is_some_and(|stops| !stops.is_empty())
            };
            let found: Vec<SetId> = self
                .sets
                .iter()
                .filter(|(set, stops)| !live.contains(set) && stops.iter().any(|stop| stop.leads(leads)))
                .map(|(set, _)| *set)
                .collect();
            if found.is_empty() {
                return live;
            }
            live.extend(found);
        }
    }
}

impl RuleStop {
    /// True if the stop has rules itself, or leads to a set for which `below` is true.
    fn leads(&self, below: impl Fn((FieldShape, SetId)) -> bool) -> bool {
        match self {
            Self::Own(lines) => !lines.is_empty(),
            Self::Route(stop) => !stop.lines.is_empty(),
            Self::Field(stop) => !stop.lines.is_empty() || stop.below.is_some_and(below),
        }
    }

    /// True if there is something to do at a stop of a set that is pruned.
    fn has_rules(&self) -> bool {
        self.leads(|_| true)
    }
}
