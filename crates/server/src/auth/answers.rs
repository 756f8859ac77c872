//! [`Answers`]: the cache of a webhook's verdicts. Bounded, and without what was asked.
//!
//! Keys are digests. Positive and negative verdicts have separate tables: a client that invents tokens or names fills the second
//! and cannot evict those of others. When a table is full, by number or by bytes, after expired entries are removed, it is
//! cleared; the cost is one call per question. The token webhook and authorization webhooks keep their verdicts here, and
//! that of image policies (`admission/image_policy_webhook.rs`).

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A question to a webhook, as a digest: the question itself is not kept.
pub(crate) type Digest = [u8; 32];

/// The verdict of a webhook.
pub(crate) trait CachedVerdict: Clone {
    /// True for verdicts that let users in: they are kept apart from the others.
    fn is_positive(&self) -> bool;

    /// The bytes of its texts.
    fn bytes(&self) -> usize;
}

/// Verdicts of a webhook until they expire, at most `bound` of each sort with `bytes` bytes.
#[doc(alias = "cachedTokenAuthenticator")]
#[derive(Debug)]
pub(crate) struct Answers<V> {
    /// The most verdicts in each table.
    bound: usize,
    /// The most bytes of verdicts in each table.
    bytes: usize,
    /// Positive verdicts, and negative ones in a table of their own.
    positive: Mutex<Remembered<V>>,
    negative: Mutex<Remembered<V>>,
}

/// The verdicts of a table.
#[derive(Debug)]
struct Remembered<V> {
    verdicts: HashMap<Digest, (V, Instant)>,
    /// The bytes of all verdicts.
    bytes: usize,
}

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self { verdicts: HashMap::new(), bytes: 0 }
    }
}

impl<V: CachedVerdict> Remembered<V> {
    fn remove(&mut self, digest: &Digest) {
        if let Some((verdict, _)) = self.verdicts.remove(digest) {
            self.bytes = self.bytes.saturating_sub(verdict.bytes());
        }
    }

    fn insert(&mut self, digest: Digest, verdict: V, until: Instant) {
        self.bytes += verdict.bytes();
        self.verdicts.insert(digest, (verdict, until));
    }

    /// Removes expired verdicts.
    fn expire(&mut self, now: Instant) {
        self.verdicts.retain(|_, (_, until)| now < *until);
        self.bytes = self.verdicts.values().map(|(verdict, _)| verdict.bytes()).sum();
    }
}

impl<V: CachedVerdict> Answers<V> {
    pub(crate) fn new(bound: usize, bytes: usize) -> Self {
        Self { bound: bound.max(1), bytes, positive: Mutex::default(), negative: Mutex::default() }
    }

    /// Returns the verdict on a question, if it has not expired.
    pub(crate) fn get(&self, digest: &Digest, now: Instant) -> Option<V> {
        [&self.positive, &self.negative].into_iter().find_map(|remembered| {
            let remembered = remembered.lock();
            let (verdict, until) = remembered.verdicts.get(digest)?;
            (now < *until).then(|| verdict.clone())
        })
    }

    /// Keeps a verdict until a time. A question whose verdict changes sides leaves the other table.
    ///
    /// A full table costs a pass over it for each new question until entries expire or it is cleared, at most `bound`
    /// entries.
    pub(crate) fn put(&self, digest: Digest, verdict: V, until: Instant) {
        let (this, other) = match verdict.is_positive() {
            true => (&self.positive, &self.negative),
            false => (&self.negative, &self.positive),
        };
        other.lock().remove(&digest);
        let mut remembered = this.lock();
        remembered.remove(&digest);
        let is_full = |remembered: &Remembered<V>| {
            remembered.verdicts.len() >= self.bound || remembered.bytes + verdict.bytes() > self.bytes
        };
        if is_full(&remembered) {
            remembered.expire(Instant::now());
        }
        if is_full(&remembered) {
            // Each answer that is dropped costs one more request to the webhook.
            *remembered = Remembered::default();
        }
        remembered.insert(digest, verdict, until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl CachedVerdict for Result<(), String> {
        fn is_positive(&self) -> bool {
            self.is_ok()
        }

        fn bytes(&self) -> usize {
            self.as_ref().err().map_or(0, String::len)
        }
    }

    fn digest(number: u16) -> Digest {
        let mut digest = Digest::default();
        digest[..2].copy_from_slice(&number.to_be_bytes());
        digest
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_until_its_time() {
        let answers = Answers::new(10, 1 << 20);
        answers.put(digest(1), Ok(()), Instant::now() + Duration::from_secs(10));
        assert!(answers.get(&digest(1), Instant::now()).is_some());
        assert!(answers.get(&digest(2), Instant::now()).is_none());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(answers.get(&digest(1), Instant::now()).is_none());
    }

    /// Made-up tokens must not push out those that are good.
    #[tokio::test(start_paused = true)]
    async fn negative_verdicts_evict_only_each_other() {
        let answers = Answers::new(10, 1 << 20);
        let until = Instant::now() + Duration::from_secs(10);
        answers.put(digest(9999), Ok(()), until);
        for number in 0..1000 {
            answers.put(digest(number), Err(String::new()), until);
        }
        assert!(answers.negative.lock().verdicts.len() <= 10);
        assert!(answers.get(&digest(9999), Instant::now()).is_some());
    }

    /// The table had a bound on its entries only: with errors of a megabyte it could grow to 16 GB.
    #[tokio::test(start_paused = true)]
    async fn long_cached_answers_evict_only_each_other() {
        let answers = Answers::<Result<(), String>>::new(1000, 10_000);
        let until = Instant::now() + Duration::from_secs(10);
        for number in 0..100 {
            answers.put(digest(number), Err("x".repeat(999)), until);
            answers.put(digest(number), Err("x".repeat(1000)), until);
            assert!(answers.get(&digest(number), Instant::now()).is_some());
        }
        let kept = answers.negative.lock();
        assert_eq!((kept.verdicts.len(), kept.bytes), (10, 10_000));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_answer_counts() {
        let answers = Answers::new(10, 1 << 20);
        let until = Instant::now() + Duration::from_secs(10);
        answers.put(digest(1), Ok(()), until);
        answers.put(digest(1), Err("revoked".to_owned()), until);
        assert!(answers.get(&digest(1), Instant::now()).unwrap().is_err());
    }
}
