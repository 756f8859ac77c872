//! The `Accept` header: its clauses in the client's order of preference. Pure.
//!
//! Read as kube-apiserver reads it, twice: a route of a built-in kind compares bare media types ([`is_produced`]), and
//! negotiation ([`super::negotiate`]) looks at clauses with their parameters ([`clauses`]). The two disagree about
//! `application/*` and `*`, which only the second knows.

use listwatch_wire::delta;

/// Clauses up to which their order is kube-apiserver's to the letter. Longer headers are sorted by quality alone.
const SORTED_BY_INSERTION: usize = 12;

/// One alternative of an `Accept` header.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptClause<'a> {
    main: &'a str,
    sub: &'a str,
    /// One unless `q` says otherwise, zero if that is not a number. Zero is not treated as a refusal, as in kube-apiserver.
    quality: f64,
    /// Set if any part of a transformation is named.
    pub(super) transform: Option<AcceptTransform<'a>>,
    /// The kind of stream; empty without one.
    pub(crate) stream: &'a str,
    /// The version of the server's own kinds; empty without one.
    pub(crate) server_version: &'a str,
    pub(super) pretty: bool,
    pub(super) delta: bool,
}

/// The kind that objects should be transformed to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcceptTransform<'a> {
    pub(super) kind: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
}

/// Returns true if the header names one of these media types, or any type at all. Parameters do not count.
pub(crate) fn is_produced(accept: &str, produced: &[&str]) -> bool {
    let bare = |clause: &str| clause.split(';').next().unwrap_or_default().trim_matches(' ').to_owned();
    accept.split(',').map(bare).any(|ty| ty == "*/*" || produced.contains(&ty.as_str()))
}

/// The clauses of a header, the preferred one first. What has no slash, or two, is left out.
pub(crate) fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let mut clauses: Vec<_> = accept.split(',').filter_map(AcceptClause::parse).collect();
    if clauses.len() > SORTED_BY_INSERTION {
        clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
        return clauses;
    }
    // Not a total order: a type that is spelled out precedes a wildcard of any quality.
    for end in 1..clauses.len() {
        for at in (1..=end).rev() {
            let [before, after] = clauses.get_mut(at - 1..=at).unwrap_or_default() else { break };
            if !after.precedes(before) {
                break;
            }
            std::mem::swap(before, after);
        }
    }
    clauses
}

impl<'a> AcceptClause<'a> {
    /// Parameters that are not known, have no value or two of them are ignored.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.trim_matches(' ').split(';');
        let media_type = parts.next()?;
        let (main, sub) = match media_type.split_once('/') {
            Some((_, sub)) if sub.is_empty() || sub.contains('/') => return None,
            Some((main, sub)) => (main.trim_matches(' '), sub.trim_matches(' ')),
            None if media_type.trim_matches(' ') == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self { main, sub, quality: 1.0, ..Self::default() };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            if !value.is_empty() && !value.contains('=') {
                clause.set(key.trim_matches(' '), value);
            }
        }
        Some(clause)
    }

    /// Reads a parameter of a media type. Unknown ones are ignored, and a quality that is not a number is zero, as in
    /// kube-apiserver.
    fn set(&mut self, key: &str, value: &'a str) {
        let text = value.trim_matches(' ');
        match key {
            "q" => self.quality = value.parse().unwrap_or(0.0),
            "as" => self.transform.get_or_insert_default().kind = text,
            "g" => self.transform.get_or_insert_default().group = text,
            "v" => self.transform.get_or_insert_default().version = text,
            "stream" => self.stream = text,
            "sv" => self.server_version = text,
            "delta" => self.delta = text == delta::PARAMETER,
            "pretty" => self.pretty = text == "1",
            _ => {}
        }
    }

    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.main != "*" && other.main == "*"
            || self.sub != "*" && other.sub == "*"
    }

    /// Kind, group and version of the transformation that the clause names.
    pub(crate) fn transform(&self) -> Option<(&'a str, &'a str, &'a str)> {
        self.transform.map(|transform| (transform.kind, transform.group, transform.version))
    }

    /// Returns true if the clause asks for neither a stream nor a version of the server.
    pub(crate) fn is_plain(&self) -> bool {
        self.stream.is_empty() && self.server_version.is_empty()
    }

    /// Returns true if the clause allows this media type, by name or by a wildcard.
    pub(crate) fn allows(&self, media_type: &str) -> bool {
        let Some((main, sub)) = media_type.split_once('/') else { return false };
        match (self.main, self.sub) {
            ("*", "*") => true,
            (ours, "*") => ours == main,
            ours => ours == (main, sub),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(accept: &str) -> Vec<String> {
        clauses(accept).iter().map(|clause| format!("{}/{}", clause.main, clause.sub)).collect()
    }

    #[test]
    fn quality_comes_first_and_wildcards_last() {
        assert_eq!(order("a/b;q=0.5, c/d;q=0.9"), ["c/d", "a/b"]);
        assert_eq!(order("a/b, c/d"), ["a/b", "c/d"]);
        assert_eq!(order("*/*, a/b;q=0.5"), ["a/b", "*/*"]);
        assert_eq!(order("a/b;q=x, c/d;q=0.1"), ["c/d", "a/b"]);
        assert_eq!(order("*, a, b/, c/d/e"), ["*/*"]);
        assert_eq!(order(&["a/b;q=0.1"; 20].join(",")).len(), 20);
    }

    #[test]
    fn a_route_knows_whole_types_and_the_wildcard_for_all() {
        let json = ["application/json"];
        assert!(is_produced("text/html, application/json;as=Table", &json));
        assert!(is_produced("*/*;q=0.1", &json));
        assert!(!is_produced("application/*, *, Application/JSON", &json));
    }

    #[test]
    fn parameters_without_a_value_or_with_two_are_ignored() {
        let one = |accept| clauses(accept).pop().unwrap();
        assert!(one("a/b;as=").transform.is_none());
        assert!(one("a/b;as=x=y").transform.is_none());
        assert_eq!(one("a/b;v=v1").transform.unwrap().version, "v1");
        assert_eq!(one("a/b;as=\"Table\"").transform.unwrap().kind, "\"Table\"");
    }
}
