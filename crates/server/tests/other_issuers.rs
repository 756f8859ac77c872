//! Authentication by OpenID Connect tokens and by the token webhook, both over real HTTPS.

#![cfg(test)]

mod common;
#[path = "common/https.rs"]
mod https;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{Client, eventually_async, start_on};
use https::{Https, Reply};
use hyper::body::Incoming;
use listwatch_server::auth::{OidcIssuer, ReviewVersion, TokenWebhookOptions};
use listwatch_server::{Handle, IdentityOptions, Options};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Answers requests over HTTPS: a path and a body to a status and a body.
type Answer = Arc<dyn Fn(&str, &str) -> (u16, Value) + Send + Sync>;

/// An HTTPS server; its URL and the CA that vouches for it.
async fn https(answer: impl FnOnce(&str) -> Answer) -> (String, String) {
    // What it answers names its URL, which is known once it runs.
    let answers: Arc<OnceLock<Answer>> = Arc::default();
    let known = Arc::clone(&answers);
    let server = Https::start(&["localhost"], None, move |request| reply(request, Arc::clone(&known))).await;
    let url = format!("https://localhost:{}", server.port);
    assert!(answers.set(answer(&url)).is_ok());
    (url, String::from_utf8(STANDARD.decode(server.ca).unwrap()).unwrap())
}

async fn reply(request: http::Request<Incoming>, answers: Arc<OnceLock<Answer>>) -> Reply {
    let path = request.uri().to_string();
    let body = https::body(request).await;
    let (status, body) = answers.get().unwrap()(&path, std::str::from_utf8(&body).unwrap());
    https::json(status, &body)
}

/// A key of an issuer.
struct Key {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
        Self { id, pair }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "alg": "ES256", "use": "sig", "x": x, "y": y})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.id}), claims)
    }
}

/// An issuer, the keys that it shows, and how often it was asked for them.
struct Issuer {
    url: String,
    ca: String,
    keys: Arc<Mutex<Vec<Value>>>,
    asked: Arc<AtomicUsize>,
}

async fn issuer(keys: Vec<Value>) -> Issuer {
    let (keys, asked) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
    let (shown, count) = (Arc::clone(&keys), Arc::clone(&asked));
    let (url, ca) = https(|url| {
        let url = url.to_owned();
        Arc::new(move |path, _| match path {
            "/.well-known/openid-configuration" => {
                (200, json!({"issuer": url, "jwks_uri": format!("{url}/keys")}))
            }
            "/keys" => {
                count.fetch_add(1, Ordering::SeqCst);
                (200, json!({"keys": *shown.lock()}))
            }
            _ => (404, Value::Null),
        })
    })
    .await;
    Issuer { url, ca, keys, asked }
}

impl Issuer {
    fn options(&self) -> OidcIssuer {
        OidcIssuer {
            ca: self.ca.clone(),
            username_prefix: "oidc:".to_owned(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "oidc:".to_owned(),
            algorithms: vec!["ES256".to_owned()],
            ..OidcIssuer::new(&self.url, "client")
        }
    }

    fn claims(&self) -> Value {
        let now = jiff::Timestamp::now().as_second();
        json!({"iss": self.url, "aud": "client", "sub": "jane", "groups": ["devs"], "iat": now, "exp": now + 600})
    }
}

async fn believing(identity: IdentityOptions) -> Handle {
    start_on(Options { identity, ..Options::default() }).await
}

/// Status, user and groups in the server's response to the bearer of a token.
async fn who(server: &Handle, token: &str) -> (u16, String, String) {
    let mut client = Client::new(server).await.with_token(token);
    let answer = client.call("POST", WHO, Some(&json!({}))).await;
    let user = answer.json()["status"]["userInfo"].clone();
    let groups =
        user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    (answer.status, user["username"].as_str().unwrap_or_default().to_owned(), groups.join(","))
}

#[tokio::test]
async fn a_token_of_an_issuer_is_a_user_and_nothing_else_is() {
    let (key, stranger) = (Key::new("a"), Key::new("a"));
    let issuer = issuer(vec![key.public()]).await;
    let oidc = vec![issuer.options()];
    let server = believing(IdentityOptions { oidc, ..IdentityOptions::default() }).await;
    let claims = issuer.claims();
    let jane = (201, "oidc:jane".to_owned(), "oidc:devs,system:authenticated".to_owned());
    assert_eq!(who(&server, &key.token(&claims)).await, jane);
    let changed = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        claims
    };
    let header = |header: Value| key.sign(&header, &claims);
    let good = key.token(&claims);
    let (rest, _) = good.rsplit_once('.').unwrap();
    for (token, why) in [
        (stranger.token(&claims), "signed by another"),
        (key.token(&changed("exp", json!(5))), "expired"),
        (key.token(&changed("aud", json!("other"))), "for others"),
        (key.token(&changed("iss", json!("https://else"))), "of another issuer"),
        (key.token(&changed("nbf", json!(i64::from(u32::MAX)))), "not yet"),
        (header(json!({"alg": "none", "kid": "a"})), "no algorithm"),
        (header(json!({"alg": "HS256", "kid": "a"})), "a shared secret"),
        (header(json!({"alg": "RS256", "kid": "a"})), "an algorithm that is not allowed"),
        (header(json!({"alg": "ES256", "kid": "../a"})), "an unknown key"),
        (header(json!({"alg": "ES256", "kid": "a", "crit": ["exp"]})), "an extension that is not understood"),
        (format!("{rest}."), "no signature"),
        (format!("{good}."), "a part too many"),
        (rest.to_owned(), "a part too few"),
    ] {
        assert_eq!(who(&server, &token).await.0, 401, "{why}");
    }
    // A token names no key: those that the issuer has are tried.
    assert_eq!(who(&server, &header(json!({"alg": "ES256"}))).await, jane);
    let review = json!({"spec": {"token": good}});
    let answer = Client::new(&server).await.call("POST", REVIEWS, Some(&review)).await.json();
    assert_eq!(answer["status"]["user"]["username"], "oidc:jane");
    let review = json!({"spec": {"token": good, "audiences": ["vault"]}});
    let answer = Client::new(&server).await.call("POST", REVIEWS, Some(&review)).await.json();
    assert_eq!(answer["status"]["authenticated"], Value::Null, "for this server only");
}

/// A key rotation of an issuer must not lock users out, and invented keys must not make the server call the issuer each
/// time.
#[tokio::test]
async fn a_new_key_is_fetched_when_it_is_used_but_not_too_often() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let issuer = issuer(vec![old.public()]).await;
    let oidc = vec![issuer.options()];
    let server = believing(IdentityOptions { oidc, ..IdentityOptions::default() }).await;
    assert_eq!(who(&server, &old.token(&issuer.claims())).await.0, 201);
    let asked = issuer.asked.load(Ordering::SeqCst);
    let made_up = Key::new("made-up");
    for _ in 0..50 {
        assert_eq!(who(&server, &made_up.token(&issuer.claims())).await.0, 401);
    }
    assert_eq!(issuer.asked.load(Ordering::SeqCst), asked, "it has just been asked");
    *issuer.keys.lock() = vec![new.public()];
    let (fresh, stale) = (new.token(&issuer.claims()), old.token(&issuer.claims()));
    eventually_async("the new key is known", async || who(&server, &fresh).await.0 == 201).await;
    assert_eq!(who(&server, &stale).await.0, 401, "what the old key signed is no longer believed");
    assert!(issuer.asked.load(Ordering::SeqCst) <= asked + 2);
}

/// A server must start, and serve those whom it knows, when an issuer cannot be reached.
#[tokio::test]
async fn an_unreachable_issuer_does_not_block_other_users() {
    let key = Key::new("a");
    let issuer = issuer(Vec::new()).await;
    let options = OidcIssuer { ca: issuer.ca.clone(), ..OidcIssuer::new("https://127.0.0.1:1", "client") };
    let server = believing(IdentityOptions { oidc: vec![options], ..IdentityOptions::default() }).await;
    let token = server.admin_token().to_owned();
    assert_eq!(who(&server, &token).await.0, 201);
    let claims =
        json!({"iss": "https://127.0.0.1:1", "aud": "client", "sub": "jane", "exp": i64::from(u32::MAX)});
    assert_eq!(who(&server, &key.token(&claims)).await.0, 401);
}

fn kubeconfig(directory: &Path, url: &str, ca: &str) -> TokenWebhookOptions {
    std::fs::write(directory.join("ca.pem"), ca).unwrap();
    let file = directory.join("webhook.kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: w\n  cluster:\n    server: {url}/review\n    certificate-authority: ca.pem\n\
         users:\n- name: me\n  user: {{}}\ncontexts:\n- name: c\n  context: {{cluster: w, user: me}}\ncurrent-context: c\n"
    );
    std::fs::write(&file, text).unwrap();
    TokenWebhookOptions { version: ReviewVersion::V1, ..TokenWebhookOptions::new(file) }
}

/// A webhook that accepts `jane-s-token` until `known` is cleared, and the number of its calls.
async fn webhook(known: Arc<Mutex<Option<&'static str>>>, asked: Arc<AtomicUsize>) -> (String, String) {
    https(|_| {
        Arc::new(move |path, body| {
            assert_eq!(path, "/review");
            asked.fetch_add(1, Ordering::SeqCst);
            let review: Value = serde_json::from_str(body).unwrap();
            assert_eq!(
                (review["apiVersion"].as_str(), review["kind"].as_str()),
                (Some("authentication.k8s.io/v1"), Some("TokenReview"))
            );
            let token = review["spec"]["token"].as_str().unwrap();
            let status = if Some(token) == *known.lock() {
                json!({"authenticated": true, "user": {"username": "jane", "groups": ["devs"]}})
            } else {
                json!({"authenticated": false})
            };
            (200, json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}))
        })
    })
    .await
}

#[tokio::test]
async fn a_token_webhook_is_called_once_per_token_and_never_for_own_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let (known, asked) = (Arc::new(Mutex::new(Some("jane-s-token"))), Arc::new(AtomicUsize::new(0)));
    let (url, ca) = webhook(Arc::clone(&known), Arc::clone(&asked)).await;
    let options =
        TokenWebhookOptions { cache_ttl: Duration::from_secs(2), ..kubeconfig(directory.path(), &url, &ca) };
    let server =
        believing(IdentityOptions { token_webhook: Some(options), ..IdentityOptions::default() }).await;
    let jane = (201, "jane".to_owned(), "devs,system:authenticated".to_owned());
    for _ in 0..5 {
        assert_eq!(who(&server, "jane-s-token").await, jane);
        assert_eq!(who(&server, "another").await.0, 401);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let own = server.admin_token().to_owned();
    assert_eq!(who(&server, &own).await.0, 201);
    assert_eq!(asked.load(Ordering::SeqCst), 2, "our own token is told to nobody");
    *known.lock() = None;
    eventually_async("the answer no longer counts", async || who(&server, "jane-s-token").await.0 == 401)
        .await;
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_is_401() {
    let directory = tempfile::tempdir().unwrap();
    let broken: [(u16, Value); 3] =
        [(500, json!({})), (200, json!("nonsense")), (200, json!({"status": {"authenticated": "true"}}))];
    for (status, body) in broken {
        let (url, ca) = https(|_| Arc::new(move |_, _| (status, body.clone()))).await;
        let options = TokenWebhookOptions {
            timeout: Duration::from_millis(300),
            ..kubeconfig(directory.path(), &url, &ca)
        };
        let server =
            believing(IdentityOptions { token_webhook: Some(options), ..IdentityOptions::default() }).await;
        assert_eq!(who(&server, "x").await.0, 401);
        assert_eq!(who(&server, server.admin_token()).await.0, 201);
    }
}

/// A webhook that answers 401 to unknown tokens was called five times about each, for four seconds. With a hundred
/// invented tokens at a time the tokens of others waited for seconds.
#[tokio::test]
async fn a_token_webhook_that_answers_4xx_is_not_called_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let (url, ca) = https(|_| {
        Arc::new(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            (401, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401}))
        })
    })
    .await;
    let options = kubeconfig(directory.path(), &url, &ca);
    let server =
        believing(IdentityOptions { token_webhook: Some(options), ..IdentityOptions::default() }).await;
    assert_eq!(who(&server, "x").await.0, 401);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// An impostor of the webhook could make any user an administrator, so its certificate must be verified.
#[tokio::test]
async fn a_token_webhook_with_an_unverified_certificate_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let (known, asked) = (Arc::new(Mutex::new(Some("x"))), Arc::new(AtomicUsize::new(0)));
    let (url, _) = webhook(known, Arc::clone(&asked)).await;
    let (_, other_ca) = https(|_| Arc::new(|_, _| (200, Value::Null))).await;
    let options = kubeconfig(directory.path(), &url, &other_ca);
    let options = TokenWebhookOptions { timeout: Duration::from_millis(300), ..options };
    let server =
        believing(IdentityOptions { token_webhook: Some(options), ..IdentityOptions::default() }).await;
    assert_eq!(who(&server, "x").await.0, 401);
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the token was not sent");
}
