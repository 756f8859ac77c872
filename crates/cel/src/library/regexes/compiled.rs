//! [`CompiledPattern`]: a pattern with its size, and the patterns that the process keeps.
//!
//! Twenty bytes such as `\pL{20}` compile to a megabyte in milliseconds, so neither the number of patterns nor their length
//! bounds what they take. Compiled patterns are therefore kept in one place, bounded by bytes, and each knows what it cost:
//! definitions bound the sum, expressions count it as work.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use regex_automata::meta::{BuildError, Builder, Config, Regex};

use super::{MAX_PATTERN, syntax, translate};
use crate::error::EvalError;

/// The largest compiled pattern in bytes: what is written down once must not hold memory at will. The host names of OpenShift's
/// Ingress, a hundred letters of any script, take ten megabytes.
const MAX_COMPILED: usize = 16 << 20;
/// The most bytes that all kept patterns take together. When they are reached, all are dropped: simpler than an order of
/// use, and rare, since the patterns of a cluster take a few megabytes.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// The bytes that each kept pattern counts beside its own. Searches have memory of their own, up to [`MAX_SEARCH_CACHE`].
const KEPT_OVERHEAD: usize = 32 << 10;
/// The memory in which a search remembers states that it has visited, per pattern and thread.
const MAX_SEARCH_CACHE: usize = 128 << 10;
/// The most sets such as `\pL`. Each has hundreds of ranges, before the size of the result is known.
const MAX_UNICODE_SETS: usize = 512;
/// The most parts of a pattern without case that can stand for all characters: each of them is looked up.
const MAX_FOLDED_PARTS: usize = 32;
/// The effort of one such part.
const FOLDING_EFFORT: u64 = 512 << 10;
/// The bytes of a compiled pattern that count as one step for each byte of a text. A search rarely visits more than one
/// state per byte, and all of them in the worst case.
const BYTES_PER_STEP: usize = 512;

/// The most bytes that the patterns of one definition or policy take together when they are compiled.
const MAX_DOCUMENT_EFFORT: u64 = 32 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub struct CompiledPattern {
    regex: Regex,
    bytes: usize,
    effort: u64,
}

type CompileResult = Result<Arc<CompiledPattern>, EvalError>;

impl CompiledPattern {
    /// Compiles a pattern in Go's syntax, unless it is kept.
    ///
    /// # Errors
    /// Go's message if it is none, or too large.
    pub(super) fn of(pattern: &str) -> CompileResult {
        kept(pattern).unwrap_or_else(|| {
            let compiled = compile(pattern).map(Arc::new);
            keep(pattern, &compiled);
            compiled
        })
    }

    /// Tests a text for a match anywhere in it.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The work of one search in a text of this length, at worst.
    #[must_use]
    pub fn search_work(&self, length: usize) -> u64 {
        length.saturating_mul((self.bytes / BYTES_PER_STEP).max(1)) as u64
    }

    pub(super) fn regex(&self) -> &Regex {
        &self.regex
    }
}

/// Returns the effort of compiling a pattern, about the bytes that it takes, whether or not it compiles.
pub(super) fn pattern_effort(pattern: &str) -> u64 {
    let compiled = CompiledPattern::of(pattern);
    compiled.map_or((MAX_COMPILED + KEPT_OVERHEAD) as u64, |compiled| compiled.effort)
}

/// The patterns that one definition or policy may have: those that it repeats count once. A copy shares what is left.
///
/// ```
/// let allowance = listwatch_cel::PatternAllowance::default();
/// assert!((0..2000).all(|_| allowance.admits("^[a-z]+$")));
/// assert!(!(0..2000).all(|n| allowance.admits(&format!("{n}"))));
/// ```
#[derive(Clone, Debug)]
pub struct PatternAllowance(Arc<Mutex<CountedPatterns>>);

#[derive(Debug)]
struct CountedPatterns {
    counted: HashSet<Box<str>>,
    left: u64,
}

impl Default for PatternAllowance {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(CountedPatterns { counted: HashSet::new(), left: MAX_DOCUMENT_EFFORT })))
    }
}

impl PatternAllowance {
    /// Compiles and counts a pattern, also one that is none. Returns false if there are too many; it is not compiled
    /// then.
    #[must_use]
    pub fn admits(&self, pattern: &str) -> bool {
        let mut allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !allowed.counted.contains(pattern) && allowed.left > 0 {
            allowed.left = allowed.left.saturating_sub(pattern_effort(pattern));
            allowed.counted.insert(pattern.into());
        }
        allowed.left > 0
    }
}

/// All patterns that are kept, with the bytes that they count.
#[derive(Default)]
struct Kept {
    patterns: HashMap<Box<str>, CompileResult>,
    bytes: usize,
}

static KEPT: LazyLock<RwLock<Kept>> = LazyLock::new(RwLock::default);

/// Returns a kept pattern.
pub(super) fn kept(pattern: &str) -> Option<CompileResult> {
    KEPT.read().unwrap_or_else(PoisonError::into_inner).patterns.get(pattern).cloned()
}

fn keep(pattern: &str, compiled: &CompileResult) {
    let bytes = compiled.as_ref().map_or(pattern.len(), |compiled| compiled.bytes);
    let bytes = bytes + KEPT_OVERHEAD + pattern.len();
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    let full = kept.bytes + bytes > MAX_KEPT_BYTES;
    let dropped = if full { std::mem::take(&mut *kept) } else { Kept::default() };
    if kept.patterns.insert(pattern.into(), compiled.clone()).is_none() {
        kept.bytes += bytes;
    }
    drop(kept);
    // Behind the lock: there may be thousands.
    drop(dropped);
}

fn compile(pattern: &str) -> Result<CompiledPattern, EvalError> {
    let too_large = || EvalError::new("error parsing regexp: expression too large");
    let folded = folded_parts(pattern);
    if pattern.len() > MAX_PATTERN || folded > MAX_FOLDED_PARTS || unicode_sets(pattern) > MAX_UNICODE_SETS {
        return Err(too_large());
    }
    syntax::check(pattern).map_err(EvalError::new)?;
    let config = Config::new().nfa_size_limit(Some(MAX_COMPILED)).hybrid_cache_capacity(MAX_SEARCH_CACHE);
    let built = Builder::new().configure(config).build(&translate(pattern));
    let wrong = |error: BuildError| match error.size_limit() {
        Some(_) => too_large(),
        None => EvalError::new(format!("error parsing regexp: invalid pattern: `{pattern}`")),
    };
    let regex = built.map_err(wrong)?;
    let bytes = regex.memory_usage();
    Ok(CompiledPattern {
        regex,
        bytes,
        effort: (bytes + KEPT_OVERHEAD) as u64 + FOLDING_EFFORT * folded as u64,
    })
}

fn unicode_sets(pattern: &str) -> usize {
    pattern.matches("\\p").count() + pattern.matches("\\P").count()
}

/// The parts of a pattern without case that may stand for most characters: sets, and ranges that are not of ASCII.
fn folded_parts(pattern: &str) -> usize {
    let ignores_case = pattern
        .split("(?")
        .skip(1)
        .any(|group| group.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == 'i'));
    let only_ascii = pattern.is_ascii() && !pattern.contains("\\x") && unicode_sets(pattern) == 0;
    if ignores_case && !only_ascii { pattern.matches('-').count() + unicode_sets(pattern) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of 16 KB with 300 patterns took 300 MB and two seconds, and one of 1 MB twenty gigabytes.
    #[test]
    fn patterns_of_a_document_are_bounded_together() {
        let allowance = PatternAllowance::default();
        let large = |n: usize| format!("\\pL{{18}}{n}");
        let admitted = (0..1000).take_while(|n| allowance.admits(&large(*n))).count();
        assert!((10..100).contains(&admitted), "{admitted}");
        assert!(!allowance.admits("a"));
        let kept = KEPT.read().unwrap();
        assert!(kept.bytes <= MAX_KEPT_BYTES && !kept.patterns.is_empty());
    }

    #[test]
    fn patterns_of_many_documents_are_dropped_together() {
        for n in 0..3000 {
            assert!(CompiledPattern::of(&format!("kept{n}")).is_ok());
        }
        let kept = KEPT.read().unwrap();
        assert!(kept.bytes <= MAX_KEPT_BYTES && kept.patterns.len() <= MAX_KEPT_BYTES / KEPT_OVERHEAD);
    }

    /// A thousand ranges without case took five seconds.
    #[test]
    fn characters_without_case_are_bounded() {
        let range = "[a-\u{10ffff}]";
        assert!(compile(&format!("(?i){}", range.repeat(4))).is_ok());
        assert!(compile(&format!("(?i){}", range.repeat(1000))).is_err());
        assert!(compile(&format!("(?s-i:{})", "\\pL".repeat(400))).is_err());
        assert!(compile(&format!("(?i)^{}$", "[a-f0-9]-".repeat(40))).is_ok());
        assert!(compile(&"\\pL".repeat(MAX_UNICODE_SETS + 1)).is_err());
    }

    /// OpenShift's and HyperShift's definitions were refused, with a message that called this pattern wrong.
    #[test]
    fn host_names_in_any_script_are_a_pattern() {
        let label = r"[a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)";
        let part = r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63}";
        assert!(compile(&format!("^({label}|{part})$")).unwrap().is_match("www.example.com"));
        let error = compile(r"\pL{1000}").unwrap_err();
        assert!(error.to_string().contains("too large"), "{error}");
    }

    #[test]
    fn searches_count_as_much_as_the_pattern_is_large() {
        let (small, large) =
            (CompiledPattern::of("^[a-z]+$").unwrap(), CompiledPattern::of("a[ab]{900}[^ab]x").unwrap());
        assert!(small.search_work(1000) < 20_000 && large.search_work(1000) > 50_000);
    }
}
