//! `cargo xtask house`: figures about the source itself, and the checks that keep two of them from growing.
//!
//! [`names`] fails when a type name is defined twice in the workspace, [`words`] when a doc comment begins with a question word
//! or goes on after its section on errors. The other figures are for comparing two commits: nothing fails when they change.
//! [`source`] reads the files for all of them.

mod functions;
pub(crate) mod names;
mod repeated_lines;
mod source;
pub(crate) mod words;

use std::process::ExitCode;

use self::source::SourceFile;

/// Prints one line per crate, then the totals.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let files = source::library()?;
    println!("{:22} {:>6} {:>6} {:>6} {:>6}", "crate", "files", "lines", "doc %", "pub");
    for (name, files) in source::by_crate(&files) {
        let figures = Figures::of(&files);
        println!(
            "{name:22} {:>6} {:>6} {:>6.1} {:>6}",
            files.len(),
            figures.lines,
            figures.doc_share(),
            figures.public
        );
    }
    let all: Vec<&SourceFile> = files.iter().collect();
    let total = Figures::of(&all);
    println!(
        "{:22} {:>6} {:>6} {:>6.1} {:>6}",
        "all",
        all.len(),
        total.lines,
        total.doc_share(),
        total.public
    );
    let validation: Vec<&SourceFile> = files.iter().filter(|file| is_validation(file)).collect();
    println!();
    println!("hand-written validation lines   {}", Figures::of(&validation).lines);
    println!("type names defined twice        {}", names::repeated(&files).len());
    println!("doc comments that ask           {}", words::found(&files).len());
    println!(
        "module heads of one line        {}",
        files.iter().filter(|file| file.head_lines() == 1).count()
    );
    println!("repeated lines (six in a row)   {}", repeated_lines::count(&files));
    println!("functions over 25 lines         {}", functions::longer(&files, 25).len());
    let longest = functions::longer(&files, 40);
    println!("functions over 40 lines         {}", longest.len());
    longest.iter().for_each(|function| println!("  {}", function.describe()));
    Ok(ExitCode::SUCCESS)
}

/// Validation that is code rather than a row of the tables in `crates/kinds/src/rules`.
fn is_validation(file: &SourceFile) -> bool {
    file.path.starts_with("crates/kinds/src/validate")
}

/// Counts over some files.
struct Figures {
    lines: usize,
    doc: usize,
    public: usize,
}

impl Figures {
    fn of(files: &[&SourceFile]) -> Self {
        let lines = || files.iter().flat_map(|file| file.lines());
        let item = |line: &&str| {
            let rest = line.strip_prefix("pub ").unwrap_or_default();
            ["fn", "struct", "enum", "trait", "type", "const", "static", "async", "mod", "use"]
                .contains(&rest.split(' ').next().unwrap_or_default())
        };
        Self {
            lines: lines().count(),
            doc: lines().filter(|line| source::doc_text(line).is_some()).count(),
            public: lines().map(str::trim_start).filter(item).count(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
    fn doc_share(&self) -> f64 {
        self.doc as f64 * 100.0 / self.lines.max(1) as f64
    }
}
