//! [`Answers`]: the cache of the token webhook's verdicts. Bounded, and without the tokens themselves.
//!
//! Keys are HMACs with a random key of this process, so that a memory dump has no usable tokens. Accepted and rejected
//! tokens have separate tables: a client that invents tokens fills the second and cannot evict known users. When a
//! table is full, by number or by bytes, after expired entries are removed, it is cleared; the cost is one call per token. The
//! calls are made by [`super::TokenWebhook`].

use std::collections::HashMap;

use parking_lot::Mutex;
use ring::hmac;
use tokio::time::Instant;

use super::TokenVerdict;

/// A token and audiences, as a digest: the token itself is not kept.
type Digest = [u8; 32];

/// Verdicts of the webhook until they expire, at most `bound` of each sort with `bytes` bytes.
#[doc(alias = "cachedTokenAuthenticator")]
#[derive(Debug)]
pub(super) struct Answers {
    /// A random key of this process, so that digests in a memory dump match no token elsewhere.
    key: hmac::Key,
    /// The most verdicts in each table.
    bound: usize,
    /// The most bytes of verdicts in each table.
    bytes: usize,
    /// Accepted tokens, and rejected ones in a table of their own.
    known: Mutex<Remembered>,
    unknown: Mutex<Remembered>,
}

/// The verdicts of a table.
#[derive(Debug, Default)]
struct Remembered {
    /// By the digest of the token: the token itself is not kept.
    verdicts: HashMap<Digest, (TokenVerdict, Instant)>,
    /// The bytes of all verdicts.
    bytes: usize,
}

impl Remembered {
    fn remove(&mut self, digest: &Digest) {
        if let Some((verdict, _)) = self.verdicts.remove(digest) {
            self.bytes = self.bytes.saturating_sub(bytes(&verdict));
        }
    }

    fn insert(&mut self, digest: Digest, verdict: TokenVerdict, until: Instant) {
        self.bytes += bytes(&verdict);
        self.verdicts.insert(digest, (verdict, until));
    }

    /// Removes expired verdicts.
    fn expire(&mut self, now: Instant) {
        self.verdicts.retain(|_, (_, until)| now < *until);
        self.bytes = self.verdicts.values().map(|(verdict, _)| bytes(verdict)).sum();
    }
}

/// The bytes of the texts of a verdict.
fn bytes(verdict: &TokenVerdict) -> usize {
    let (user, audiences) = match verdict {
        Ok(accepted) => accepted,
        Err(why) => return why.len(),
    };
    let all = |texts: &[String]| texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
    let extra: usize = user.extra.iter().map(|(key, values)| key.len() + all(values)).sum();
    user.name.len() + user.uid.len() + all(&user.groups) + extra + all(audiences)
}

impl Answers {
    pub(super) fn new(bound: usize, bytes: usize) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        Self { key, bound: bound.max(1), bytes, known: Mutex::default(), unknown: Mutex::default() }
    }

    /// Returns the verdict about a token for exactly these audiences, if it has not expired.
    pub(super) fn get(&self, token: &str, audiences: &[&str], now: Instant) -> Option<TokenVerdict> {
        let digest = self.digest(token, audiences);
        [&self.known, &self.unknown].into_iter().find_map(|remembered| {
            let remembered = remembered.lock();
            let (verdict, until) = remembered.verdicts.get(&digest)?;
            (now < *until).then(|| verdict.clone())
        })
    }

    /// Keeps a verdict until a time. A token is in one of the two tables only.
    ///
    /// A full table costs a pass over it for each new token until entries expire or it is cleared, at most `bound`
    /// entries.
    pub(super) fn put(&self, token: &str, audiences: &[&str], verdict: TokenVerdict, until: Instant) {
        let digest = self.digest(token, audiences);
        let (this, other) = match verdict {
            Ok(_) => (&self.known, &self.unknown),
            Err(_) => (&self.unknown, &self.known),
        };
        other.lock().remove(&digest);
        let mut remembered = this.lock();
        remembered.remove(&digest);
        let is_full = |remembered: &Remembered| {
            remembered.verdicts.len() >= self.bound || remembered.bytes + bytes(&verdict) > self.bytes
        };
        if is_full(&remembered) {
            remembered.expire(Instant::now());
        }
        if is_full(&remembered) {
            // Each response that is dropped costs one more request to the webhook.
            *remembered = Remembered::default();
        }
        remembered.insert(digest, verdict, until);
    }

    /// Each text is preceded by its length, so that no two lists of audiences have one digest.
    fn digest(&self, token: &str, audiences: &[&str]) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        for text in std::iter::once(&token).chain(audiences) {
            context.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(text.as_bytes());
        }
        context.sign().as_ref().try_into().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::auth::User;

    fn yes() -> TokenVerdict {
        Ok((Arc::new(User::default()), Vec::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_until_its_time_and_for_its_audiences() {
        let answers = Answers::new(10, 1 << 20);
        answers.put("t", &["a"], yes(), Instant::now() + Duration::from_secs(10));
        assert!(answers.get("t", &["a"], Instant::now()).is_some());
        assert!(answers.get("t", &["b"], Instant::now()).is_none());
        assert!(answers.get("ta", &[], Instant::now()).is_none());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(answers.get("t", &["a"], Instant::now()).is_none());
    }

    /// Invalid tokens must not evict valid ones.
    #[tokio::test(start_paused = true)]
    async fn invalid_tokens_evict_only_each_other() {
        let answers = Answers::new(10, 1 << 20);
        let until = Instant::now() + Duration::from_secs(10);
        answers.put("good", &[], yes(), until);
        for number in 0..1000 {
            answers.put(&format!("bad{number}"), &[], Err(String::new()), until);
        }
        assert!(answers.unknown.lock().verdicts.len() <= 10);
        assert!(answers.get("good", &[], Instant::now()).is_some());
    }

    /// The table had a bound on its entries only: with errors of a megabyte it could grow to 16 GB.
    #[tokio::test(start_paused = true)]
    async fn long_cached_answers_evict_only_each_other() {
        let answers = Answers::new(1000, 10_000);
        let until = Instant::now() + Duration::from_secs(10);
        for number in 0..100 {
            answers.put(&number.to_string(), &[], Err("x".repeat(999)), until);
            answers.put(&number.to_string(), &[], Err("x".repeat(1000)), until);
            assert!(answers.get(&number.to_string(), &[], Instant::now()).is_some());
        }
        let kept = answers.unknown.lock();
        assert_eq!((kept.verdicts.len(), kept.bytes), (10, 10_000));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_answer_counts() {
        let answers = Answers::new(10, 1 << 20);
        let until = Instant::now() + Duration::from_secs(10);
        answers.put("t", &[], yes(), until);
        answers.put("t", &[], Err("revoked".to_owned()), until);
        assert!(answers.get("t", &[], Instant::now()).unwrap().is_err());
    }
}
