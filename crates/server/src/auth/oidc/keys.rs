//! [`KeySet`]: the public keys of an issuer (JWKS), and verification of signatures with them. Pure.
//!
//! Algorithms are asymmetric only and allowed by configuration, never chosen by the token alone: `none` and HMAC do
//! not exist here, so a public key cannot be misused as a shared secret. A key that names an algorithm is used with
//! that one only. Keys of unknown types are skipped, because issuers publish keys for other purposes in the same
//! document. Fetching is [`super::refresh`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

/// Keys of a set that are looked at. Issuers have one to three.
const MAX_KEYS: usize = 100;

/// The signing algorithms that options may allow. All are asymmetric, so that a public key can never pass as a shared
/// secret.
pub(super) const ALGORITHMS: [&str; 8] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"];

/// The public keys of an issuer.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<OidcKey>,
}

/// A key that this server can verify with.
#[derive(Debug)]
struct OidcKey {
    id: String,
    /// The one algorithm it is for, if the key set names it.
    algorithm: Option<String>,
    material: Material,
}

/// A public key in the form that ring takes.
#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point, uncompressed.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// Keys stay JSON until each is read on its own, for the same reason.
#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

/// All fields are optional in JSON, so that a key of an unknown type is skipped and does not spoil the document.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct WebKey {
    kty: String,
    kid: String,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of other kinds, and for other uses, are passed over.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let keys = document.keys.into_iter().take(MAX_KEYS);
        let keys = keys.filter_map(|key| serde_json::from_value(key).ok()).filter_map(OidcKey::new);
        Ok(Self { keys: keys.collect() })
    }

    /// Returns true if one of the keys made this signature with this algorithm. A token that names no key may be of any.
    ///
    /// A token without a key ID is tried with every key, at most [`MAX_KEYS`] signatures.
    pub(super) fn verifies(&self, algorithm: &str, id: &str, message: &[u8], signature: &[u8]) -> bool {
        self.candidates(id).any(|key| key.verifies(algorithm, message, signature))
    }

    /// Returns true if the set has a key that a token names.
    pub(super) fn has(&self, id: &str) -> bool {
        self.candidates(id).next().is_some()
    }

    /// A token without a key id is tried with all keys.
    fn candidates<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a OidcKey> {
        self.keys.iter().filter(move |key| id.is_empty() || key.id == id)
    }
}

impl OidcKey {
    /// `None` for keys that are not for signatures or of a kind that is not supported.
    fn new(key: WebKey) -> Option<Self> {
        if key.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let material = match (key.kty.as_str(), key.crv.as_str()) {
            ("RSA", _) => Material::Rsa { n: decode(&key.n)?, e: decode(&key.e)? },
            ("EC", "P-256") => Material::P256(point(&key.x, &key.y, 32)?),
            ("EC", "P-384") => Material::P384(point(&key.x, &key.y, 48)?),
            _ => return None,
        };
        Some(Self { id: key.kid, algorithm: key.alg, material })
    }

    /// Verifies with the algorithm that the token names, if it fits the type of the key and the one that the key is
    /// for.
    fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.as_deref().is_some_and(|own| own != algorithm) {
            return false;
        }
        match (&self.material, algorithm) {
            (Material::Rsa { n, e }, _) => rsa(algorithm).is_some_and(|parameters| {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }),
            (Material::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            (Material::P384(point), "ES384") => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// The verification of an RSA algorithm. Keys below 2048 bits are refused by the parameters.
fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// A big number in base64url, without leading zeros.
fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    // Integers of DER have no leading zeros; some issuers send them.
    let start = bytes.iter().position(|byte| *byte != 0)?;
    bytes.get(start..).map(<[u8]>::to_vec)
}

/// Coordinates are padded to their full length, because encoders drop leading zeros.
fn point(x: &str, y: &str, size: usize) -> Option<Vec<u8>> {
    let mut point = vec![4];
    for part in [x, y] {
        let part = decode(part)?;
        point.resize(point.len() + size.checked_sub(part.len())?, 0);
        point.extend(part);
    }
    Some(point)
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    fn pair() -> (EcdsaKeyPair, serde_json::Value) {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
        let point = pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        let key = serde_json::json!({"kty": "EC", "crv": "P-256", "kid": "a", "use": "sig", "x": x, "y": y});
        (pair, key)
    }

    #[test]
    fn a_signature_is_known_by_its_key_and_algorithm_only() {
        let (pair, key) = pair();
        let set = KeySet::parse(
            serde_json::json!({"keys": [key, {"kty": "oct", "k": "x"}, 5]}).to_string().as_bytes(),
        );
        let set = set.unwrap();
        let signature = pair.sign(&SystemRandom::new(), b"text").unwrap();
        assert!(set.verifies("ES256", "a", b"text", signature.as_ref()));
        assert!(set.verifies("ES256", "", b"text", signature.as_ref()), "a token may name no key");
        for (algorithm, id, message) in [
            ("ES256", "b", "text"),
            ("ES256", "a", "test"),
            ("ES384", "a", "text"),
            ("RS256", "a", "text"),
            ("HS256", "a", "text"),
            ("none", "a", "text"),
        ] {
            assert!(!set.verifies(algorithm, id, message.as_bytes(), signature.as_ref()), "{algorithm} {id}");
        }
        assert!(!set.verifies("ES256", "a", b"text", b""));
        assert!(set.has("a") && !set.has("b"));
    }

    /// Made with OpenSSL: a modulus, and the signatures of `text` with RS256 and PS256.
    const MODULUS: &str = "jLCg2_aSkKBPGnweL2Q0H0QXakgckNlQ2cyzEqnMJpB_dTfAElVDfz4g_R9VpBMf9qWmEpUf3ji0SxBUMCab7x6XdpRTZDMi9p4u\
        iK0hHiEzx-UFRZlRV-ndPI6jTb1PHkqTsr2K9l17zGX6YkqqzGyYNC3_qqdvCZwD7JXiL3_5Oeru5kIbnCTDIkvXpqi3itnFH34T\
        MiP1lpHYpjQ_Fw4vpi04ggDPLZRcbrBkY-QHy93gFL0m_wnoPOWXAPdCanatWyBMhxTpg8xDqHX6rvYVHmZaFH1ewicSsG0grh6K\
        MyIxS58mH8efXSLhI7LoP4JcSujWEnPazLatHBXN6w";
    const RS256: &str = "Nlvx0M5s3YmexrYG5sHZfHiB0_dQbrytz0OcvaTeUYayrUSLjzsEua_lzLeazHg3JI1z4GOBojEUbuii34QdJgYPujWpd7y66mam\
        cIPC0AIAFusGlY9-TOUb5OrtjRMuHVKqi6GIciFOySvvx3wHd2s4gaP5HIAnRVg8ZYpOfWEHIHgo40hei2Hb4tXbCwOLotPUhmhR\
        xyxMs44XMJKGslh3AEOFsfkVhUXMxllIu7rCvCiwoFOh9dbKtgUrfbEXgY5Yw9dLbdrvqnVX5OYsf2okSNEefJxgUJXr7PN5Ovit\
        QpjcQGNyekZOerTkr3botsMnOUbWLnDqBclrDt9dvQ";
    const PS256: &str = "FgcLtf7PNH1R257rBwyRGqgYuvo2V-wIXq2D-YDg74L3Wu_rcMs8uGezZ9Zu9T8-M2jxnebZ5fhXdLQYRLevx4ean9SgJ-yjZzMQ\
        mqbqqjcmwFuRO_0IMYGho1Vw7Hy2Bbi8TH7DxjuZqaYMXNfF7t8BxCPs2P6OktVx8fyPhoxNtAoHgnbDun4vlK4xnt3GW2h4e19v\
        11i8VYQ3Pkfl0dayF7DAiPpaBjO1OZNNBf1IvWPjJ19LjtCWnkaDIZ9EzW7tBH6uAybDRuzjobuHn-n6xIr2O5Ge-woKiBI9LnW1\
        auh5E_iL_0ltO2rXA5IP2dHK_-_H72YhxokRUxDAPg";

    #[test]
    fn rsa_signatures_are_known_by_their_padding() {
        let keys = serde_json::json!({"keys": [{"kty": "RSA", "kid": "r", "e": "AQAB", "n": MODULUS}]});
        let set = KeySet::parse(keys.to_string().as_bytes()).unwrap();
        let [pkcs1, pss] = [RS256, PS256].map(|text| URL_SAFE_NO_PAD.decode(text).unwrap());
        assert!(set.verifies("RS256", "r", b"text", &pkcs1) && set.verifies("PS256", "r", b"text", &pss));
        assert!(!set.verifies("PS256", "r", b"text", &pkcs1) && !set.verifies("RS256", "r", b"text", &pss));
        assert!(!set.verifies("RS512", "r", b"text", &pkcs1) && !set.verifies("RS256", "r", b"test", &pkcs1));
        assert!(!set.verifies("ES256", "r", b"text", &pkcs1));
    }

    #[test]
    fn keys_for_encryption_are_not_for_signatures() {
        let (_, mut key) = pair();
        key["use"] = "enc".into();
        let set = KeySet::parse(serde_json::json!({"keys": [key]}).to_string().as_bytes()).unwrap();
        assert!(!set.has("a"));
        assert!(KeySet::parse(b"{}").is_err() && KeySet::parse(b"[").is_err());
    }
}
