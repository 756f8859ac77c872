//! The number of repeated lines: a rough figure for duplicated code.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::source::SourceFile;

/// Shorter runs are mostly language: imports, closing braces, derives.
const RUN: usize = 6;

/// Counts the lines of code in runs of [`RUN`] or more that occur in two places. Comments, imports and lone punctuation
/// do not count.
pub(super) fn count(files: &[SourceFile]) -> usize {
    let code: Vec<Vec<&str>> = files.iter().map(code).collect();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for window in code.iter().flat_map(|lines| lines.windows(RUN)) {
        *places.entry(hash(window)).or_insert(0) += 1;
    }
    let repeated = |window: &[&str]| places.get(&hash(window)).is_some_and(|count| *count > 1);
    code.iter()
        .map(|lines| {
            let mut last = 0;
            let mut count = 0;
            for (start, window) in lines.windows(RUN).enumerate() {
                if repeated(window) {
                    count += start + RUN - last.max(start);
                    last = start + RUN;
                }
            }
            count
        })
        .sum()
}

fn code(file: &SourceFile) -> Vec<&str> {
    let code = |line: &&str| {
        !line.starts_with("//") && !line.starts_with("use ") && line.chars().any(char::is_alphanumeric)
    };
    file.lines().map(str::trim).filter(code).collect()
}

fn hash(window: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    window.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_once_per_place() {
        let seven = "a1\nb2\nc3\nd4\ne5\nf6\ng7\n";
        let files = [SourceFile::new("a", seven), SourceFile::new("b", &format!("x\n{seven}y"))];
        assert_eq!(count(&files), 14);
        assert_eq!(count(&files[..1]), 0);
    }
}
