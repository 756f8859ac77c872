//! Service account tokens as JSON Web Tokens: ES256 (ECDSA on P-256), the one algorithm this server signs with and
//! accepts.
//!
//! Own code on `ring` instead of a JWT library because the algorithm is pinned: a token cannot choose `none` or an
//! HMAC keyed with a public key. The key ID is a hash of the public key, so a token names its key and rotation needs
//! no configuration. Verification checks the signature only; expiry, audience and bound objects are
//! `service_account`'s.
//!
//! Tokens of other issuers are verified in `oidc` with the algorithms that are configured there. Public keys are
//! served by `endpoints/openid.rs`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use listwatch_wire::json::{Value, json};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The longest token that is looked at, in bytes. Tokens of this server have about 1 KB; a request head may have 64
/// KB.
const MAX_BYTES: usize = 16 << 10;

/// Bytes of a point of P-256: a four and two coordinates.
const POINT: usize = 65;

/// The private key that signs tokens of service accounts. Its `Debug` shows the key ID only.
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    verifying: VerifyingKey,
    random: SystemRandom,
}

/// A public key that tokens are verified with: that of the signing key, or of one that signed before a rotation.
#[derive(Clone, Debug)]
pub(crate) struct VerifyingKey {
    /// The key ID (`kid`) that each token names, so that verifiers find the key among several.
    id: String,
    /// The public point, uncompressed.
    point: Vec<u8>,
}

/// The header of a token. Other fields, such as `typ`, are ignored, and so is the key ID: kube-controller-manager, which signs
/// with the key of this server, computes another one.
#[derive(Serialize, Deserialize)]
struct JwtHeader {
    alg: String,
    #[serde(default)]
    kid: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.verifying.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// A new private key in PEM.
    pub(crate) fn make_pem() -> Result<String, String> {
        rcgen::KeyPair::generate().map(|pair| pair.serialize_pem()).map_err(|error| error.to_string())
    }

    /// Reads a private key: P-256, PKCS#8, PEM.
    ///
    /// # Errors
    ///
    /// A message for the operator, without any part of the key.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, String> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_der(), &random)
            .map_err(|error| format!("not a P-256 key in PKCS#8: {error}"))?;
        let verifying = VerifyingKey::new(pair.public_key().as_ref().to_vec());
        Ok(Self { pair, verifying, random })
    }

    /// The public half as a JSON Web Key.
    pub(crate) fn public(&self) -> Value {
        self.verifying.public()
    }

    /// Returns a signed token with these claims.
    ///
    /// # Errors
    /// The claims cannot be encoded, or the system has no randomness.
    pub(crate) fn sign(&self, claims: &impl Serialize) -> Result<String, String> {
        let header = JwtHeader { alg: "ES256".to_owned(), kid: self.verifying.id.clone() };
        let mut token = format!("{}.{}", part(&header)?, part(claims)?);
        let signature = self.pair.sign(&self.random, token.as_bytes());
        let signature = signature.map_err(|_| "the system gives no random numbers".to_owned())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// Returns the claims of a token, if this key signed it.
    pub(crate) fn verify<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        self.verifying.verify(token)
    }
}

impl VerifyingKey {
    /// Reads a key: P-256, PEM; private (PKCS#8) or public.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, String> {
        if let Ok(private) = SigningKey::from_pem(pem) {
            return Ok(private.verifying);
        }
        let der =
            SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
        let (_, info) = SubjectPublicKeyInfo::from_der(&der).map_err(|error| error.to_string())?;
        let point = info.subject_public_key.data.to_vec();
        if point.len() != POINT || point.first() != Some(&4) {
            return Err("not a P-256 key".to_owned());
        }
        Ok(Self::new(point))
    }

    /// The ID is the SHA-256 of the public point. Equal keys have equal IDs in all replicas, without any agreement.
    fn new(point: Vec<u8>) -> Self {
        Self { id: URL_SAFE_NO_PAD.encode(Sha256::digest(&point)), point }
    }

    /// A JSON Web Key: the two coordinates of a point.
    pub(crate) fn public(&self) -> Value {
        let part =
            |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(self.point.get(range).unwrap_or_default());
        let (x, y) = (part(1..33), part(33..65));
        json!({"use": "sig", "kty": "EC", "kid": &*self.id, "crv": "P-256", "alg": "ES256", "x": x, "y": y})
    }

    /// Returns the claims of a token, if this key signed it.
    ///
    /// The claims are parsed after the signature was verified, so that unsigned input never reaches that parser.
    pub(crate) fn verify<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: JwtHeader = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        // The algorithm is fixed: a token must not choose it.
        if header.alg != "ES256" {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point);
        public.verify(signed.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

fn part(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_vec(value).map(|json| URL_SAFE_NO_PAD.encode(json)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::{Value, json};

    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_pem(&SigningKey::make_pem().unwrap()).unwrap()
    }

    #[test]
    fn only_tokens_signed_with_the_key_are_accepted() {
        let (ours, other) = (key(), key());
        let token = ours.sign(&json!({"sub": "me"})).unwrap();
        assert_eq!(ours.verify::<Value>(&token), Some(json!({"sub": "me"})));
        assert_eq!(other.verify::<Value>(&token), None);
    }

    #[test]
    fn tampered_tokens_are_rejected() {
        let key = key();
        let token = key.sign(&json!({"sub": "me"})).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let you = part(&json!({"sub": "you"})).unwrap();
        let none = part(&json!({"alg": "none", "kid": key.verifying.id})).unwrap();
        for wrong in [
            format!("{}.{you}.{}", parts[0], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            token[..token.len() - 2].to_owned(),
            String::new(),
            "..".to_owned(),
            ".".repeat(MAX_BYTES + 1),
        ] {
            assert_eq!(key.verify::<Value>(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_invalid_key_is_refused() {
        assert!(SigningKey::from_pem("").is_err());
        let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(SigningKey::from_pem(garbage).unwrap_err().contains("P-256"));
    }

    proptest::proptest! {
        /// A token with any byte changed, cut or added is rejected.
        #[test]
        fn any_changed_byte_of_a_token_is_rejected(at in proptest::prelude::any::<proptest::sample::Index>(), byte in 32u8..127) {
            static KEY: std::sync::LazyLock<SigningKey> =
                std::sync::LazyLock::new(|| SigningKey::from_pem(&SigningKey::make_pem().unwrap()).unwrap());
            let token = KEY.sign(&json!({"sub": "somebody"})).unwrap();
            let at = at.index(token.len());
            let mut changed = token.clone().into_bytes();
            changed[at] = byte;
            let changed = String::from_utf8(changed).unwrap();
            for other in [&changed, &token[..at], &format!("{token}{}", char::from(byte))] {
                proptest::prop_assert!(other == token || KEY.verify::<Value>(other).is_none(), "{other}");
            }
        }
    }
}
