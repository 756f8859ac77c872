//! The texts of the rule tables, split into blocks.
//!
//! Finding the blocks takes a fraction of a millisecond. The rows of a block are read by [`super::parse`] when an
//! object with that struct is validated for the first time, so that a server pays for the kinds that are written to it
//! and not for all of them.

use std::collections::HashMap;

use super::rows::Check;

/// The blocks of all tables by name, and what their rows refer to.
#[derive(Debug)]
pub(super) struct Tables {
    blocks: HashMap<&'static str, BlockText>,
    /// Values of enumerated types (`set=`) by struct and field, which rows elsewhere refer to by `enum` alone.
    enums: HashMap<(&'static str, &'static str), &'static str>,
    /// The meanings of `$NAME`s, longer names first, since they may begin with a shorter one.
    named: Vec<(&'static str, String)>,
    /// Functions of `validate` by name, for `check=NAME`.
    checks: HashMap<&'static str, Check>,
}

/// The text of a block, which several tables may have a part of.
#[derive(Debug, Default)]
struct BlockText {
    base: Option<&'static str>,
    parts: Vec<BlockPart>,
}

/// The rows of a block in one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPart {
    pub(super) text: &'static str,
    /// The table is not the first, and repeats some rules of that one.
    pub(super) declared: bool,
}

impl Tables {
    /// Splits tables; where several have rules about one field, those of the first table come first.
    pub(super) fn new(texts: [&'static str; 2]) -> Self {
        let mut tables = Self {
            blocks: HashMap::new(),
            enums: HashMap::new(),
            named: Vec::new(),
            checks: crate::validate::all_checks().collect(),
        };
        for (position, text) in texts.into_iter().enumerate() {
            tables.split(text, position > 0);
        }
        tables
    }

    /// A line without indentation begins a block; the others are its rows.
    fn split(&mut self, text: &'static str, declared: bool) {
        let (mut block, mut start, mut end) = ("", 0, 0);
        for line in text.split_inclusive('\n') {
            if is_heading(line) {
                self.add(block, text.get(start..end), declared);
                block = self.heading(line);
                start = end + line.len();
            } else if !is_comment(line) {
                self.remember(block, line.trim());
            }
            end += line.len();
        }
        self.add(block, text.get(start..end), declared);
    }

    /// The name of the block that a line begins; ` : BASE` makes it a variant of another one.
    fn heading(&mut self, line: &'static str) -> &'static str {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let block = self.blocks.entry(name).or_default();
        if words.next() == Some(":") {
            block.base = words.next();
        }
        name
    }

    fn add(&mut self, block: &'static str, text: Option<&'static str>, declared: bool) {
        if let Some((block, text)) = self.blocks.get_mut(block).zip(text) {
            block.parts.push(BlockPart { text, declared });
        }
    }

    /// Keeps what rows of other blocks refer to: names of texts, and the values of enumerated types.
    fn remember(&mut self, block: &'static str, line: &'static str) {
        if let Some(named) = line.strip_prefix('$') {
            let (name, meaning) = named.split_once(' ').unwrap_or((named, ""));
            let meaning = self.replaced(meaning);
            self.named.push((name, meaning));
            self.named.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        } else if let Some((field, values)) = line.split_once(" set=") {
            let field = field.split(' ').next().unwrap_or(field);
            let end = if values.starts_with('"') { '"' } else { ' ' };
            let values = values.trim_start_matches('"').split(end).next().unwrap_or_default();
            self.enums.insert((block, field), values);
        }
    }

    /// A text with the meanings of the `$NAME`s in it.
    pub(super) fn replaced(&self, text: &str) -> String {
        self.named
            .iter()
            .fold(text.to_owned(), |text, (name, meaning)| text.replace(&format!("${name}"), meaning))
    }

    /// The names of all blocks, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.blocks.keys().copied()
    }

    /// The block that a block is a variant of: it has all rules of that one except those that it repeats.
    pub(super) fn base(&self, block: &str) -> Option<&'static str> {
        self.blocks.get(block)?.base
    }

    /// The rows of a block, table by table.
    pub(super) fn parts(&self, block: &str) -> &[BlockPart] {
        self.blocks.get(block).map(|block| block.parts.as_slice()).unwrap_or_default()
    }

    /// The values of the enumerated type of a field.
    pub(super) fn enumerated(&self, block: &'static str, field: &'static str) -> Option<&'static str> {
        self.enums.get(&(block, field)).copied()
    }

    /// The function of a name.
    pub(super) fn check(&self, name: &str) -> Option<Check> {
        self.checks.get(name).copied()
    }
}

/// True for blank lines and comments.
pub(super) fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// True for the line that begins a block.
fn is_heading(line: &str) -> bool {
    !is_comment(line) && !line.starts_with([' ', '$'])
}
