//! [`TokenDigests`]: the keys of cached verdicts about tokens, which contain no token.
//!
//! A dump of the memory of the cache shows no credentials. Next: `auth/answers.rs`, the cache.

use ring::hmac;

use crate::auth::answers::Digest;

/// Makes digests with a random key of this process, so that those in a memory dump match no token elsewhere.
#[derive(Debug)]
pub(super) struct TokenDigests(hmac::Key);

impl TokenDigests {
    pub(super) fn new() -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>()))
    }

    /// The digest of a token for exactly these audiences.
    ///
    /// Each text is preceded by its length, so that no two lists of audiences have one digest.
    pub(super) fn of(&self, token: &str, audiences: &[&str]) -> Digest {
        let mut context = hmac::Context::with_key(&self.0);
        for text in std::iter::once(&token).chain(audiences) {
            context.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(text.as_bytes());
        }
        context.sign().as_ref().try_into().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_a_token_and_its_audiences() {
        let digests = TokenDigests::new();
        assert_eq!(digests.of("t", &["a"]), digests.of("t", &["a"]));
        for (token, audiences) in [("t", ["b"].as_slice()), ("ta", &[]), ("t", &["a", ""])] {
            assert_ne!(digests.of("t", &["a"]), digests.of(token, audiences));
        }
        assert_ne!(digests.of("t", &[]), TokenDigests::new().of("t", &[]));
    }
}
