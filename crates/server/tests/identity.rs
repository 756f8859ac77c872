//! Credentials of servers and clients, the audit log, and encryption at rest.

#![cfg(test)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{Client, Watch, eventually, start_on};
use listwatch_server::encryption::{Encrypted, EncryptionConfig};
use listwatch_server::{
    AuditOptions, AuditRotation, Handle, IdentityOptions, KeepKeys, Options, Security, Server, WatchLimits,
};
use listwatch_storage::{Engine, MemoryEngine, Range};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Two servers on one store.
async fn pair() -> (Handle, Handle) {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    let options = || Options { keys: KeepKeys::Store, ..Options::default() };
    let one = Server::start(options(), Arc::clone(&engine)).await.unwrap();
    (one, Server::start(options(), engine).await.unwrap())
}

/// A field of the kubeconfig's user or cluster, decoded.
fn field(kubeconfig: &str, name: &str) -> String {
    use base64::Engine as _;
    let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
    let data = base64::engine::general_purpose::STANDARD.decode(line.trim_start_matches(':').trim()).unwrap();
    String::from_utf8(data).unwrap()
}

/// The status and user name of a request with this client certificate.
async fn who(server: &Handle, ca: &str, identity: Option<(&str, &str)>) -> (u16, String) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => {
            let chain =
                CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
            config
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                .unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    let request =
        format!("POST {WHO} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    (status, body["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

/// Each server had its own CA, token and key, and accepted no others.
#[tokio::test]
async fn a_kubeconfig_of_one_server_is_good_at_the_others_on_its_store() {
    let (one, other) = pair().await;
    assert_eq!(one.ca_pem(), other.ca_pem());
    assert_eq!(one.admin_token(), other.admin_token());
    let kubeconfig = one.admin_kubeconfig();
    let (certificate, key) =
        (field(&kubeconfig, "client-certificate-data"), field(&kubeconfig, "client-key-data"));
    let ca = field(&kubeconfig, "certificate-authority-data");
    for server in [&one, &other] {
        let known = who(server, &ca, Some((&certificate, &key))).await;
        assert_eq!(known, (201, "kubernetes-admin".to_owned()));
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_ca_is_401_not_anonymous() {
    let server = Server::start(Options::default(), Arc::new(MemoryEngine::default())).await.unwrap();
    let stranger = Server::start(Options::default(), Arc::new(MemoryEngine::default())).await.unwrap();
    let theirs = stranger.admin_kubeconfig();
    let identity = (field(&theirs, "client-certificate-data"), field(&theirs, "client-key-data"));
    let ca = server.ca_pem().unwrap().to_owned();
    assert_eq!(who(&server, &ca, Some((&identity.0, &identity.1))).await.0, 401);
    assert_eq!(who(&server, &ca, None).await.0, 403, "anonymous");
}

fn audited(directory: &Path, policy: &str) -> Options {
    let (policy_file, log_file) = (directory.join("policy.yaml"), directory.join("audit.log"));
    std::fs::write(&policy_file, policy).unwrap();
    let audit = AuditOptions { policy_file, log_file, rotation: AuditRotation::default() };
    Options { audit: Some(audit), ..Options::default() }
}

fn lines(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
    - {level: None, verbs: [get]}\n\
    - {level: Metadata, resources: [{group: '', resources: [secrets]}]}\n\
    - {level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}\n";

#[tokio::test]
async fn the_audit_log_has_the_level_of_the_policy() {
    let directory = tempfile::tempdir().unwrap();
    let server = start_on(audited(directory.path(), POLICY)).await;
    let mut admin = Client::new(&server).await;
    let path = "/api/v1/namespaces/default";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "planted"}});
    admin
        .send(
            "POST",
            &format!("{path}/secrets"),
            "impersonate-user: bob\r\nuser-agent: test/1\r\n",
            &secret.to_string(),
        )
        .await;
    assert_eq!(admin.answer().await.status, 403);
    assert_eq!(
        admin.call("POST", &format!("{path}/configmaps"), Some(&common::config_map("c", "v"))).await.status,
        201
    );
    admin.get(&format!("{path}/configmaps/c")).await;
    eventually("two lines", || lines(directory.path()).len() >= 2).await;
    let told = lines(directory.path());
    assert_eq!(told.len(), 2, "{told:?}");
    let (of_secret, of_map) = (&told[0], &told[1]);
    assert_eq!((&of_secret["level"], &of_secret["stage"]), (&json!("Metadata"), &json!("ResponseComplete")));
    assert_eq!(of_secret["user"]["username"], json!("kubernetes-admin"));
    assert_eq!(of_secret["impersonatedUser"]["username"], json!("bob"));
    assert_eq!(of_secret["responseStatus"]["code"], json!(403));
    assert_eq!(
        of_secret["objectRef"],
        json!({"resource": "secrets", "namespace": "default", "apiVersion": "v1"})
    );
    assert_eq!((&of_secret["userAgent"], &of_secret["sourceIPs"]), (&json!("test/1"), &json!(["127.0.0.1"])));
    assert!(of_secret.get("requestObject").is_none() && !of_secret.to_string().contains("planted"));
    assert_eq!(of_map["requestObject"]["data"]["k"], json!("v"));
    assert_eq!(of_map["responseObject"]["metadata"]["name"], json!("c"));
}

/// A user that lost a right, or whose token has ended, went on watching for up to an hour.
#[tokio::test]
async fn a_watch_ends_when_its_rights_are_withdrawn() {
    let watch = WatchLimits { recheck_every: Some(Duration::from_millis(20)), ..WatchLimits::default() };
    let server = start_on(Options { watch, ..Options::default() }).await;
    let mut admin = Client::new(&server).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.call("POST", accounts, Some(&json!({"metadata": {"name": "bot"}}))).await;
    let token = admin.call("POST", &format!("{accounts}/bot/token"), Some(&json!({}))).await.json();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let binding = json!({"metadata": {"name": "b"}, "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    let bindings = format!("{RBAC}/clusterrolebindings");
    admin.call("POST", &bindings, Some(&binding)).await;
    for end in [format!("{bindings}/b"), format!("{accounts}/bot")] {
        let mut client = Client::new(&server).await.with_token(&token);
        client.send("GET", "/api/v1/namespaces/default/configmaps?watch=1", "", "").await;
        assert_eq!(client.head().await.0, 200);
        assert_eq!(admin.call("DELETE", &end, None).await.status, 200);
        let ended = tokio::time::timeout(common::PATIENCE, async { while client.chunk().await.is_some() {} });
        ended.await.expect("the watch ends");
        admin.call("POST", &bindings, Some(&binding)).await;
    }
    // A user who is still permitted continues.
    let mut watch = Watch::open(&server, "").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    admin.create("c", "v").await;
    assert_eq!(watch.next().await.unwrap()["type"], json!("ADDED"));
}

const ENCRYPTED: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
    - resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: k1, secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}]}\n  - identity: {}\n";

#[tokio::test]
async fn chosen_resources_are_stored_encrypted_and_served_plain() {
    let raw: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    let config = EncryptionConfig::parse(ENCRYPTED).unwrap();
    let engine: Arc<dyn Engine> = Arc::new(Encrypted::new(Arc::clone(&raw), config));
    let options = Options { security: Security::InsecureHttp, ..Options::default() };
    let server = Server::start(options.clone(), Arc::clone(&engine)).await.unwrap();
    let mut admin = Client::new(&server).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "planted"}});
    assert_eq!(admin.call("POST", secrets, Some(&secret)).await.status, 201);
    let change = json!({"metadata": {"name": "s"}, "stringData": {"k": "planted-again"}});
    assert_eq!(admin.call("PUT", &format!("{secrets}/s"), Some(&change)).await.status, 200);
    let stored = raw.range(Range::prefix("/registry/secrets/")).await.unwrap().items;
    assert!(stored.iter().all(|item| item.value.starts_with(b"k8s:enc:aesgcm:v1:k1:")) && stored.len() == 1);
    assert_eq!(admin.get(&format!("{secrets}/s")).await["data"]["k"], json!("cGxhbnRlZC1hZ2Fpbg=="));
    // A server that starts on the same store reads it, and one without the key says so.
    let again = Server::start(options.clone(), engine).await.unwrap();
    assert_eq!(Client::new(&again).await.get(&format!("{secrets}/s")).await["metadata"]["name"], json!("s"));
    let other = ENCRYPTED.replace("k1", "k2");
    let without = Encrypted::new(raw, EncryptionConfig::parse(&other).unwrap());
    let without = Server::start(options, Arc::new(without)).await.unwrap();
    let mut without = Client::new(&without).await;
    let answer = without.call("GET", &format!("{secrets}/s"), None).await;
    assert_eq!(answer.status, 500);
    let message = answer.json()["message"].to_string();
    assert!(message.contains("/registry/secrets/default/s"), "{message}");
    assert_eq!(without.call("GET", "/readyz", None).await.status, 500);
}

/// What is planted in secrets, tokens and headers must not be seen in metrics, debug pages or errors.
#[tokio::test]
async fn secrets_appear_in_no_error_or_debug_page() {
    const PLANTED: &str = "pl4nt3d-s3cr3t";
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens.csv");
    std::fs::write(&tokens, format!("{PLANTED},alice,1,devs\n")).unwrap();
    let server = start_on(Options { token_file: Some(tokens), ..Options::default() }).await;
    let mut admin = Client::new(&server).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": PLANTED}});
    admin.call("POST", secrets, Some(&secret)).await;
    let mut seen = format!("{server:?}");
    for (method, path, body) in [
        ("POST", secrets.to_owned(), secret.to_string()),
        ("POST", secrets.to_owned(), format!("{{\"stringData\": {{\"k\": \"{PLANTED}")),
        (
            "PUT",
            format!("{secrets}/s"),
            json!({"metadata": {"name": "s"}, "data": {"k": PLANTED}}).to_string(),
        ),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            json!({"spec": {"token": format!("{PLANTED}x")}}).to_string(),
        ),
        ("GET", "/metrics".to_owned(), String::new()),
        ("GET", "/debug/listwatch".to_owned(), String::new()),
        ("GET", "/debug/listwatch/watches".to_owned(), String::new()),
    ] {
        admin.send(method, &path, "content-type: application/json\r\n", &body).await;
        let answer = admin.answer().await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        // A review answers with the question.
        seen += &text.replace(&format!("\"token\":\"{PLANTED}x\""), "");
    }
    let mut wrong = Client::new(&server).await.with_token(&format!("{PLANTED}-wrong"));
    seen += &String::from_utf8(wrong.call("GET", secrets, None).await.body).unwrap();
    assert!(!seen.contains(PLANTED), "{}", &seen[seen.find(PLANTED).unwrap().saturating_sub(200)..]);
    assert!(!seen.contains(server.admin_token()));
}

/// A CA and a client certificate of it, for this user and group: the CA, the certificate and the key, in PEM.
fn foreign_client(user: &str, group: &str) -> (String, String, String) {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "corporate");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = ca.self_signed(&ca_key).unwrap().pem();
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, user);
    client.distinguished_name.push(DnType::OrganizationName, group);
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = client.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap().pem();
    (authority, certificate, key.serialize_pem())
}

#[tokio::test]
async fn a_ca_that_is_named_vouches_for_clients_besides_our_own() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, certificate, key) = foreign_client("jane", "devs");
    let file = directory.path().join("clients.pem");
    std::fs::write(&file, authority).unwrap();
    let identity = IdentityOptions { client_ca_file: Some(file), ..IdentityOptions::default() };
    let options = Options { identity, ..Options::default() };
    let server = Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap();
    let ca = server.ca_pem().unwrap().to_owned();
    let jane = who(&server, &ca, Some((&certificate, &key))).await;
    assert_eq!(jane, (201, "jane".to_owned()));
    let ours = server.admin_kubeconfig();
    let ours = (field(&ours, "client-certificate-data"), field(&ours, "client-key-data"));
    assert_eq!(who(&server, &ca, Some((&ours.0, &ours.1))).await.1, "kubernetes-admin");
    let (_, stranger, key) = foreign_client("jane", "system:masters");
    assert_eq!(who(&server, &ca, Some((&stranger, &key))).await.0, 401);
}

/// The three steps of the documentation: the new key first, all objects written again, the old key removed.
#[tokio::test]
async fn keys_of_stored_secrets_are_rotated_without_losing_any() {
    let old = "{name: k1, secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}";
    let new = "{name: k2, secret: HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHgA=}";
    let raw: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    let start = async |keys: String| {
        let config = EncryptionConfig::parse(&ENCRYPTED.replace(old, &keys)).unwrap();
        let engine = Arc::new(Encrypted::new(Arc::clone(&raw), config));
        Server::start(Options { security: Security::InsecureHttp, ..Options::default() }, engine).await
    };
    let path = "/api/v1/namespaces/default/secrets";
    let server = start(old.to_owned()).await.unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "planted"}});
    assert_eq!(Client::new(&server).await.call("POST", path, Some(&secret)).await.status, 201);
    let without = start(new.to_owned()).await.unwrap();
    let unread = Client::new(&without).await.call("GET", &format!("{path}/s"), None).await;
    assert_eq!(unread.status, 500, "nobody reads it without the old key");
    let server = start(format!("{new}, {old}")).await.unwrap();
    let mut admin = Client::new(&server).await;
    let stored = admin.get(&format!("{path}/s")).await;
    assert_eq!(stored["data"]["k"], json!("cGxhbnRlZA=="));
    // As `kubectl get -o json | kubectl replace -f -` does it: the object is as it was, and yet written again.
    assert_eq!(admin.call("PUT", &format!("{path}/s"), Some(&stored)).await.status, 200);
    let items = raw.range(Range::prefix("/registry/secrets/")).await.unwrap().items;
    assert!(items.iter().all(|item| item.value.starts_with(b"k8s:enc:aesgcm:v1:k2:")), "{items:?}");
    let server = start(new.to_owned()).await.unwrap();
    assert_eq!(
        Client::new(&server).await.get(&format!("{path}/s")).await["data"]["k"],
        json!("cGxhbnRlZA==")
    );
}

#[tokio::test]
async fn the_audit_policy_can_omit_managed_fields() {
    let directory = tempfile::tempdir().unwrap();
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitManagedFields: true\nomitStages: [RequestReceived]\nrules:\n\
        - {level: RequestResponse, omitManagedFields: false, verbs: [list], resources: [{resources: [configmaps]}]}\n\
        - {level: RequestResponse, resources: [{resources: [configmaps]}]}\n";
    let server = start_on(audited(directory.path(), policy)).await;
    let mut admin = Client::new(&server).await;
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(admin.call("POST", path, Some(&common::config_map("c", "v"))).await.status, 201);
    admin.get(&format!("{path}/c")).await;
    eventually("two lines", || lines(directory.path()).len() >= 2).await;
    for line in lines(directory.path()) {
        let told = &line["responseObject"]["metadata"];
        assert_eq!(told["name"], json!("c"));
        assert!(told.get("managedFields").is_none(), "{told}");
    }
    let unknown = policy.replace("omitManagedFields: true", "omitManagedFeelds: true");
    let options = Options { security: Security::InsecureHttp, ..audited(directory.path(), &unknown) };
    let refused = Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap_err();
    assert!(refused.to_string().contains("policy.yaml"), "{refused}");
}
