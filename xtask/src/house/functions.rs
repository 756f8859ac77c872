//! The lengths of functions, from their first line to their closing brace.
//!
//! rustfmt puts that brace on a line of its own, below the beginning of the function, so no parser is needed. A long
//! function is not wrong by itself: a match over many small cases reads well. The figure shows if they become more.

use super::source::SourceFile;

/// A function and its length in lines.
pub(super) struct Function<'a> {
    path: &'a str,
    name: &'a str,
    line: usize,
    pub(super) lines: usize,
}

impl Function<'_> {
    /// The place, name and length, for people.
    pub(super) fn describe(&self) -> String {
        format!("{} {}:{} {}", self.lines, self.path, self.line, self.name)
    }
}

/// All functions of some files that are longer than `most` lines, the longest first.
pub(super) fn longer<'a>(files: &'a [SourceFile], most: usize) -> Vec<Function<'a>> {
    let mut found: Vec<_> =
        files.iter().flat_map(functions).filter(|function| function.lines > most).collect();
    found.sort_by_key(|function| std::cmp::Reverse(function.lines));
    found
}

/// The functions of a file that have a body of several lines.
fn functions(file: &SourceFile) -> impl Iterator<Item = Function<'_>> {
    let lines: Vec<_> = file.numbered().map(|(_, line)| line).collect();
    file.numbered().filter_map(move |(line, text)| {
        let name = name(text).filter(|_| !text.ends_with([';', '}']))?;
        let indent = text.len() - text.trim_start().len();
        let beside = |line: &&str| line.len() - line.trim_start().len() == indent && !line.is_empty();
        let mut rest = lines.iter().skip(line).enumerate().filter(|(_, line)| beside(line));
        // The first line at the same depth that ends it: a brace, or the semicolon of a function without a body.
        let (after, end) = rest.find(|(_, line)| line.trim() == "}" || line.ends_with(';'))?;
        (end.trim() == "}").then(|| Function { path: &file.path, name, line, lines: after + 2 })
    })
}

/// The name of the function that a line begins, if it begins one.
fn name(line: &str) -> Option<&str> {
    let before = |text: &str| {
        text.split_whitespace().all(|word| {
            word.starts_with("pub")
                || matches!(word, "const" | "async" | "unsafe" | "default")
                || word.ends_with(')')
        })
    };
    let (_, rest) = line.split_once("fn ").filter(|(text, _)| before(text))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_at_the_brace_below_its_beginning() {
        let text = "/// fn of a comment\nimpl A {\n    pub(crate) async fn one(\n        a: u8,\n    ) -> u8 {\n        if a {\n        }\n    }\n\n    fn two();\n    fn short() {}\n}\n\nfn three() {\n}\n";
        let files = [SourceFile::new("a.rs", text)];
        let found: Vec<_> = longer(&files, 0).iter().map(Function::describe).collect();
        assert_eq!(found, ["6 a.rs:3 one", "2 a.rs:14 three"]);
    }
}
