//! The cost estimate of an expression: a walk over the checked tree with the largest sizes that schemas allow.
//!
//! The rules are those of cel-go and of Kubernetes' estimator. They decide which definitions are accepted, so they are
//! followed exactly, oddities included.
//!
//! The result depends on the expression and the schema, never on an object. It is computed when a definition is
//! written, by `listwatch-custom`, which multiplies it by the number of places and compares it with the limits.
//! Policies have no estimate: their objects have no bounds that could be read.

mod calls;
mod kubernetes;

use std::collections::HashMap;

use listwatch_wire::json::Text;

use super::runtime::ceil;
use crate::ast::{AstKind, Fold, Id, Literal, MapEntry};
use crate::checker::Checked;
use crate::parser::ACCUMULATOR;
use crate::schema::{Decl, Representation, unescape};
use crate::types::Type;

/// The least and the most that something costs.
///
/// Only the maximum is compared with limits. The minimum is carried along because cel-go's rules for operators that
/// skip an argument use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostRange {
    /// The least.
    pub min: u64,
    /// The most.
    ///
    /// `u64::MAX` for something without a bound; sums and products saturate there.
    pub max: u64,
}

/// The smallest and the largest size of a value.
pub(super) type SizeRange = CostRange;

/// A size that nothing bounds makes every cost that depends on it too high.
pub(super) const UNKNOWN: SizeRange = SizeRange { min: 0, max: u64::MAX };

impl CostRange {
    /// A range of one value.
    pub(super) const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    /// Saturates, like all arithmetic of estimates: the most is the most there is.
    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Rounded up, in doubles, as cel-go does: sizes beyond 2⁵³ lose digits there as well.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { min: ceil(self.min, factor), max: ceil(self.max, factor) }
    }

    /// The range that covers both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The sizes of keys and values of a container.
#[derive(Clone, Copy, Debug)]
struct EntrySizes {
    list: bool,
    key: SizeRange,
    value: SizeRange,
}

/// `None` if one of them is not known: the result could then be anything.
fn both(a: Option<EntrySizes>, b: Option<EntrySizes>) -> Option<EntrySizes> {
    let (a, b) = (a?, b?);
    Some(EntrySizes { list: a.list, key: a.key.or(b.key), value: a.value.or(b.value) })
}

/// A step from a variable to a part of it.
///
/// A path is a variable and the steps from it to a value; the schema is looked up along it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EstimateStep {
    Field(Text),
    Items,
    Values,
    Keys,
    Indices,
}

/// The way from a variable of the environment to a value, by which its size is looked up in the schema.
type EstimatePath = Vec<EstimateStep>;

/// The accumulator and the variables of the loops around the present node.
#[derive(Debug)]
struct Local {
    name: Text,
    path: EstimatePath,
    size: Option<SizeRange>,
    entries: Option<EntrySizes>,
}

/// Estimates the cost of an expression.
///
/// `root` is the schema of `self`; the name of the variable does not matter, since all variables of a rule have the
/// same schema.
pub(crate) fn estimate(checked: &Checked, root: &Decl) -> CostRange {
    let mut coster = Coster {
        checked,
        root,
        locals: Vec::new(),
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(checked.ast.root)
}

/// Sizes and paths are recorded by node while the walk goes up, since a call needs those of its arguments.
struct Coster<'c> {
    checked: &'c Checked,
    root: &'c Decl,
    locals: Vec<Local>,
    paths: HashMap<Id, EstimatePath>,
    sizes: HashMap<Id, SizeRange>,
    entries: HashMap<Id, EntrySizes>,
}

impl Coster<'_> {
    /// Estimates a node and everything below it, and records the path of each value in the schema, from which its size
    /// is known.
    fn cost(&mut self, id: Id) -> CostRange {
        let checked = self.checked;
        if let Some(name) = checked.type_names.get(&id) {
            self.paths.insert(id, vec![EstimateStep::Field(name.clone())]);
            return CostRange::fixed(1);
        }
        match checked.ast.kind(id) {
            AstKind::Literal(_) | AstKind::Missing => CostRange::fixed(0),
            AstKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![EstimateStep::Field(name.clone())],
                };
                self.paths.insert(id, path);
                CostRange::fixed(1)
            }
            AstKind::Select { operand, field, test } => self.select(id, *operand, field, *test),
            AstKind::Call { function, target, args } => self.call(id, function, *target, args),
            AstKind::List { items, .. } => self.list(id, items),
            AstKind::Map(entries) => self.map(id, entries),
            AstKind::Struct { fields, .. } => {
                let mut sum = CostRange::fixed(super::runtime::STRUCT_COST);
                for field in fields {
                    sum = sum.plus(self.cost(field.value));
                }
                sum
            }
            AstKind::Fold(fold) if is_binding(checked, fold) => self.binding(id, fold),
            AstKind::Fold(fold) => self.fold(id, fold),
        }
    }

    /// The innermost variable of a name.
    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    /// The cost of a selection. A presence test costs only its operand.
    fn select(&mut self, id: Id, operand: Id, field: &Text, test: bool) -> CostRange {
        let sum = self.cost(operand);
        if test {
            return sum;
        }
        let mut path = self.path(operand);
        path.push(EstimateStep::Field(field.clone()));
        self.paths.insert(id, path);
        match self.checked.ty(operand) {
            Type::Map(_) | Type::Object(_) | Type::Param(_) => sum.plus(CostRange::fixed(1)),
            _ => sum,
        }
    }

    /// The cost of a list literal, and the size range of its elements.
    fn list(&mut self, id: Id, items: &[Id]) -> CostRange {
        let mut sum = CostRange::fixed(super::runtime::LIST_COST);
        let mut size = SizeRange { min: if items.is_empty() { 0 } else { u64::MAX }, max: 0 };
        for item in items {
            sum = sum.plus(self.cost(*item));
            size = size.or(self.size_or_unknown(*item));
        }
        self.entries.insert(id, EntrySizes { list: true, key: SizeRange::fixed(1), value: size });
        sum
    }

    /// The cost of a map literal, and the size ranges of its keys and values.
    fn map(&mut self, id: Id, entries: &[MapEntry<Id>]) -> CostRange {
        let mut sum = CostRange::fixed(super::runtime::MAP_COST);
        let start = SizeRange { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let (mut key, mut value) = (start, start);
        for entry in entries {
            sum = sum.plus(self.cost(entry.key)).plus(self.cost(entry.value));
            key = key.or(self.size_or_unknown(entry.key));
            value = value.or(self.size_or_unknown(entry.value));
        }
        self.entries.insert(id, EntrySizes { list: false, key, value });
        sum
    }

    /// A name for a value inherits its path, so that a bound variable has the bounds of the schema.
    fn bind_local(&mut self, name: &Text, value: Id) {
        let (path, size, entries) = (self.path(value), self.size(value), self.entry_sizes(value));
        self.locals.push(Local { name: name.clone(), path, size, entries });
    }

    /// The cost of a comprehension: the cost of a turn times the largest size of the range. This product is what most
    /// definitions are refused for; `maxItems` and `maxProperties` bound it.
    ///
    /// Nested loops multiply, which is why a rule over a list of lists without bounds is refused at once.
    fn fold(&mut self, id: Id, fold: &Fold) -> CostRange {
        let mut sum = self.cost(fold.range).plus(self.cost(fold.init));
        let depth = self.locals.len();
        self.bind_local(&fold.accumulator, fold.init);
        self.bind_variables(fold);
        let each = self.cost(fold.condition);
        let each = self.cost(fold.step).plus(each);
        self.locals.truncate(depth + 1);
        sum = sum.plus(self.cost(fold.result));
        self.locals.truncate(depth);
        let count = self.size_or_unknown(fold.range);
        sum = sum.plus(count.times(each));
        match self.checked.ast.kind(fold.init) {
            AstKind::Literal(_) => {
                let size = self.size(fold.init);
                self.sizes.extend(size.map(|size| (id, size)));
            }
            AstKind::List { .. } | AstKind::Map(_) => {
                self.sizes.insert(id, count);
                let entries = self.entry_sizes(fold.step);
                self.entries.extend(entries.map(|entries| (id, entries)));
            }
            _ => {}
        }
        sum
    }

    /// Binds the variables of a comprehension to the paths of the elements, keys or values of its range.
    fn bind_variables(&mut self, fold: &Fold) {
        let entries = self.entry_sizes(fold.range);
        let list =
            entries.map_or(matches!(self.checked.ty(fold.range), Type::List(_)), |entries| entries.list);
        let key = |entries: EntrySizes| entries.key;
        let value = |entries: EntrySizes| entries.value;
        let (key_step, value_step) = if list {
            (EstimateStep::Indices, EstimateStep::Items)
        } else {
            (EstimateStep::Keys, EstimateStep::Values)
        };
        // cel-go keeps paths in slices that grow by doubling. Where one has room left, the path of the second variable
        // overwrites that of the first, and definitions are accepted or refused by the size that is found there.
        let length = self.path(fold.range).len();
        let key_step = if length > 0 && !length.is_power_of_two() { value_step.clone() } else { key_step };
        let mut push = |name: &Text, step: EstimateStep, size: Option<SizeRange>| {
            let mut path = self.path(fold.range);
            path.push(step);
            self.locals.push(Local { name: name.clone(), path, size, entries: None });
        };
        match (&fold.second, list) {
            (Some(second), _) => {
                push(&fold.variable, key_step, entries.map(key));
                push(second, value_step, entries.map(value));
            }
            (None, true) => push(&fold.variable, value_step, entries.map(value)),
            (None, false) => push(&fold.variable, EstimateStep::Keys, entries.map(key)),
        }
    }

    /// The cost of `cel.bind`, which is a comprehension over an empty range: its value is computed once.
    fn binding(&mut self, id: Id, fold: &Fold) -> CostRange {
        let mut sum = self.cost(fold.range).plus(self.cost(fold.init));
        self.bind_local(&fold.accumulator, fold.init);
        sum = sum.plus(self.cost(fold.result));
        self.locals.pop();
        self.copy_sizes(id, fold.result);
        sum
    }

    /// Copies the sizes of one node to another that represents the same value.
    fn copy_sizes(&mut self, to: Id, from: Id) {
        let (size, entries) = (self.size(from), self.entry_sizes(from));
        self.sizes.extend(size.map(|size| (to, size)));
        self.entries.extend(entries.map(|entries| (to, entries)));
    }

    /// Returns the path of a value in the schema; empty if it does not come from a variable, so that nothing is known
    /// of its size.
    fn path(&self, id: Id) -> EstimatePath {
        if let AstKind::Ident(name) = self.checked.ast.kind(id)
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&id).cloned().unwrap_or_default()
    }

    /// Nothing known about a size is the largest there can be.
    fn size_or_unknown(&mut self, id: Id) -> SizeRange {
        self.size(id).unwrap_or(UNKNOWN)
    }

    /// The size of a value, if something is known of it.
    ///
    /// Sources, in this order: the walk so far, a literal, the schema, one for scalars, a local variable.
    fn size(&mut self, id: Id) -> Option<SizeRange> {
        if let Some(size) = self.sizes.get(&id) {
            return Some(*size);
        }
        if let Some(size) = written_size(self.checked.ast.kind(id)) {
            return Some(size);
        }
        if let Some(size) = self.declared_size(&self.path(id)) {
            self.sizes.insert(id, size);
            return Some(size);
        }
        if is_scalar(self.checked.ty(id)) {
            return Some(SizeRange::fixed(1));
        }
        match self.checked.ast.kind(id) {
            AstKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size that the schema allows at a path. The first step is the variable, whichever it is.
    fn declared_size(&self, path: &[EstimateStep]) -> Option<SizeRange> {
        let (_, steps) = path.split_first()?;
        let mut decl = self.root;
        for step in steps {
            decl = match (step, &decl.shape) {
                (EstimateStep::Items | EstimateStep::Values, _) => decl.elements()?,
                // Keys of maps are strings without a bound.
                (EstimateStep::Keys, Representation::Map(_)) => return Some(SizeRange { min: 0, max: 0 }),
                (EstimateStep::Field(name), Representation::Object { fields }) => {
                    fields.get(&*unescape(name)?)?
                }
                _ => return None,
            };
        }
        Some(SizeRange { min: 0, max: decl.max_elements })
    }

    /// Returns the sizes of the keys and values of a container, if the walk has found them: by a literal, or through
    /// the name that it is bound to.
    fn entry_sizes(&self, id: Id) -> Option<EntrySizes> {
        if let Some(entries) = self.entries.get(&id) {
            return Some(*entries);
        }
        match self.checked.ast.kind(id) {
            AstKind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }
}

/// Returns true if a comprehension only binds a name.
///
/// cel-go recognizes it by the same signs.
fn is_binding(checked: &Checked, fold: &Fold) -> bool {
    matches!(checked.ast.kind(fold.range), AstKind::List { items, .. } if items.is_empty())
        && matches!(checked.ast.kind(fold.condition), AstKind::Literal(Literal::Bool(false)))
        && fold.accumulator != ACCUMULATOR
}

/// Sizes in the expression itself: code points of a text, elements of a literal.
fn written_size(kind: &AstKind) -> Option<SizeRange> {
    Some(SizeRange::fixed(match kind {
        AstKind::Literal(Literal::String(text)) => text.chars().count() as u64,
        AstKind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        AstKind::Literal(_) => 1,
        AstKind::List { items, .. } => items.len() as u64,
        AstKind::Map(entries) => entries.len() as u64,
        _ => return None,
    }))
}

/// Types whose values all have the size one.
fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(value) => is_scalar(value),
        _ => false,
    }
}
