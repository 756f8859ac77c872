//! Authorization webhooks, over real HTTPS: decisions, failures, caching, and everything that asks the authorizer.

#![cfg(test)]

mod common;
#[path = "common/https.rs"]
mod https;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Client, Watch, eventually_async, start_on};
use https::Https;
use listwatch_server::auth::{
    AccessFailurePolicy, AccessWebhookOptions, AuthorizationMode, ReviewVersion, parse_authorization_config,
};
use listwatch_server::{Handle, Options, WatchLimits};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The user about whom webhooks answer late.
const SLOW: &str = "slow";

/// Answers a SubjectAccessReview with a status code and a document.
type Answer = dyn Fn(&Value) -> (u16, Value) + Send + Sync;

/// A webhook, the specifications that it was asked about, and a kubeconfig that leads to it.
struct Webhook {
    asked: Arc<Mutex<Vec<Value>>>,
    port: u16,
    directory: TempDir,
}

impl Webhook {
    async fn start(answer: impl Fn(&Value) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&asked), Arc::new(answer));
        let server = Https::start(&["localhost"], None, move |request| {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            async move {
                let review: Value = serde_json::from_slice(&https::body(request).await).unwrap();
                seen.lock().push(review["spec"].clone());
                if review["spec"]["user"] == SLOW {
                    tokio::time::sleep(Duration::from_millis(1500)).await;
                }
                let (code, document) = answer(&review["spec"]);
                https::json(code, &document)
            }
        })
        .await;
        let ca = String::from_utf8(STANDARD.decode(&server.ca).unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        kubeconfig(directory.path(), &format!("https://localhost:{}/authorize", server.port), &ca);
        Self { asked, port: server.port, directory }
    }

    fn options(&self) -> AccessWebhookOptions {
        AccessWebhookOptions {
            version: ReviewVersion::V1,
            timeout: Duration::from_secs(3),
            ..AccessWebhookOptions::new(self.kubeconfig())
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

fn kubeconfig(directory: &Path, url: &str, ca: &str) {
    let config = json!({
        "clusters": [{"name": "w", "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca)}}],
        "users": [], "contexts": [{"name": "w", "context": {"cluster": "w", "user": ""}}], "current-context": "w",
    });
    std::fs::write(directory.join("kubeconfig"), config.to_string()).unwrap();
}

/// Answers by the name of the user: `allowed`, `denied`, or no opinion.
fn by_name(spec: &Value) -> (u16, Value) {
    let user = spec["user"].as_str().unwrap_or_default();
    let (allowed, denied) = (user.starts_with("allowed"), user.starts_with("denied"));
    (200, json!({"status": {"allowed": allowed, "denied": denied, "reason": format!("by {user}")}}))
}

async fn server(modes: Vec<AuthorizationMode>) -> Handle {
    start_on(Options { authorization: modes, ..Options::default() }).await
}

fn with_rbac(options: AccessWebhookOptions) -> Vec<AuthorizationMode> {
    vec![AuthorizationMode::Webhook(Box::new(options)), AuthorizationMode::Rbac]
}

/// Makes a request as another user, in the name of the administrator.
async fn request(server: &Handle, user: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut client = Client::new(server).await;
    client.send(method, path, &format!("Impersonate-User: {user}\r\n"), body).await;
    let answer = client.answer().await;
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

async fn list(server: &Handle, user: &str) -> (u16, String) {
    request(server, user, "GET", MAPS, "").await
}

async fn review(server: &Handle, user: &str) -> Value {
    let asked =
        json!({"spec": {"user": user, "resourceAttributes": {"verb": "list", "resource": "configmaps"}}});
    let mut client = Client::new(server).await;
    client.call("POST", REVIEWS, Some(&asked)).await.json()["status"].clone()
}

#[tokio::test]
async fn a_webhook_allows_denies_or_leaves_the_decision() {
    let webhook = Webhook::start(by_name).await;
    let server = server(with_rbac(webhook.options())).await;
    assert_eq!(list(&server, "allowed").await.0, 200);
    let (code, body) = list(&server, "denied").await;
    assert_eq!(code, 403);
    assert!(
        body.contains(
            r#"cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\": by denied"#
        ),
        "{body}"
    );
    let (code, body) = list(&server, "other").await;
    assert_eq!(code, 403);
    assert!(body.contains(": default: by other"), "{body}");
    let all: Vec<Value> = webhook.asked.lock().clone();
    let attributes =
        json!({"namespace": "default", "verb": "list", "version": "v1", "resource": "configmaps"});
    assert_eq!(
        all[0],
        json!({"resourceAttributes": attributes, "user": "allowed", "groups": ["system:authenticated"]})
    );
    // Each verdict is kept, and the administrator is never asked about.
    for user in ["allowed", "denied", "other"] {
        list(&server, user).await;
    }
    assert_eq!(webhook.count(), 3, "{:?}", webhook.asked.lock());
}

#[tokio::test]
async fn reviews_show_the_decision_of_the_webhook() {
    let webhook = Webhook::start(by_name).await;
    let server = server(with_rbac(webhook.options())).await;
    assert_eq!(review(&server, "allowed").await, json!({"allowed": true, "reason": "by allowed"}));
    assert_eq!(
        review(&server, "denied").await,
        json!({"allowed": false, "denied": true, "reason": "by denied"})
    );
    assert_eq!(review(&server, "other").await, json!({"allowed": false, "reason": "default: by other"}));
    let rules = json!({"spec": {"namespace": "default"}});
    let mut client = Client::new(&server).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = client.call("POST", path, Some(&rules)).await.json();
    assert_eq!(answer["status"]["incomplete"], true);
    assert_eq!(
        answer["status"]["evaluationError"],
        "webhook authorizer does not support user rule resolution"
    );
}

/// A verdict of the webhook did not reach impersonation, escalation checks, policies or rechecks of watches, which ask without waiting.
#[tokio::test]
async fn everything_that_asks_the_authorizer_asks_the_webhook() {
    let webhook = Webhook::start(|spec| {
        let attributes = &spec["resourceAttributes"];
        let verb = attributes["verb"].as_str().unwrap_or_default();
        // Everything is allowed but impersonating `nobody` and reading secrets.
        let refused = (verb == "impersonate" && attributes["name"] == "nobody")
            || verb.starts_with("impersonate:")
            || attributes["resource"] == "secrets";
        (200, json!({"status": {"allowed": !refused}}))
    })
    .await;
    let server = server(with_rbac(webhook.options())).await;
    let mut admin = Client::new(&server).await;
    // A user of a token, whom only the webhook allows anything.
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let made = admin.call("POST", accounts, Some(&json!({"metadata": {"name": "bot"}}))).await;
    assert_eq!(made.status, 201);
    let token = admin.call("POST", &format!("{accounts}/bot/token"), Some(&json!({}))).await.json();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    for (user, expected) in [("somebody", 200), ("nobody", 403)] {
        let mut client = Client::new(&server).await.with_token(&token);
        client.send("GET", MAPS, &format!("Impersonate-User: {user}\r\n"), "").await;
        assert_eq!(client.answer().await.status, expected, "{user}");
    }
    // `escalate` and `bind` are verbs that the webhook allows.
    let role = json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let mut bot = Client::new(&server).await.with_token(&token);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(bot.call("POST", roles, Some(&role)).await.status, 201);
    // The authorizer of expressions.
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]},
            "validations": [{"expression": "authorizer.group('').resource('secrets').check('get').allowed()", "message": "no secrets"}],
        },
    });
    assert_eq!(admin.call("POST", policies, Some(&policy)).await.status, 201);
    let binding =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    assert_eq!(admin.call("POST", path, Some(&binding)).await.status, 201);
    eventually_async("the policy holds", async || {
        let name = uuid::Uuid::new_v4().to_string();
        let mut bot = Client::new(&server).await.with_token(&token);
        let map = common::config_map(&name, "x");
        bot.call("POST", MAPS, Some(&map)).await.status == 422
    })
    .await;
}

#[tokio::test]
async fn a_watch_ends_when_the_webhook_withdraws_its_right() {
    let allowed = Arc::new(Mutex::new(true));
    let now = Arc::clone(&allowed);
    let webhook = Webhook::start(move |_| (200, json!({"status": {"allowed": *now.lock()}}))).await;
    let options = AccessWebhookOptions { authorized_ttl: Duration::ZERO, ..webhook.options() };
    let server = start_on(Options {
        authorization: with_rbac(options),
        watch: WatchLimits { recheck_every: Some(Duration::from_millis(200)), ..WatchLimits::default() },
        ..Options::default()
    })
    .await;
    let mut client = Client::new(&server).await;
    client
        .send(
            "GET",
            &format!("{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=60"),
            "Impersonate-User: a\r\n",
            "",
        )
        .await;
    let mut watch = Watch::begin(client).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    *allowed.lock() = false;
    let ended = async { while watch.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the watch ends");
}

/// Answers that are no verdict, and the words about them.
#[tokio::test]
async fn failures_are_500_or_leave_the_decision() {
    let status = |code: u16, body: Value| move |_: &Value| (code, body.clone());
    for (answer, words) in [
        (status(403, json!("no")), "unknown"),
        (status(200, json!({"kind": "TokenReview", "status": {"allowed": true}})), "no SubjectAccessReview"),
        (status(200, json!({"status": {"allowed": "yes"}})), "no SubjectAccessReview"),
        (status(200, json!([1])), "no SubjectAccessReview"),
        (status(302, json!({})), "302"),
        (status(200, json!({"status": {"reason": "x".repeat(2 << 20)}})), "larger than"),
        (status(200, json!({"status": {"allowed": true, "denied": true}})), "both allow and deny"),
    ] {
        let webhook = Webhook::start(answer).await;
        let server = server(with_rbac(webhook.options())).await;
        let (code, body) = list(&server, "jane").await;
        assert_eq!(code, 500, "{words}");
        assert!(
            body.starts_with(&format!("Internal Server Error: \"{MAPS}\": ")) && body.contains(words),
            "{body}"
        );
        assert_eq!(webhook.count(), 1, "none of these is tried again: {words}");
        let status = review(&server, "jane").await;
        assert_eq!(status["allowed"], false);
        assert!(status["evaluationError"].as_str().unwrap().contains(words), "{status}");
    }
}

#[tokio::test]
async fn a_webhook_that_is_not_there_leaves_the_decision_to_the_next() {
    let webhook = Webhook::start(by_name).await;
    let ca = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem();
    for (url, ca, words) in [
        ("https://localhost:1/authorize".to_owned(), ca.clone(), "connection refused"),
        (format!("https://localhost:{}/authorize", webhook.port), ca, "tls: failed to verify certificate"),
    ] {
        kubeconfig(webhook.directory.path(), &url, &ca);
        let options = webhook.options();
        let server = server(with_rbac(options)).await;
        let (code, body) = list(&server, "allowed").await;
        assert_eq!(code, 500);
        assert!(body.contains(&format!("Post \"{url}?timeout=3s\": ")) && body.contains(words), "{body}");
        let mut admin = Client::new(&server).await;
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        let path = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": "r"}, "rules": rules});
        assert_eq!(admin.call("POST", &format!("{path}/clusterroles"), Some(&role)).await.status, 201);
        let binding = json!({
            "metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "allowed"}],
        });
        assert_eq!(
            admin.call("POST", &format!("{path}/clusterrolebindings"), Some(&binding)).await.status,
            201
        );
        assert_eq!(list(&server, "allowed").await.0, 200, "RBAC decides");
    }
    assert_eq!(webhook.count(), 0);
}

#[tokio::test]
async fn a_failure_denies_if_the_policy_says_so() {
    let webhook = Webhook::start(|_| (403, Value::Null)).await;
    let options = AccessWebhookOptions { failure_policy: AccessFailurePolicy::Deny, ..webhook.options() };
    let server =
        server(vec![AuthorizationMode::Webhook(Box::new(options)), AuthorizationMode::AlwaysAllow]).await;
    assert_eq!(list(&server, "jane").await.0, 500, "the next authorizer would allow it");
    let status = review(&server, "jane").await;
    assert_eq!((&status["allowed"], &status["denied"]), (&json!(false), &json!(true)));
}

/// A webhook that hangs delays requests by its timeout, and only those that it is asked about.
#[tokio::test]
async fn a_webhook_that_hangs_delays_only_those_that_it_is_asked_about() {
    let webhook = Webhook::start(by_name).await;
    let options =
        AccessWebhookOptions { timeout: Duration::from_secs(1), user_concurrent: 1, ..webhook.options() };
    let server = Arc::new(server(with_rbac(options)).await);
    let slow: Vec<_> = (0..3)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { list(&server, SLOW).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = std::time::Instant::now();
    let mut admin = Client::new(&server).await;
    assert_eq!(admin.call("GET", MAPS, None).await.status, 200);
    assert!(begin.elapsed() < Duration::from_millis(500));
    for answer in slow {
        let (code, body) = answer.await.unwrap();
        assert_eq!(code, 500);
        assert!(body.contains("(Client.Timeout exceeded while awaiting headers)"), "{body}");
    }
}

#[tokio::test]
async fn a_file_configures_several_webhooks_and_is_read_again() {
    let first = Webhook::start(by_name).await;
    let second = Webhook::start(|_| (200, json!({"status": {"allowed": true}}))).await;
    let text = |policy: &str| {
        let webhook = |webhook: &Webhook, name: &str, more: &str| {
            format!(
                "- type: Webhook\n  name: {name}\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    failurePolicy: {policy}\n    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}\n{more}",
                webhook.kubeconfig().display()
            )
        };
        let conditions = "    matchConditionSubjectAccessReviewVersion: v1\n    matchConditions:\n    - expression: has(request.resourceAttributes) && request.resourceAttributes.namespace == 'default'\n    - expression: request.user != 'skipped'\n";
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n{}{}- {{type: RBAC, name: rbac}}\n",
            webhook(&first, "first", conditions),
            webhook(
                &second,
                "second",
                "    matchConditionSubjectAccessReviewVersion: v1\n    matchConditions: [{expression: \"request.user == 'skipped'\"}]\n"
            ),
        )
    };
    let file = first.directory.path().join("authorization.yaml");
    std::fs::write(&file, text("Deny")).unwrap();
    let modes = parse_authorization_config(&text("Deny")).unwrap();
    let server = start_on(Options {
        authorization: modes,
        authorization_config: Some(file.clone()),
        ..Options::default()
    })
    .await;
    assert_eq!(list(&server, "allowed").await.0, 200);
    assert_eq!(list(&server, "denied").await.0, 403);
    assert_eq!(list(&server, "skipped").await.0, 200, "the second webhook allows it");
    assert_eq!(request(&server, "denied", "GET", "/api/v1/nodes", "").await.0, 403);
    assert_eq!((first.count(), second.count()), (2, 1));
    let mut client = Client::new(&server).await;
    client.send("GET", "/metrics", "", "").await;
    let page = String::from_utf8_lossy(&client.answer().await.body).into_owned();
    for line in [
        r#"apiserver_authorization_webhook_evaluations_total{name="first",result="success"} 2"#,
        r#"apiserver_authorization_decisions_total{type="Webhook",name="first",decision="denied"} 1"#,
        r#"apiserver_authorization_match_condition_exclusions_total{type="Webhook",name="first"} 2"#,
        r#"apiserver_authorization_webhook_duration_seconds_count{name="second",result="success"} 1"#,
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    // A file that is wrong changes nothing; one that is right replaces the webhooks.
    std::fs::write(&file, "authorizers: []").unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(list(&server, "denied").await.0, 403);
    std::fs::write(&file, text("NoOpinion").replace("request.user != 'skipped'", "request.user == ''"))
        .unwrap();
    eventually_async("the file is read again", async || list(&server, "allowed").await.0 == 403).await;
}
