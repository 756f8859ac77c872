//! The syntax tree of one expression, in one vector.
//!
//! Nodes refer to each other by index and every node comes after its parts, so that dropping a tree is dropping a vector:
//! no depth of nesting can overflow the stack. Types are added by `checker`.

use listwatch_wire::json::Text;

/// The place of a node in its [`Ast`].
pub(crate) type Id = usize;

/// A value that is written in the expression itself.
///
/// Numbers keep the type that they were written with: `1`, `1u` and `1.0` are three types in CEL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text),
    Bytes(Vec<u8>),
}

/// One node: its kind, and the offset of its sign in the source, in code points.
///
/// Offsets are kept per node and not as ranges, because cel-go's errors point to one place.
#[derive(Clone, Debug)]
pub(crate) struct AstNode {
    pub(crate) kind: AstKind,
    pub(crate) at: usize,
}

/// An entry of a map or a field of a struct.
///
/// `K` is a node in a map and a name in a struct.
#[derive(Clone, Debug)]
pub(crate) struct MapEntry<K> {
    pub(crate) key: K,
    pub(crate) value: Id,
    /// Written with a question mark: the entry is left out if its value is an empty optional.
    pub(crate) optional: bool,
    pub(crate) at: usize,
}

/// A comprehension: a loop over a list or a map with an accumulator.
///
/// The one form of loop: every macro over lists and maps becomes one, as does the binding of a name.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Id,
    pub(crate) variable: Text,
    /// Present in macros with two variables. The first is then the index or the key, and this one the value.
    pub(crate) second: Option<Text>,
    /// [`ACCUMULATOR`](crate::parser::ACCUMULATOR) in loops, the bound name in bindings.
    pub(crate) accumulator: Text,
    pub(crate) init: Id,
    /// Evaluated before each turn; a value of false ends the loop, an error does not.
    pub(crate) condition: Id,
    pub(crate) step: Id,
    pub(crate) result: Id,
}

/// The kinds of nodes. Operators are calls of functions such as `_+_`.
///
/// Names are kept as written until the checker resolves them: `a.b.c` is a chain of selections here, even if it turns
/// out to be a type.
#[derive(Clone, Debug)]
pub(crate) enum AstKind {
    Literal(Literal),
    Ident(Text),
    /// `test` is true for the macro `has()`.
    Select {
        operand: Id,
        field: Text,
        test: bool,
    },
    /// `target` is the part before the dot of a method.
    Call {
        function: Text,
        target: Option<Id>,
        args: Vec<Id>,
    },
    List {
        items: Vec<Id>,
        optional: Vec<usize>,
    },
    Map(Vec<MapEntry<Id>>),
    Struct {
        name: Text,
        fields: Vec<MapEntry<Text>>,
    },
    Fold(Box<Fold>),
    /// A placeholder for an expression that could not be parsed. Only in trees that come with errors.
    Missing,
}

/// A syntax tree. The root is the node that was made last.
///
/// Nodes are never removed: what a macro replaces stays in the vector, unreachable, and counts towards the limit of
/// nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ast {
    nodes: Vec<AstNode>,
    /// The height of the tree under each node.
    ///
    /// Kept so that the parser can refuse a tree before anything recurses over it.
    heights: Vec<u32>,
    pub(crate) root: Id,
}

static MISSING: AstNode = AstNode { kind: AstKind::Missing, at: 0 };

impl Ast {
    /// Adds a node whose parts are there already.
    ///
    /// The height is computed from the parts, which is why they must exist; a node cannot become part of itself.
    pub(crate) fn add(&mut self, kind: AstKind, at: usize) -> Id {
        let mut height = 0;
        each_part(&kind, |part| height = height.max(self.height(part)));
        self.heights.push(height + 1);
        self.nodes.push(AstNode { kind, at });
        self.nodes.len() - 1
    }

    pub(crate) fn node(&self, id: Id) -> &AstNode {
        self.nodes.get(id).unwrap_or(&MISSING)
    }

    pub(crate) fn kind(&self, id: Id) -> &AstKind {
        &self.node(id).kind
    }

    /// Replaces a node, keeping its place.
    ///
    /// Used by the checker to write resolved names into the tree. Heights are not updated: a replacement is never
    /// higher.
    pub(crate) fn replace(&mut self, id: Id, kind: AstKind) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.kind = kind;
        }
    }

    /// Levels below a node, which bounds recursion.
    pub(crate) fn height(&self, id: Id) -> u32 {
        self.heights.get(id).copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Copies a node with everything below it. Returns `None` if the tree would have more than `limit` nodes.
    ///
    /// Recursion is as deep as the tree is high, which the parser has bounded.
    pub(crate) fn copy(&mut self, id: Id, limit: usize) -> Option<Id> {
        if self.nodes.len() >= limit {
            return None;
        }
        let AstNode { mut kind, at } = self.node(id).clone();
        let mut full = false;
        each_part_mut(&mut kind, |part| match self.copy(*part, limit) {
            Some(copied) => *part = copied,
            None => full = true,
        });
        (!full).then(|| self.add(kind, at))
    }
}

/// Calls a function with each part of a node, in the order of evaluation.
pub(crate) fn each_part(kind: &AstKind, mut visit: impl FnMut(Id)) {
    match kind {
        AstKind::Literal(_) | AstKind::Ident(_) | AstKind::Missing => {}
        AstKind::Select { operand, .. } => visit(*operand),
        AstKind::Call { target, args, .. } => target.iter().chain(args).for_each(|part| visit(*part)),
        AstKind::List { items, .. } => items.iter().for_each(|part| visit(*part)),
        AstKind::Map(entries) => entries.iter().for_each(|entry| {
            visit(entry.key);
            visit(entry.value);
        }),
        AstKind::Struct { fields, .. } => fields.iter().for_each(|field| visit(field.value)),
        AstKind::Fold(fold) => {
            [fold.range, fold.init, fold.condition, fold.step, fold.result].into_iter().for_each(visit);
        }
    }
}

/// Visits the parts of a node, in the order in which they are evaluated.
fn each_part_mut(kind: &mut AstKind, mut visit: impl FnMut(&mut Id)) {
    match kind {
        AstKind::Literal(_) | AstKind::Ident(_) | AstKind::Missing => {}
        AstKind::Select { operand, .. } => visit(operand),
        AstKind::Call { target, args, .. } => target.iter_mut().chain(args).for_each(visit),
        AstKind::List { items, .. } => items.iter_mut().for_each(visit),
        AstKind::Map(entries) => entries.iter_mut().for_each(|entry| {
            visit(&mut entry.key);
            visit(&mut entry.value);
        }),
        AstKind::Struct { fields, .. } => fields.iter_mut().for_each(|field| visit(&mut field.value)),
        AstKind::Fold(fold) => {
            [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result]
                .into_iter()
                .for_each(visit);
        }
    }
}
