//! [`ValueTransform`]: AES-GCM of single values, in kube-apiserver's format (`k8s:enc:aesgcm:v1:<key>:`).
//!
//! The storage key is authenticated with the value, so a ciphertext cannot be moved to another object. Nonces are
//! random, so a key must be rotated before they repeat: Kubernetes' documentation asks for it every 200,000 writes,
//! and the same holds here. The first provider encrypts, all decrypt; a value without the prefix is plain text from
//! before encryption was switched on. Which resources are concerned is [`super::config`].

use bytes::Bytes;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// The prefix of values encrypted this way; the name of the key and a colon follow.
const PREFIX: &str = "k8s:enc:aesgcm:v1:";

/// An AES-GCM key with its name, which is part of each stored value so that the right key is found again.
pub(super) struct EncryptionKey {
    /// The prefix of values that this key has encrypted, with its name.
    prefix: Vec<u8>,
    key: LessSafeKey,
}

impl std::fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("prefix", &String::from_utf8_lossy(&self.prefix)).finish_non_exhaustive()
    }
}

impl EncryptionKey {
    /// A key of 16 or 32 bytes.
    pub(super) fn new(name: &str, secret: &[u8]) -> Result<Self, String> {
        if name.is_empty() || name.contains(':') {
            return Err("a key needs a name without colons".to_owned());
        }
        let algorithm = match secret.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            length => return Err(format!("the key {name:?} has {length} bytes, not 16 or 32")),
        };
        let key =
            UnboundKey::new(algorithm, secret).map_err(|_| format!("the key {name:?} cannot be used"))?;
        Ok(Self { prefix: format!("{PREFIX}{name}:").into_bytes(), key: LessSafeKey::new(key) })
    }

    /// The storage key is authenticated with the value, so that no value can be moved to another place.
    fn seal(&self, place: &str, value: &[u8]) -> Result<Bytes, String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| "the system gives no random numbers".to_owned())?;
        let mut sealed = value.to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place.as_bytes()),
                &mut sealed,
            )
            .map_err(|_| "the value cannot be encrypted".to_owned())?;
        Ok([self.prefix.as_slice(), &nonce, &sealed].concat().into())
    }

    /// `None` if another key encrypted it, or if it was changed or moved.
    fn open(&self, place: &str, stored: &[u8]) -> Option<Bytes> {
        let (nonce, sealed) = stored.strip_prefix(self.prefix.as_slice())?.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut plain = sealed.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain.into())
    }
}

/// The providers of a resource: the first one encrypts, all of them decrypt. Removing a key makes values that it
/// encrypted unreadable, so rotate by adding the new key first.
#[doc(alias = "Transformer")]
#[derive(Debug)]
pub(super) struct ValueTransform {
    /// All keys; the first one encrypts.
    keys: Vec<EncryptionKey>,
    /// True if new values are stored in plain text.
    plain: bool,
}

impl ValueTransform {
    /// Encrypts with the first of `keys`, unless `plain`; decrypts with any of them.
    pub(super) fn new(keys: Vec<EncryptionKey>, plain: bool) -> Self {
        Self { keys, plain }
    }

    /// The value as it is stored.
    pub(super) fn store(&self, place: &str, value: Bytes) -> Result<Bytes, String> {
        match self.keys.first() {
            Some(key) if !self.plain => key.seal(place, &value),
            _ => Ok(value),
        }
    }

    /// Returns true if a value is stored as [`ValueTransform::store`] would store it.
    pub(super) fn is_current(&self, stored: &[u8]) -> bool {
        match self.keys.first() {
            Some(key) if !self.plain => stored.starts_with(&key.prefix),
            _ => !stored.starts_with(b"k8s:enc:"),
        }
    }

    /// Decrypts a stored value. One without a prefix is plain text, written before encryption was switched on.
    ///
    /// # Errors
    /// None of the keys can decrypt it.
    pub(super) fn read(&self, place: &str, stored: Bytes) -> Result<Bytes, String> {
        if !stored.starts_with(b"k8s:enc:") {
            return Ok(stored);
        }
        let opened = self.keys.iter().find_map(|key| key.open(place, &stored));
        opened.ok_or_else(|| format!("{place} cannot be decrypted: its key is not in the configuration"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, byte: u8) -> EncryptionKey {
        EncryptionKey::new(name, &[byte; 32]).unwrap()
    }

    #[test]
    fn a_value_is_read_with_its_key_at_its_place_only() {
        let transform = ValueTransform::new(vec![key("k1", 1)], false);
        let stored = transform.store("/a", "secret".into()).unwrap();
        assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:k1:"));
        assert!(!stored.windows(6).any(|window| window == b"secret"));
        assert_eq!(transform.read("/a", stored.clone()).unwrap(), "secret");
        assert!(transform.read("/b", stored.clone()).is_err(), "moved to another place");
        assert!(ValueTransform::new(vec![key("k1", 2)], false).read("/a", stored.clone()).is_err());
        let mut changed = stored.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        assert!(transform.read("/a", changed.into()).is_err());
        assert_ne!(transform.store("/a", "secret".into()).unwrap(), stored, "each time another nonce");
    }

    /// The new key is put first, everything is written again, the old key is removed.
    #[test]
    fn keys_are_rotated_one_after_the_other() {
        let old = ValueTransform::new(vec![key("k1", 1)], false).store("/a", "v".into()).unwrap();
        let both = ValueTransform::new(vec![key("k2", 2), key("k1", 1)], false);
        let new = both.store("/a", both.read("/a", old.clone()).unwrap()).unwrap();
        let after = ValueTransform::new(vec![key("k2", 2)], false);
        assert_eq!(after.read("/a", new).unwrap(), "v");
        assert!(after.read("/a", old).unwrap_err().contains("/a"));
    }

    #[test]
    fn values_from_before_are_read_and_identity_writes_them() {
        let off = ValueTransform::new(vec![key("k1", 1)], true);
        assert_eq!(off.store("/a", "v".into()).unwrap(), "v");
        assert_eq!(off.read("/a", "v".into()).unwrap(), "v");
    }
}
