//! Reads `table.txt` into arrays.
//!
//! The text is part of the program and its tests load it whole, so an unreadable line is a defect of the build, not input:
//! it is skipped here and fails there.
//!
//! The format is one line per struct, field and kind; the header of the text names the sources that it was made from.
//! Reading takes some milliseconds and happens once per process.

use std::collections::HashMap;

use listwatch_merge::patch::{ListKeys, ListKind, PatchStrategy};

use super::{ElementId, Field, FieldType, KindEntry, SchemaTable, Struct, StructId, prefix};

/// The struct of a JSON schema, which types such as `SchemaOrBool` refer to without naming it.
const SCHEMA_PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// State that is needed only while reading.
struct Loader {
    /// Structs by full name, complete before any field is read.
    ids: HashMap<&'static str, StructId>,
    /// Element types by content, so that each is stored once.
    elements: HashMap<FieldType, ElementId>,
    schema: SchemaTable,
}

/// Reads the table in two passes: the names of structs first, because a field may name a struct that comes later. A
/// malformed line is skipped; the tests of `schema` check that there is none.
pub(super) fn load(text: &'static str) -> SchemaTable {
    let ids: HashMap<_, _> = lines(text)
        .filter_map(|l| l.strip_prefix("struct "))
        .map(first_word)
        .zip((0..).map(StructId))
        .collect();
    let schema_props = ids.get(SCHEMA_PROPS).copied().unwrap_or(StructId(u16::MAX));
    let mut loader = Loader {
        ids,
        elements: HashMap::new(),
        schema: SchemaTable {
            structs: Vec::with_capacity(lines(text).filter(|l| l.starts_with("struct ")).count()),
            fields: Vec::with_capacity(lines(text).filter(|l| l.starts_with(' ')).count()),
            elements: Vec::new(),
            kinds: Vec::new(),
            schema_props,
        },
    };
    let mut doc = 0;
    for line in lines(text) {
        if let Some(rest) = line.strip_prefix("kind ") {
            loader.kind(rest);
            continue;
        }
        match line.strip_prefix("struct ") {
            Some(rest) => loader.structure(rest, doc),
            None => loader.field(line.trim_start(), doc),
        }
        doc += 1;
    }
    loader.finish()
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|l| !l.starts_with('#'))
}

fn first_word(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or(line)
}

impl Loader {
    /// A row that binds a group, version and kind to its struct. Several kinds may share one.
    fn kind(&mut self, rest: &'static str) {
        let mut words = rest.split(' ');
        let (Some(gv), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { return };
        let (group, version) = gv.split_once('/').unwrap_or(("", gv));
        if let Some(&id) = self.ids.get(name) {
            self.schema.kinds.push(KindEntry { group, version, kind, id });
        }
    }

    /// Fields that follow belong to it; its count grows with each of them.
    fn structure(&mut self, rest: &'static str, doc: u32) {
        self.schema.structs.push(Struct {
            name: first_word(rest),
            atomic: rest.ends_with(" map=atomic"),
            fills: false,
            first: u32::try_from(self.schema.fields.len()).unwrap_or(u32::MAX),
            count: 0,
            doc,
        });
    }

    /// Adds a field to the last struct. Its flags are words after type and number, in any order.
    fn field(&mut self, line: &'static str, doc: u32) {
        let mut words = line.split(' ');
        let (Some(name), Some(ty), Some(number)) = (words.next(), words.next(), words.next()) else { return };
        let mut field = Field {
            name,
            prefix: prefix(name),
            ty: self.ty(ty),
            numbers: numbers(number),
            required: false,
            pointer: false,
            omit_empty: false,
            omit_zero: false,
            list: None,
            atomic: false,
            granular: false,
            merge_key: None,
            patch: PatchStrategy::default(),
            go_type: None,
            fills: false,
            doc,
        };
        words.for_each(|flag| apply(&mut field, flag));
        self.schema.fields.push(field);
        if let Some(last) = self.schema.structs.last_mut() {
            last.count += 1;
        }
    }

    /// The type that a word names. An unknown name is `Json`, which accepts anything.
    fn ty(&mut self, word: &'static str) -> FieldType {
        if let Some(item) = word.strip_prefix("[]") {
            let item = self.ty(item);
            return FieldType::List(self.element(item));
        }
        if let Some(value) = word.strip_prefix("{}") {
            let value = self.ty(value);
            return FieldType::Map(self.element(value));
        }
        match word {
            "string" => FieldType::String,
            "bool" => FieldType::Bool,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "double" => FieldType::Double,
            "bytes" => FieldType::Bytes,
            "quantity" => FieldType::Quantity,
            "intorstring" => FieldType::IntOrString,
            "time" => FieldType::Time,
            "microtime" => FieldType::MicroTime,
            "raw" => FieldType::Raw,
            "fieldsv1" => FieldType::FieldsV1,
            "schemaorarray" => FieldType::SchemaOrArray,
            "schemaorbool" => FieldType::SchemaOrBool,
            "schemaorstrings" => FieldType::SchemaOrStrings,
            name => self.ids.get(name).map_or(FieldType::Json, |&id| FieldType::Struct(id)),
        }
    }

    /// The id of an element type. Equal types share one, so that the table stays small.
    fn element(&mut self, ty: FieldType) -> ElementId {
        let next = ElementId(u16::try_from(self.schema.elements.len()).unwrap_or(u16::MAX));
        *self.elements.entry(ty).or_insert_with(|| {
            self.schema.elements.push(ty);
            next
        })
    }

    /// Sorts the kinds, since they are found by binary search.
    fn finish(mut self) -> SchemaTable {
        self.schema.kinds.sort_by_key(|k| (k.group, k.version, k.kind));
        self.mark_fills();
        self.schema
    }

    /// A field needs filling if it is always written, or leads to a struct with such a field: repeated until nothing changes.
    ///
    /// Ends, because marks are only ever set; it takes as many rounds as types nest.
    fn mark_fills(&mut self) {
        loop {
            let marks: Vec<bool> = self.schema.fields.iter().map(|f| self.fills(f)).collect();
            let mut changed = false;
            for (field, mark) in self.schema.fields.iter_mut().zip(marks) {
                changed |= field.fills != mark;
                field.fills = mark;
            }
            if !changed {
                return;
            }
            let ids: Vec<StructId> = self.schema.structs().map(|(id, _)| id).collect();
            for (id, at) in ids.into_iter().zip(0..) {
                let fills = self.schema.fields(id).iter().any(|f| f.fills);
                if let Some(structure) = self.schema.structs.get_mut::<usize>(at) {
                    structure.fills = fills;
                }
            }
        }
    }

    /// Elements of lists and maps count like the field itself.
    fn fills(&self, field: &Field) -> bool {
        let mut ty = field.ty;
        while let FieldType::List(id) | FieldType::Map(id) = ty {
            ty = self.schema.element(id);
        }
        let below = matches!(ty, FieldType::Struct(id) if self.schema.structure(id).fills);
        field.always_written() || below
    }
}

/// `3`, `2.5` for a field of an inlined message, `-` for none.
fn numbers(word: &str) -> [u8; 3] {
    let mut numbers = [0; 3];
    for (slot, part) in numbers.iter_mut().zip(word.split('.')) {
        *slot = part.parse().unwrap_or(0);
    }
    numbers
}

/// Sets one flag of a field. The names of the flags are those that `cargo xtask kinds` writes.
///
/// Unknown flags are ignored, so that a newer table can be read by an older program.
fn apply(field: &mut Field, flag: &'static str) {
    match flag.split_once('=').unwrap_or((flag, "")) {
        ("req", _) => field.required = true,
        ("ptr", _) => field.pointer = true,
        ("omit", _) => field.omit_empty = true,
        ("zero", _) => field.omit_zero = true,
        ("list", "atomic") => field.list = Some(ListKind::Atomic),
        ("list", "set") => field.list = Some(ListKind::Set),
        ("list", keys) => {
            let keys: Box<[&'static str]> =
                keys.strip_prefix("map:").unwrap_or_default().split(',').collect();
            // The table is loaded once and never dropped.
            field.list = Some(ListKind::Map(ListKeys::Builtin(Box::leak(keys))));
        }
        ("map", kind) => {
            field.atomic = kind == "atomic";
            field.granular = kind == "granular";
        }
        ("key", key) => field.merge_key = Some(key),
        ("patch", words) => {
            for word in words.split(',') {
                match word {
                    "merge" => field.patch.merge = true,
                    "retainKeys" => field.patch.retain_keys = true,
                    "replace" => field.patch.replace = true,
                    _ => {}
                }
            }
        }
        ("go", name) => field.go_type = Some(name),
        _ => {}
    }
}
