//! Service account tokens: issued at the `token` subresource, accepted until they expire or their objects are deleted.

#![cfg(test)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{Answer, Client, start_on};
use listwatch_server::{Handle, IdentityOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn account(client: &mut Client, name: &str) {
    let answer = client.call("POST", ACCOUNTS, Some(&json!({"metadata": {"name": name}}))).await;
    assert_eq!(answer.status, 201);
}

async fn request(client: &mut Client, name: &str, spec: Value) -> Answer {
    client.call("POST", &format!("{ACCOUNTS}/{name}/token"), Some(&json!({"spec": spec}))).await
}

async fn token(client: &mut Client, name: &str, spec: Value) -> String {
    let answer = request(client, name, spec).await;
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()["status"]["token"].as_str().unwrap().to_owned()
}

fn claims(token: &str) -> Value {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

/// The user of a token; `None` if the server rejects it.
async fn who(server: &Handle, token: &str) -> Option<Value> {
    let mut client = Client::new(server).await.with_token(token);
    let answer = client.call("POST", WHO, Some(&json!({}))).await;
    (answer.status == 201).then(|| answer.json()["status"]["userInfo"].clone())
}

#[tokio::test]
async fn a_token_stands_for_its_account() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    let answer = request(&mut client, "robot", json!({})).await.json();
    assert_eq!((&answer["kind"], &answer["metadata"]["name"]), (&json!("TokenRequest"), &json!("robot")));
    assert_eq!(answer["spec"]["expirationSeconds"], 3600);
    assert!(answer["status"]["expirationTimestamp"].is_string());
    let user = who(&server, answer["status"]["token"].as_str().unwrap()).await.unwrap();
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(user["groups"], groups);
    let account = client.get(&format!("{ACCOUNTS}/robot")).await;
    assert_eq!(user["uid"], account["metadata"]["uid"]);
}

#[tokio::test]
async fn a_token_ends_with_its_account_even_if_another_takes_the_name() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    let token = token(&mut client, "robot", json!({})).await;
    assert!(who(&server, &token).await.is_some());
    client.call("DELETE", &format!("{ACCOUNTS}/robot"), None).await;
    assert!(who(&server, &token).await.is_none());
    account(&mut client, "robot").await;
    assert!(who(&server, &token).await.is_none());
}

#[tokio::test]
async fn a_token_ends_with_the_secret_it_is_bound_to() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    let secrets = "/api/v1/namespaces/default/secrets";
    client.call("POST", secrets, Some(&json!({"metadata": {"name": "s"}}))).await;
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
    let token = token(&mut client, "robot", json!({"boundObjectRef": reference})).await;
    assert_eq!(claims(&token)["kubernetes.io"]["secret"]["name"], "s");
    assert!(who(&server, &token).await.is_some());
    client.call("DELETE", &format!("{secrets}/s"), None).await;
    assert!(who(&server, &token).await.is_none());
}

#[tokio::test]
async fn the_object_that_a_token_is_bound_to_must_exist_and_match() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    let bound = |kind: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "x", "uid": uid}});
    assert_eq!(request(&mut client, "robot", bound("Pod", "")).await.status, 404);
    assert_eq!(request(&mut client, "robot", bound("ConfigMap", "")).await.status, 400);
    client
        .call("POST", "/api/v1/namespaces/default/secrets", Some(&json!({"metadata": {"name": "x"}})))
        .await;
    assert_eq!(request(&mut client, "robot", bound("Secret", "another")).await.status, 409);
    let pod = json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "other"}});
    client.call("POST", "/api/v1/namespaces/default/pods", Some(&pod)).await;
    assert_eq!(request(&mut client, "robot", bound("Pod", "")).await.status, 400);
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    assert_eq!(request(&mut client, "nobody", json!({})).await.status, 404);
    for seconds in [599, -1, (1i64 << 32) + 1] {
        let answer = request(&mut client, "robot", json!({"expirationSeconds": seconds})).await;
        assert_eq!(answer.status, 422, "{seconds}");
        assert_eq!(answer.json()["details"]["causes"][0]["field"], "spec.expirationSeconds");
    }
    let path = format!("{ACCOUNTS}/robot/token");
    let other = client.call("POST", &path, Some(&json!({"metadata": {"name": "other"}}))).await;
    assert_eq!(other.status, 422);
    assert_eq!(client.call("GET", &path, None).await.status, 405);
    let dry = client.call("POST", &format!("{path}?dryRun=All"), Some(&json!({}))).await;
    assert_eq!((dry.status, dry.json()["status"]["token"].as_str()), (201, Some("")));
}

#[tokio::test]
async fn a_token_for_others_is_not_for_this_server() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    let token = token(&mut client, "robot", json!({"audiences": ["vault"]})).await;
    assert!(who(&server, &token).await.is_none());
    let mut review = async |audiences: Value| {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        client.call("POST", REVIEWS, Some(&review)).await.json()["status"].clone()
    };
    let good = review(json!(["vault", "other"])).await;
    assert_eq!((&good["authenticated"], &good["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(good["user"]["username"], "system:serviceaccount:default:robot");
    let bad = review(json!([])).await;
    assert_eq!((bad.get("authenticated"), &bad["user"]), (None, &json!({})));
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let (server, other) = (start_on(Options::default()).await, start_on(Options::default()).await);
    let mut client = Client::new(&other).await;
    account(&mut client, "robot").await;
    account(&mut Client::new(&server).await, "robot").await;
    let theirs = token(&mut client, "robot", json!({})).await;
    assert!(who(&server, &theirs).await.is_none());
    assert!(who(&other, &theirs).await.is_some());
    let parts: Vec<&str> = theirs.split('.').collect();
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    assert!(who(&other, &format!("{none}.{}.", parts[1])).await.is_none());
}

#[tokio::test]
async fn the_signing_key_is_kept_privately_and_outlives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options {
        security: Security::SelfMade { dir: Some(dir.path().to_owned()) },
        ..Options::default()
    };
    let path = dir.path().join("service-account.key");
    let first = Server::start(options(), Arc::new(MemoryEngine::default())).await.unwrap();
    let key = std::fs::read(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    first.shutdown().await;
    let second = Server::start(options(), Arc::new(MemoryEngine::default())).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), key);
    second.shutdown().await;
    std::fs::write(&path, "nonsense").unwrap();
    let error = Server::start(options(), Arc::new(MemoryEngine::default())).await.unwrap_err();
    assert!(error.to_string().contains("service-account.key"), "{error}");
}

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Without a controller manager there are no accounts, and Pods must be creatable; with one, Pods lacked their token.
#[tokio::test]
async fn tokens_are_mounted_once_a_controller_manager_has_published_the_bundle() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    let alone = client.call("POST", PODS, Some(&pod("alone"))).await;
    assert_eq!(alone.status, 201);
    assert!(alone.json()["spec"]["volumes"].is_null());

    let bundle = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "pem"}});
    let system = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(client.call("POST", system, Some(&bundle)).await.status, 201);
    let mounted = client.call("POST", PODS, Some(&pod("mounted"))).await.json();
    assert_eq!(mounted["spec"]["serviceAccountName"], "default");
    assert!(mounted["spec"]["volumes"][0]["name"].as_str().unwrap().starts_with("kube-api-access-"));

    let mut opted_out = pod("out");
    opted_out["spec"]["automountServiceAccountToken"] = json!(false);
    assert!(client.call("POST", PODS, Some(&opted_out)).await.json()["spec"]["volumes"].is_null());
    let mut unknown = pod("unknown");
    unknown["spec"]["serviceAccountName"] = json!("nobody");
    assert_eq!(client.call("POST", PODS, Some(&unknown)).await.status, 403);
}

/// A token as kube-controller-manager signs it, which computes the key ID in another way.
fn token_for_secret(pem: &str, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "ES256", "kid": "its own"})), part(claims));
    let (random, der) = (SystemRandom::new(), PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap());
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_der(), &random).unwrap();
    let signature = key.sign(&random, signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Programs that keep the token of an account in a Secret, such as Karmada for its member clusters, were refused.
#[tokio::test]
async fn a_token_in_a_secret_holds_as_long_as_the_secret_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pem) = (dir.path().join("key"), rcgen::KeyPair::generate().unwrap().serialize_pem());
    std::fs::write(&path, &pem).unwrap();
    let tokens = IdentityOptions { signing_key_file: Some(path), ..IdentityOptions::default() };
    let server = start_on(Options { identity: tokens, ..Options::default() }).await;
    let mut client = Client::new(&server).await;
    account(&mut client, "robot").await;
    let uid = client.get(&format!("{ACCOUNTS}/robot")).await["metadata"]["uid"].clone();
    let private = "kubernetes.io/serviceaccount";
    let token = token_for_secret(
        &pem,
        &json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot", format!("{private}/namespace"): "default",
            format!("{private}/secret.name"): "robot", format!("{private}/service-account.name"): "robot",
            format!("{private}/service-account.uid"): uid,
        }),
    );
    assert!(who(&server, &token).await.is_none());
    let secret = json!({
        "metadata": {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(&token)},
    });
    assert_eq!(client.call("POST", SECRETS, Some(&secret)).await.status, 201);
    let user = who(&server, &token).await.unwrap();
    assert_eq!((&user["username"], &user["uid"]), (&json!("system:serviceaccount:default:robot"), &uid));
    let review = json!({"spec": {"token": token, "audiences": ["others"]}});
    assert!(client.call("POST", REVIEWS, Some(&review)).await.json()["status"]["authenticated"].is_null());
    let other = json!({"data": {"token": STANDARD.encode("another")}}).to_string();
    client
        .send("PATCH", &format!("{SECRETS}/robot"), "content-type: application/merge-patch+json\r\n", &other)
        .await;
    assert_eq!(client.answer().await.status, 200);
    assert!(who(&server, &token).await.is_none());
}
