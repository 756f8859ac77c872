//! The style in which YAML writes a text: plain, in quotes, or as a block.
//!
//! libyaml chooses by the characters of the text. Words that YAML would take for a number or a boolean are in
//! `yaml_words`; the text is written by `yaml`.

use super::yaml_words::is_text;

/// The styles of libyaml, in the order of preference.
///
/// `Literal` is a block after `|`, which keeps lines as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStyle {
    Plain,
    Single,
    Double,
    Literal,
}

/// The characters of a text, as far as they decide how it can be written.
#[derive(Clone, Copy)]
pub(super) struct YamlTextForm {
    plain: bool,
    single: bool,
    literal: bool,
}

impl YamlTextForm {
    /// Looks at a text once, as `yaml_emitter_analyze_scalar` of libyaml does.
    pub(super) fn of(text: &str) -> Self {
        let edge = |c: char| matches!(c, ' ' | '\n' | '\r');
        let edges = text.starts_with(edge) || text.ends_with(edge);
        let break_space = text.contains("\n ") || text.contains("\r ");
        let odd = text.contains(" \n") || text.contains(" \r") || !text.chars().all(is_written);
        Self {
            plain: !edges && !break_space && !odd && !text.contains(['\n', '\r']) && !has_indicator(text),
            single: !break_space && !odd,
            literal: !odd && !text.ends_with(' ') && !text.is_empty(),
        }
    }

    /// The style of a text with these characters. What reads as another type unquoted, such as `yes` or `1e3`, is
    /// quoted.
    pub(super) fn style(self, text: &str) -> TextStyle {
        match text {
            _ if text.contains('\n') && self.literal => TextStyle::Literal,
            _ if text.contains('\n') || !is_text(text) => TextStyle::Double,
            _ if self.plain => TextStyle::Plain,
            _ if self.single => TextStyle::Single,
            _ => TextStyle::Double,
        }
    }
}

/// Returns true if a character needs no escape.
fn is_written(character: char) -> bool {
    matches!(character, '\n') || is_printable(character)
}

/// The characters that YAML 1.1 prints, without the byte order mark and the Unicode line breaks.
pub(super) fn is_printable(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(character, '\u{feff}' | '\u{2028}' | '\u{2029}')
}

/// Returns true if a text would mean something else where it is not quoted.
fn has_indicator(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut characters = text.chars().peekable();
    let (mut first, mut after_blank) = (true, true);
    while let Some(character) = characters.next() {
        let before_blank = characters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
        let found = match character {
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`'
                if first =>
            {
                true
            }
            '?' | '-' if first => before_blank,
            ':' => before_blank,
            '#' => after_blank,
            _ => false,
        };
        if found {
            return true;
        }
        (first, after_blank) = (false, matches!(character, ' ' | '\t'));
    }
    false
}
