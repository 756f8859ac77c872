//! Routes: paths from one struct to fields below it, such as `spec.containers[].image` and
//! `metadata.annotations[example.com/a]`.
//!
//! `[]` stands for every element of a list or every entry of a map, `[KEY]` for one entry, `[0]` for one element, `[FIELD=a|b]`
//! for the elements of a list whose field has one of the values. A leading dot makes a route of the name of one field. Rows,
//! conditions and lists of known names use the same notation.

use listwatch_wire::json::Value;

use crate::field::Path;
use crate::schema::{Field, FieldType, SchemaTable, StructId};
use crate::tree::Tree;

/// One step of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hop {
    /// A field. What is below a pointer is not there where the pointer is not.
    Field { name: &'static str, pointer: bool },
    /// An entry of a map.
    Key(&'static str),
    /// An element of a list.
    Index(usize),
    /// All elements or entries.
    Each,
    /// The elements of a list whose field has one of the values.
    Matching { field: &'static str, values: Vec<&'static str> },
}

impl Hop {
    /// The value that a hop of one value leads to; null if there is none.
    fn of<'a>(&self, value: &'a Value) -> &'a Value {
        match self {
            Self::Field { name, .. } | Self::Key(name) => value.at(name),
            Self::Index(index) => {
                value.as_array().and_then(|items| items.get(*index)).unwrap_or(&Value::Null)
            }
            Self::Each | Self::Matching { .. } => value,
        }
    }

    /// True if the hop leads to an element of a list.
    fn takes(&self, element: &Value) -> bool {
        match self {
            Self::Matching { field, values } => values.contains(&element.text(field)),
            _ => true,
        }
    }
}

/// The element or entry that a [`Hop::Each`] or [`Hop::Matching`] has led to.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoutePosition<'a> {
    Index(usize),
    Key(&'a str),
}

/// A value that a route leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a, 'p> {
    pub(super) value: &'a Value,
    /// The value of the same place in the stored object, if there is one.
    pub(super) old: Option<&'a Value>,
    /// The struct or map that it is in.
    pub(super) parent: &'a Value,
    positions: &'p [RoutePosition<'a>],
}

/// The way from a struct to fields below it.
///
/// Parsed and resolved against the schema when the tables are joined; a visit is lookups only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    hops: Vec<Hop>,
}

impl Route {
    /// Reads a route; the empty text is the struct itself.
    pub(super) fn parse(text: &'static str) -> Self {
        let mut hops = Vec::new();
        let mut rest = text.strip_prefix('.').unwrap_or(text);
        while !rest.is_empty() {
            if let Some((key, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                hops.push(match key.split_once('=') {
                    Some((field, values)) => Hop::Matching { field, values: values.split('|').collect() },
                    None if key.is_empty() => Hop::Each,
                    None => key.parse().map_or(Hop::Key(key), Hop::Index),
                });
                rest = after.strip_prefix('.').unwrap_or(after);
                continue;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            hops.push(Hop::Field { name, pointer: false });
            rest = after.strip_prefix('.').unwrap_or(after);
        }
        Self { hops }
    }

    /// The first field of the route.
    pub(super) fn first(&self) -> &'static str {
        match self.hops.first() {
            Some(Hop::Field { name, .. } | Hop::Key(name)) => name,
            _ => "",
        }
    }

    /// Looks the fields up. Returns none if the schema has no such way, else the field at its end, unless that is an
    /// element or an entry.
    pub(super) fn resolve(
        &mut self,
        schema: &'static SchemaTable,
        from: StructId,
    ) -> Option<Option<&'static Field>> {
        let (mut ty, mut last) = (FieldType::Struct(from), None);
        for hop in &mut self.hops {
            (ty, last) = match (hop, ty) {
                (Hop::Field { name, pointer }, FieldType::Struct(id)) => {
                    let field = schema.field(id, name)?;
                    *pointer = field.pointer;
                    (field.ty, Some(field))
                }
                (Hop::Key(_) | Hop::Each, FieldType::Map(id))
                | (Hop::Index(_) | Hop::Each, FieldType::List(id)) => (schema.element(id), None),
                (Hop::Matching { field, .. }, FieldType::List(id)) => {
                    let FieldType::Struct(element) = schema.element(id) else { return None };
                    schema.field(element, field)?;
                    (FieldType::Struct(element), None)
                }
                _ => return None,
            };
        }
        Some(last)
    }

    /// Calls back for every value that the route leads to; null where a field is absent.
    ///
    /// Costs as much as it visits. Stored values are paired by index and key.
    pub(super) fn visit<'a>(
        &self,
        value: &'a Value,
        old: Option<&'a Value>,
        found: &mut dyn FnMut(&Leaf<'a, '_>),
    ) {
        visit(&self.hops, Leaf { value, old, parent: value, positions: &[] }, found);
    }

    /// The value of a route without `[]`.
    pub(super) fn value<'a>(&self, from: &'a Value) -> &'a Value {
        self.hops.iter().fold(from, |value, hop| hop.of(value))
    }

    /// Calls back with the path of a leaf below the place that the route begins at.
    pub(super) fn path_of(&self, leaf: &Leaf<'_, '_>, above: &Path<'_>, found: &mut dyn FnMut(&Path<'_>)) {
        extend(&self.hops, leaf.positions, above, found);
    }
}

/// Calls a function with every value that the rest of a route leads to. An absent pointer ends the way, as a nil
/// pointer does in Go; an absent value of another type goes on as its zero value.
fn visit<'a>(hops: &[Hop], leaf: Leaf<'a, '_>, found: &mut dyn FnMut(&Leaf<'a, '_>)) {
    let Some((hop, rest)) = hops.split_first() else { return found(&leaf) };
    match hop {
        Hop::Field { pointer, .. } => one(hop, rest, *pointer, leaf, found),
        Hop::Key(_) | Hop::Index(_) => one(hop, rest, true, leaf, found),
        Hop::Each | Hop::Matching { .. } => {
            let mut positions = leaf.positions.to_vec();
            let mut one = |position: RoutePosition<'a>, value: &'a Value, old: Option<&'a Value>| {
                positions.push(position);
                visit(rest, Leaf { value, old, parent: leaf.value, positions: &positions }, found);
                positions.pop();
            };
            match leaf.value {
                Value::Array(items) => {
                    let before = leaf.old.and_then(Value::as_array);
                    for (index, item) in items.iter().enumerate().filter(|(_, item)| hop.takes(item)) {
                        one(RoutePosition::Index(index), item, before.and_then(|before| before.get(index)));
                    }
                }
                Value::Object(entries) => {
                    for (key, item) in entries {
                        one(RoutePosition::Key(key), item, leaf.old.and_then(|old| old.get(key)));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Goes on with the one value of a hop. A way through something `optional` ends where that is absent, unless it is the end.
fn one<'a>(
    hop: &Hop,
    rest: &[Hop],
    optional: bool,
    leaf: Leaf<'a, '_>,
    found: &mut dyn FnMut(&Leaf<'a, '_>),
) {
    let value = hop.of(leaf.value);
    if !value.is_null() || !optional || rest.is_empty() {
        let old = leaf.old.map(|old| hop.of(old));
        visit(rest, Leaf { value, old, parent: leaf.value, positions: leaf.positions }, found);
    }
}

/// Builds the path that an error shows for a route, with the positions in lists and maps that the visit went through.
fn extend(hops: &[Hop], positions: &[RoutePosition<'_>], path: &Path<'_>, found: &mut dyn FnMut(&Path<'_>)) {
    match hops.split_first() {
        None => found(path),
        Some((Hop::Field { name, .. }, rest)) => extend(rest, positions, &path.child(name), found),
        Some((Hop::Key(key), rest)) => extend(rest, positions, &path.key(key), found),
        Some((Hop::Index(index), rest)) => extend(rest, positions, &path.index(*index), found),
        Some((Hop::Each | Hop::Matching { .. }, rest)) => match positions.split_first() {
            Some((RoutePosition::Index(index), more)) => extend(rest, more, &path.index(*index), found),
            Some((RoutePosition::Key(key), more)) => extend(rest, more, &path.key(key), found),
            // `field.NewPath("")` of Go, which is not a name but prints as an index.
            None => extend(rest, positions, &path.key(""), found),
        },
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_route_leads_through_lists_and_maps_to_values_and_their_paths() {
        let object = json!({"a": [{"b": {"x.y/z": 1}}, {"b": {}}, {}], "m": {"k": 2},
            "c": [{"t": "z", "s": 0}, {"t": "x", "s": 1}, {"t": "y", "s": 2}]});
        let shown = |text: &'static str| {
            let (route, mut found) = (Route::parse(text), Vec::new());
            route.visit(&object, None, &mut |leaf| {
                route
                    .path_of(leaf, &Path::object(), &mut |path| found.push(format!("{path}={}", leaf.value)));
            });
            found
        };
        assert_eq!(shown("a[].b[x.y/z]"), ["a[0].b[x.y/z]=1", "a[1].b[x.y/z]=null", "a[2].b[x.y/z]=null"]);
        assert_eq!(shown("m[]"), ["m[k]=2"]);
        assert_eq!(shown("c[1].s"), ["c[1].s=1"]);
        assert_eq!(shown("c[3]"), ["c[3]=null"]);
        assert_eq!(shown("c[t=x|y].s"), ["c[1].s=1", "c[2].s=2"]);
        assert_eq!(shown("none.below"), ["none.below=null"]);
    }
}
