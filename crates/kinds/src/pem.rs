//! [`PemBlock`]: the blocks of a PEM text, as Go's `encoding/pem` finds them.
//!
//! Contents are decoded and not interpreted: which blocks are allowed, and of what, is for the rules that read them
//! ([`crate::validate`]).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block of PEM.
pub(crate) struct PemBlock<'a> {
    pub(crate) kind: &'a str,
    body: &'a str,
}

impl PemBlock<'_> {
    /// The contents, without headers; `None` if they are not in base64.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let body = self
            .body
            .rsplit_once(':')
            .map_or(self.body, |(_, rest)| rest.split_once("\n\n").map_or(rest, |(_, body)| body));
        STANDARD.decode(body.chars().filter(|letter| !letter.is_whitespace()).collect::<String>()).ok()
    }

    pub(crate) fn has_headers(&self) -> bool {
        self.body.contains(':')
    }
}

/// The blocks of a text. What is between them is for people.
pub(crate) fn blocks(text: &str) -> Vec<PemBlock<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, begun)) = rest.split_once("-----BEGIN ") {
        let block = begun.split_once("-----").and_then(|(kind, after)| {
            let (body, after) = after.split_once("-----END ")?;
            Some((PemBlock { kind, body }, after))
        });
        let Some((block, after)) = block else { break };
        found.push(block);
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_a_kind_headers_and_contents() {
        let text = "for people\n-----BEGIN A-----\nAQI=\n-----END A-----\n-----BEGIN B-----\nk: v\n\nAw==\n-----END B-----\n";
        let found: Vec<_> =
            blocks(text).iter().map(|b| (b.kind.to_owned(), b.has_headers(), b.bytes())).collect();
        assert_eq!(found, [("A".to_owned(), false, Some(vec![1, 2])), ("B".to_owned(), true, Some(vec![3]))]);
        assert!(blocks("-----BEGIN A-----\nAQI=").is_empty());
    }
}
