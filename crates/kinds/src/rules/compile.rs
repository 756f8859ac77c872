//! Joins the rule tables with the schema: for each struct, which fields to look at and where to go from there.
//!
//! A rule set belongs to a struct, or to a struct in a certain place (`core.v1.Container@init`). Only what has rules, or something
//! below it that has, is part of a set, so that a walk never enters what nobody asks about.

use std::collections::{HashMap, HashSet};

use super::parse;
use super::route::Route;
use super::rows::{RuleBlock, RuleLine, RuleRow, Tables};
use crate::schema::{Field, Schema, StructId, Type, schema};

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
    /// The way to the field in errors.
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

/// All rule sets.
///
/// Indexes into one vector, so that sets can refer to each other in cycles, as schemas of definitions do.
#[derive(Debug, Default)]
pub(super) struct RuleSets {
    sets: Vec<Vec<RuleStop>>,
    by_struct: HashMap<StructId, SetId>,
    by_name: HashMap<&'static str, SetId>,
    /// Rows about structs or fields that the schema does not have. Empty in every build that passed its tests.
    pub(super) problems: Vec<String>,
}

impl RuleSets {
    /// The rules of a struct.
    pub(super) fn of(&self, id: StructId) -> Option<SetId> {
        self.by_struct.get(&id).copied()
    }

    /// The rules of a block.
    pub(super) fn named(&self, name: &str) -> Option<SetId> {
        self.by_name.get(name).copied()
    }

    /// The checks at a struct, in order.
    pub(super) fn stops(&self, set: SetId) -> &[RuleStop] {
        self.sets.get(set).map(Vec::as_slice).unwrap_or_default()
    }
}

/// `core.v1.Container` of `io.k8s.api.core.v1.Container`.
fn short(name: &'static str) -> &'static str {
    let start = name.rmatch_indices('.').nth(2).map_or(0, |(at, _)| at + 1);
    name.get(start..).unwrap_or(name)
}

/// Joins the tables with the schema, block by block.
struct Compiler<'a> {
    tables: &'a Tables,
    schema: &'static Schema,
    /// By the short name that tables use.
    structs: HashMap<&'static str, StructId>,
    /// Assigned before any set is compiled, so that sets can refer to later ones.
    sets: HashMap<&'static str, SetId>,
    rules: RuleSets,
}

/// Joins tables and schema.
///
/// Runs once per process, at the first validation. Problems with the tables are collected and do not panic: a test
/// fails on them, and a server would run without the rule.
pub(super) fn compile(tables: &Tables) -> RuleSets {
    let schema = schema();
    let structs: HashMap<_, _> = schema.structs().map(|(id, found)| (short(found.name), id)).collect();
    let mut names: Vec<&'static str> = structs.keys().copied().collect();
    let variants = tables.blocks.keys().copied().filter(|name| !structs.contains_key(name));
    names.extend(variants);
    names.sort_unstable();
    let sets = names.iter().copied().zip(0..).collect();
    let mut compiler = Compiler { tables, schema, structs, sets, rules: RuleSets::default() };
    for name in names {
        compiler.set(name);
    }
    compiler.prune();
    let Compiler { structs, sets, mut rules, .. } = compiler;
    rules.by_struct = structs.iter().filter_map(|(name, id)| Some((*id, *sets.get(name)?))).collect();
    rules.by_name = sets;
    rules
}

impl Compiler<'_> {
    /// Kept for the test that reads the tables; a release passes over what it does not understand.
    fn problem(&mut self, what: String) {
        self.rules.problems.push(what);
    }

    /// One block. A variant begins with the rows of its base.
    fn set(&mut self, name: &'static str) {
        let plain = name.split('@').next().unwrap_or(name);
        let Some(&id) = self.structs.get(plain) else {
            self.problem(format!("no struct {name}"));
            self.rules.sets.push(Vec::new());
            return;
        };
        let rows = self.rows(name, &mut HashSet::new());
        self.check_conditions(name, id, &rows);
        let mut stops = Vec::new();
        let mut seen = HashSet::new();
        for row in rows {
            if row.name == ":" {
                stops.push(RuleStop::Own(row.lines));
                continue;
            }
            if !parse::is_field(row.name) {
                stops.push(self.route(name, id, row));
                continue;
            }
            let Some(field) = self.schema.field(id, row.name) else {
                self.problem(format!("no field {name}.{}", row.name));
                continue;
            };
            seen.insert(row.name);
            let skipped = row.lines.iter().any(|line| line.skip && line.guards.is_empty());
            let below = if skipped { None } else { self.below(name, field, row.variant) };
            let shown = row.shown.unwrap_or(row.name);
            stops.push(RuleStop::Field(FieldStop {
                field,
                lines: row.lines,
                below,
                flat: row.flat,
                once: row.once,
                shown,
            }));
        }
        for field in self.schema.fields(id).iter().filter(|field| !seen.contains(field.name)) {
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
        self.rules.sets.push(stops);
    }

    /// Resolves the route of a row in the schema. A route that does not exist is a problem of the table and fails its
    /// test.
    fn route(&mut self, set: &'static str, id: StructId, row: RuleRow) -> RuleStop {
        let mut route = Route::parse(row.name);
        let shown = row.shown.map_or_else(|| route.clone(), Route::parse);
        let found = route.resolve(self.schema, id);
        if found.is_none() {
            self.problem(format!("{set} has no {}", row.name));
        }
        RuleStop::Route(RouteStop { route, field: found.flatten(), lines: row.lines, shown })
    }

    /// Finds conditions about fields that the struct does not have.
    fn check_conditions(&mut self, set: &'static str, id: StructId, rows: &[RuleRow]) {
        for condition in rows.iter().flat_map(|row| &row.lines).flat_map(|line| &line.guards) {
            let known = condition.routes().is_some_and(|routes| {
                routes.iter().all(|route| (*route).clone().resolve(self.schema, id).is_some())
            });
            if !known {
                self.problem(format!("{set}: {condition:?}"));
            }
        }
    }

    /// The rows of a block; those of a variant replace the ones of its base for the same field.
    fn rows(&self, name: &'static str, seen: &mut HashSet<&'static str>) -> Vec<RuleRow> {
        static NONE: RuleBlock = RuleBlock { base: None, rows: Vec::new() };
        let block = self.tables.blocks.get(name).unwrap_or(&NONE);
        let Some(base) = block.base.filter(|base| seen.insert(base)) else { return block.rows.clone() };
        let replaced = |row: &RuleRow| block.rows.iter().any(|own| own.name == row.name && own.name != ":");
        let mut rows: Vec<RuleRow> = self.rows(base, seen).into_iter().filter(|row| !replaced(row)).collect();
        rows.extend(block.rows.iter().cloned());
        rows
    }

    /// The set that the walk goes on with; a variant (`@init`) replaces that of the plain struct.
    fn below(
        &mut self,
        set: &'static str,
        field: &'static Field,
        variant: Option<&'static str>,
    ) -> Option<(FieldShape, SetId)> {
        let (shape, ty) = match field.ty {
            Type::List(id) => (FieldShape::List, self.schema.element(id)),
            Type::Map(id) => (FieldShape::Map, self.schema.element(id)),
            other => (FieldShape::One, other),
        };
        let Type::Struct(id) = ty else { return None };
        let name = variant.unwrap_or_else(|| short(self.schema.structure(id).name));
        let found = self.sets.get(name).copied();
        if found.is_none() {
            self.problem(format!("{set}.{}: no rules {name}", field.name));
        }
        found.map(|found| (shape, found))
    }

    /// Drops what leads to no rule.
    ///
    /// Most structs of the API have no rule anywhere below them, and a walk does not enter those.
    fn prune(&mut self) {
        let alive = |stop: &RuleStop, live: &HashSet<SetId>| match stop {
            RuleStop::Own(lines) => !lines.is_empty(),
            RuleStop::Route(stop) => !stop.lines.is_empty(),
            RuleStop::Field(stop) => {
                !stop.lines.is_empty() || stop.below.is_some_and(|(_, set)| live.contains(&set))
            }
        };
        let mut live = HashSet::new();
        loop {
            let before = live.len();
            for (id, stops) in self.rules.sets.iter().enumerate() {
                if stops.iter().any(|stop| alive(stop, &live)) {
                    live.insert(id);
                }
            }
            if live.len() == before {
                break;
            }
        }
        for stops in &mut self.rules.sets {
            stops.retain(|stop| alive(stop, &live));
            stops.shrink_to_fit();
            for stop in stops {
                if let RuleStop::Field(stop) = stop {
                    stop.below = stop.below.filter(|(_, set)| live.contains(set));
                }
            }
        }
    }
}
