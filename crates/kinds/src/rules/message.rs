//! Texts of errors, with values of the object in them.
//!
//! `{=}` stands for the value itself, `{=ROUTE}` for a value below the struct of the block, `{@}` for the path of the
//! field. A quote in a text is written as `''`.

use listwatch_wire::json::Value;

use super::route::Route;
use super::walk::At;

/// The text of an error.
#[derive(Clone, Debug)]
pub(super) struct Message {
    text: String,
    parts: Vec<MessagePart>,
}

/// A piece of a message: text, or a value to insert.
#[derive(Clone, Debug)]
enum MessagePart {
    Words(String),
    Own,
    Path,
    Of(Route),
}

impl Message {
    /// Reads a text of a table.
    pub(super) fn parse(text: &'static str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, name, after)) = placeholder(rest) {
            parts.push(MessagePart::Words(unquoted(before)));
            parts.push(match name {
                "@" => MessagePart::Path,
                "=" => MessagePart::Own,
                route => MessagePart::Of(Route::parse(route.trim_start_matches('='))),
            });
            rest = after;
        }
        parts.push(MessagePart::Words(unquoted(rest)));
        Self { text: unquoted(text), parts }
    }

    /// The text as it is in the table.
    pub(super) fn plain(&self) -> &str {
        &self.text
    }

    /// The text with the values of a place.
    pub(super) fn fill(&self, at: &At<'_>) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                MessagePart::Words(words) => words.clone(),
                MessagePart::Own => text(at.value, ""),
                MessagePart::Path => at.path.to_string(),
                MessagePart::Of(route) => text(route.value(at.top), "0"),
            })
            .collect()
    }
}

fn unquoted(text: &str) -> String {
    text.replace("''", "\"")
}

/// The text before the first placeholder, its content, and the text after it.
fn placeholder(text: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let start = ["{=", "{@}"].iter().filter_map(|mark| text.find(mark)).min()?;
    let (before, rest) = text.split_at(start);
    let (name, after) = rest.get(1..)?.split_once('}')?;
    Some((before, name, after))
}

/// A value as it is printed in a message.
fn text(value: &Value, absent: &str) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => absent.to_owned(),
        other => other.to_string(),
    }
}
