//! The fields of every built-in type: one flat table, read-only and shared by everything that walks objects.
//!
//! The table is text, `table.txt`, made by `cargo xtask kinds` from published sources and committed; `load` reads it on
//! first use into a few arrays (about 200 KB) whose strings are slices of that text. Type checks, protobuf, patches and
//! OpenAPI are walks over this table; they name no fields themselves.
//!
//! [`Node`] is the handle to it: small, copyable, it stands for the type at one place of an object, and implements
//! [`listwatch_merge::patch::MergeSchema`].

mod load;
mod merge;

use std::cmp::Ordering;
use std::sync::LazyLock;

use listwatch_merge::patch::{ListKind, PatchStrategy};

/// A type of the table. Ids are indexes into the [`SchemaTable`].
///
/// Types of Go with a marshaller of their own (quantities, times, unions of schemas) are variants here, since no
/// struct of the table could describe them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// Text.
    String,
    /// True or false.
    Bool,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Floating point.
    Double,
    /// Bytes, base64 in JSON.
    Bytes,
    /// `resource.Quantity`: a number with a suffix, written in one canonical way.
    Quantity,
    /// A port or percentage: number or text.
    IntOrString,
    /// RFC 3339 time in seconds.
    Time,
    /// RFC 3339 time in microseconds.
    MicroTime,
    /// Any object (`runtime.RawExtension`).
    Raw,
    /// A set of field paths (`FieldsV1`).
    FieldsV1,
    /// Any JSON (`apiextensions.JSON`).
    Json,
    /// A JSON schema, or a list of them.
    SchemaOrArray,
    /// A JSON schema, or true or false.
    SchemaOrBool,
    /// A JSON schema, or a list of names.
    SchemaOrStrings,
    /// A struct.
    Struct(StructId),
    /// A list of something.
    List(ElementId),
    /// A map from text to something.
    Map(ElementId),
}

/// The index of a struct in the [`SchemaTable`]. Only the table makes ids, so a lookup by one cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(u16);

impl StructId {
    /// The position of the struct in the table.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Index of the element type of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementId(u16);

/// One field of a struct, with everything that decoding, encoding, merging and messages need to know about it.
///
/// Some forty bytes beside the names; there are about 2,600 of them.
#[derive(Debug)]
pub struct Field {
    /// Name in JSON.
    pub name: &'static str,
    /// The start of the name as a number, for the search.
    prefix: u64,
    /// Type of its value.
    pub ty: FieldType,
    /// Protobuf field numbers: the last non-zero one is the field's, those before it the inlined messages around it.
    pub numbers: [u8; 3],
    /// The definition calls it required.
    pub required: bool,
    /// A pointer in Go: zero and absent differ.
    pub pointer: bool,
    /// Left out when empty.
    ///
    /// Together with `pointer` it decides if a zero value is stored or dropped, which is visible in every response.
    pub omit_empty: bool,
    /// Left out when zero, structs included.
    pub omit_zero: bool,
    /// Merge behaviour of a list, where stated.
    pub list: Option<ListKind<'static>>,
    /// A map or struct with a single owner.
    pub atomic: bool,
    /// The struct below is owned field by field, though its type is atomic.
    pub granular: bool,
    /// Merge key of strategic merge patches.
    pub merge_key: Option<&'static str>,
    /// Strategy of strategic merge patches.
    pub patch: PatchStrategy,
    /// The Go type where it is not the obvious one, for messages.
    pub go_type: Option<&'static str>,
    /// It is written even when empty, or something below it is.
    pub(crate) fills: bool,
    /// Line of its description in the texts.
    pub(crate) doc: u32,
}

/// One struct: a Go type of the API, as its OpenAPI definition describes it.
#[derive(Debug)]
pub struct Struct {
    /// Name of its OpenAPI definition.
    pub name: &'static str,
    /// One owner for the whole.
    pub atomic: bool,
    /// Some field below is written even when empty, so that [`crate::typecheck::fill`] has to look.
    pub(crate) fills: bool,
    first: u32,
    count: u32,
    /// Line of its description in the texts.
    pub(crate) doc: u32,
}

/// The struct behind a group, version and kind: one line of the registry that apimachinery calls a `runtime.Scheme`.
#[derive(Debug)]
#[doc(alias = "runtime.Scheme")]
pub struct KindEntry {
    /// API group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind; lists, reviews and request options included.
    pub kind: &'static str,
    /// Its struct.
    pub id: StructId,
}

/// The whole table. There is one, which [`schema`] returns; it is read-only and never freed.
///
/// Four arrays with indexes between them rather than a tree of boxes: a walk stays within memory that is used all the
/// time.
#[derive(Debug)]
pub struct SchemaTable {
    structs: Vec<Struct>,
    fields: Vec<Field>,
    elements: Vec<FieldType>,
    kinds: Vec<KindEntry>,
    schema_props: StructId,
}

/// Returns the table, reading it on first use. The first caller waits for that, some milliseconds.
#[must_use]
pub fn schema() -> &'static SchemaTable {
    static SCHEMA: LazyLock<SchemaTable> = LazyLock::new(|| load::load(include_str!("table.txt")));
    &SCHEMA
}

/// The node of a kind's object.
///
/// ```
/// use listwatch_merge::patch::{ListKeys, ListKind, MergeSchema};
/// let pod = listwatch_kinds::schema::node("", "v1", "Pod").unwrap();
/// let containers = pod.field("spec").and_then(|spec| spec.field("containers")).unwrap();
/// assert_eq!(containers.list_kind(), ListKind::Map(ListKeys::Builtin(&["name"])));
/// ```
///
/// Not only for stored kinds: lists, reviews and options of requests are in the table as well.
#[must_use]
pub fn node(group: &str, version: &str, kind: &str) -> Option<Node> {
    let schema = schema();
    let position =
        schema.kinds.binary_search_by(|k| (k.group, k.version, k.kind).cmp(&(group, version, kind))).ok()?;
    let id = schema.kinds.get(position)?.id;
    Some(Node { ty: FieldType::Struct(id), field: None })
}

/// The struct of a kind's object.
pub(crate) fn struct_id(group: &str, version: &str, kind: &str) -> Option<StructId> {
    match node(group, version, kind)?.ty {
        FieldType::Struct(id) => Some(id),
        _ => None,
    }
}

/// The first eight bytes of a name as a number that sorts like it. Every key of every object is looked up, and one number
/// distinguishes most names.
fn prefix(name: &str) -> u64 {
    let mut first = [0; 8];
    for (slot, byte) in first.iter_mut().zip(name.bytes()) {
        *slot = byte;
    }
    u64::from_be_bytes(first)
}

/// Finds a field by name in the remaining fields of a struct, and removes the fields up to it. Names must be asked for in
/// order: all fields of an object are then found in one walk over those of its struct.
pub(crate) fn field_among<'f>(rest: &mut &'f [Field], name: &str) -> Option<&'f Field> {
    let prefix = prefix(name);
    while let Some((field, tail)) = rest.split_first() {
        match field.prefix.cmp(&prefix).then_with(|| field.name.cmp(name)) {
            Ordering::Less => *rest = tail,
            Ordering::Equal => {
                *rest = tail;
                return Some(field);
            }
            Ordering::Greater => return None,
        }
    }
    None
}

/// A placeholder for an unknown struct, which no id of this table refers to.
static NO_STRUCT: Struct = Struct { name: "", atomic: false, fills: false, first: 0, count: 0, doc: 0 };

impl SchemaTable {
    /// The struct of an id; ids only come from this table.
    #[must_use]
    pub fn structure(&self, id: StructId) -> &Struct {
        self.structs.get(id.index()).unwrap_or(&NO_STRUCT)
    }

    /// The fields of a struct, sorted by name.
    #[must_use]
    pub fn fields(&self, id: StructId) -> &[Field] {
        let s = self.structure(id);
        self.fields.get(s.first as usize..(s.first + s.count) as usize).unwrap_or_default()
    }

    /// A field of a struct by its JSON name, case-sensitive: a binary search, which every key of every body goes
    /// through.
    #[must_use]
    pub fn field(&self, id: StructId, name: &str) -> Option<&Field> {
        let fields = self.fields(id);
        let prefix = prefix(name);
        let position =
            fields.binary_search_by(|f| f.prefix.cmp(&prefix).then_with(|| f.name.cmp(name))).ok()?;
        fields.get(position)
    }

    /// The type of the elements of a list or map.
    #[must_use]
    pub fn element(&self, id: ElementId) -> FieldType {
        self.elements.get(usize::from(id.0)).copied().unwrap_or(FieldType::Json)
    }

    /// Every kind of the table, sorted by group, version and kind.
    #[must_use]
    pub fn kinds(&self) -> &[KindEntry] {
        &self.kinds
    }

    /// The struct of JSON schemas, the one type that contains itself.
    #[must_use]
    pub fn schema_props(&self) -> StructId {
        self.schema_props
    }

    /// All structs in the order of their names.
    pub fn structs(&self) -> impl Iterator<Item = (StructId, &Struct)> {
        (0u16..).map(StructId).zip(&self.structs)
    }
}

impl Struct {
    /// The Go name without its package, such as `PodSpec`: what `json: cannot unmarshal` errors show.
    #[must_use]
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// The Go name with its package, such as `v1.PodSpec`.
    #[must_use]
    pub(crate) fn go_name(&self) -> &'static str {
        let mut dots = self.name.rmatch_indices('.').map(|(at, _)| at);
        let start = dots.nth(1).map_or(0, |at| at + 1);
        self.name.get(start..).unwrap_or(self.name)
    }
}

impl Field {
    /// A value struct, or a scalar without `omitempty`: written whether or not it holds anything.
    #[must_use]
    pub(crate) fn always_written(&self) -> bool {
        let structural = matches!(
            self.ty,
            FieldType::Struct(_)
                | FieldType::Time
                | FieldType::MicroTime
                | FieldType::Quantity
                | FieldType::IntOrString
        );
        !self.omit_zero && (!self.omit_empty || (structural && !self.pointer))
    }
}

/// A place in an object: the type there and, below a struct, the field that leads to it.
///
/// Two words. Walks pass it by value and never allocate for it.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    ty: FieldType,
    field: Option<&'static Field>,
}

impl Node {
    /// The declared type of the value here, for a walk that decides by it.
    #[must_use]
    pub fn ty(self) -> FieldType {
        self.ty
    }

    /// The struct here; `None` for scalars, lists and maps.
    #[must_use]
    pub(crate) fn as_struct(self) -> Option<&'static Struct> {
        match self.ty {
            FieldType::Struct(id) => Some(schema().structure(id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
