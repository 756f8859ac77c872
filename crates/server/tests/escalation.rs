//! Attempts of a user with few permissions to gain more. Each test is an attack that once succeeded.

#![cfg(test)]

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{Answer, Client, start_on};
use listwatch_server::{Handle, Options};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// An administrator, who can impersonate any user.
struct Stage {
    admin: Client,
    server: Handle,
}

impl Stage {
    async fn new() -> Self {
        let server = start_on(Options::default()).await;
        Self { admin: Client::new(&server).await, server }
    }

    async fn admin(&mut self, method: &str, path: &str, body: Value) -> Answer {
        self.admin.call(method, path, Some(&body)).await
    }

    /// Grants a user these rules in the whole cluster.
    async fn give(&mut self, user: &str, rules: Value) {
        let role = json!({"metadata": {"name": user}, "rules": rules});
        assert_eq!(self.admin("POST", &format!("{RBAC}/clusterroles"), role).await.status, 201);
        let binding = self.binding(user, user);
        assert_eq!(self.admin("POST", &format!("{RBAC}/clusterrolebindings"), binding).await.status, 201);
    }

    /// A token of a service account that has the rights of the user.
    async fn token_of(&mut self, user: &str) -> String {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        assert_eq!(self.admin("POST", accounts, json!({"metadata": {"name": user}})).await.status, 201);
        let mut binding = self.binding(user, user);
        binding["metadata"]["name"] = json!(format!("account-{user}"));
        binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": "default", "name": user}]);
        assert_eq!(self.admin("POST", &format!("{RBAC}/clusterrolebindings"), binding).await.status, 201);
        let issued = self.admin("POST", &format!("{accounts}/{user}/token"), json!({})).await.json();
        issued["status"]["token"].as_str().unwrap().to_owned()
    }

    fn binding(&self, user: &str, role: &str) -> Value {
        json!({
            "metadata": {"name": format!("{user}-{role}")},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}],
        })
    }

    async fn as_user(&mut self, user: &str, method: &str, path: &str, body: &Value) -> Answer {
        self.typed(user, method, path, "application/json", body).await
    }

    async fn typed(&mut self, user: &str, method: &str, path: &str, media: &str, body: &Value) -> Answer {
        let headers = format!("impersonate-user: {user}\r\ncontent-type: {media}\r\n");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.admin.send(method, path, &headers, &body).await;
        self.admin.answer().await
    }
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// A user with permissions for Namespaces in their own namespace could append the name of another one to the path, and read,
/// change, create and delete that one.
#[tokio::test]
async fn permissions_in_one_namespace_do_not_apply_to_others() {
    let mut stage = Stage::new().await;
    for name in ["hers", "other"] {
        stage.admin("POST", "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }
    let binding = stage.binding("mallory", "cluster-admin");
    let made = stage.admin("POST", &format!("{RBAC}/namespaces/hers/rolebindings"), binding).await;
    assert_eq!(made.status, 201);
    let one = "/api/v1/namespaces/hers/namespaces/other";
    let body = json!({"metadata": {"name": "other", "labels": {"mallory": "was-here"}}});
    for (method, path) in [
        ("GET", one.to_owned()),
        ("PUT", one.to_owned()),
        ("DELETE", one.to_owned()),
        ("GET", format!("{one}/status")),
        ("PUT", format!("{one}/status")),
        ("PUT", format!("{one}/finalize")),
        ("GET", "/api/v1/namespaces/hers/namespaces/hers".to_owned()),
        ("GET", "/api/v1/namespaces/hers/namespaces".to_owned()),
        ("POST", "/api/v1/namespaces/hers/namespaces".to_owned()),
        ("GET", "/api/v1/namespaces/hers/namespaces?watch=1&timeoutSeconds=1".to_owned()),
        ("GET", "/api/v1/watch/namespaces/hers/namespaces?timeoutSeconds=1".to_owned()),
        ("GET", "/api/v1/watch/namespaces/hers/namespaces/other?timeoutSeconds=1".to_owned()),
        ("GET", "/listwatch/v1/history?version=v1&resource=namespaces&namespace=hers&name=other".to_owned()),
    ] {
        let answer = stage.as_user("mallory", method, &path, &body).await;
        assert_eq!(answer.status, 404, "{method} {path}");
    }
    let hers = stage.as_user("mallory", "GET", "/api/v1/namespaces/hers", &Value::Null).await;
    let history = "/listwatch/v1/history?version=v1&resource=namespaces&namespace=hers&name=hers";
    let history = stage.as_user("mallory", "GET", history, &Value::Null).await;
    assert_eq!((hers.status, history.status), (200, 200), "a Namespace is in itself");
}

/// A user who may update the role they are bound to could add an aggregationRule that selects all default roles, and
/// became cluster-admin.
#[tokio::test]
async fn aggregation_rules_require_all_permissions() {
    let mut stage = Stage::new().await;
    stage.give("eve", json!([rule(GROUP, &["clusterroles"], &["create", "update", "patch", "get"])])).await;
    let path = format!("{RBAC}/clusterroles/eve");
    let all = json!({"aggregationRule": {"clusterRoleSelectors": [
        {"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]}});
    let answer = stage.typed("eve", "PATCH", &path, "application/merge-patch+json", &all).await;
    assert_eq!(answer.status, 403);
    assert!(message(&answer).ends_with("must have cluster-admin privileges to use the aggregationRule"));
    let mut role = all.clone();
    role["metadata"] = json!({"name": "new"});
    assert_eq!(stage.as_user("eve", "POST", &format!("{RBAC}/clusterroles"), &role).await.status, 403);
    // Nor may they drop one, or change anything of a role that has one.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let view = format!("{RBAC}/clusterroles/view");
    assert_eq!(stage.typed("eve", "PATCH", &view, "application/merge-patch+json", &label).await.status, 403);
    assert_eq!(stage.as_user("eve", "GET", "/api/v1/secrets", &Value::Null).await.status, 403);
}

/// A binding to a role that did not exist was not checked; when the role came, the binder had it.
#[tokio::test]
async fn binding_a_missing_role_requires_bind() {
    let mut stage = Stage::new().await;
    stage.give("eve", json!([rule(GROUP, &["clusterrolebindings", "rolebindings"], &["create"])])).await;
    let later = stage.binding("eve", "later");
    let answer = stage.as_user("eve", "POST", &format!("{RBAC}/clusterrolebindings"), &later).await;
    assert_eq!(answer.status, 404, "{}", message(&answer));
    assert_eq!(message(&answer), "clusterrolebindings.rbac.authorization.k8s.io \"later\" not found");
    let mut local = later.clone();
    local["roleRef"]["kind"] = json!("Role");
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(stage.as_user("eve", "POST", &path, &local).await.status, 404);
    // A user with `bind` on that role may do so before it exists.
    stage.give("bea", json!([
        rule(GROUP, &["clusterrolebindings"], &["create"]),
        {"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["later"], "verbs": ["bind"]},
    ])).await;
    let answer = stage.as_user("bea", "POST", &format!("{RBAC}/clusterrolebindings"), &later).await;
    assert_eq!(answer.status, 201, "{}", message(&answer));
}

/// Rules with `null` in them could not be read, and what cannot be read was taken for nothing.
#[tokio::test]
async fn rules_are_checked_however_they_are_written() {
    let mut stage = Stage::new().await;
    stage.give("eve", json!([rule(GROUP, &["clusterroles"], &["create", "update"])])).await;
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": null, "nonResourceURLs": null}]);
    let role = json!({"metadata": {"name": "all"}, "rules": rules});
    assert_eq!(stage.as_user("eve", "POST", &format!("{RBAC}/clusterroles"), &role).await.status, 403);
}

/// Apply created with `patch` alone, and PUT with `update` alone.
#[tokio::test]
async fn every_request_that_creates_requires_create() {
    let mut stage = Stage::new().await;
    stage.give("eve", json!([rule("coordination.k8s.io", &["leases"], &["patch", "update", "get"])])).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let path = format!("{LEASES}/a");
    let apply = format!("{path}?fieldManager=m");
    for _ in 0..2 {
        let answer = stage.typed("eve", "PATCH", &apply, "application/apply-patch+yaml", &lease).await;
        assert_eq!(answer.status, 403, "{}", message(&answer));
        let answer = stage.as_user("eve", "PUT", &path, &lease).await;
        assert_eq!(answer.status, 403, "{}", message(&answer));
        assert!(message(&answer).contains("User \"eve\" cannot create resource \"leases\""));
    }
    assert_eq!(stage.admin("PUT", &path, lease.clone()).await.status, 201);
    assert_eq!(stage.typed("eve", "PATCH", &apply, "application/apply-patch+yaml", &lease).await.status, 200);
}

/// `Impersonate-User: josé` was ignored, and the request ran as the administrator who sent it.
#[tokio::test]
async fn impersonated_names_may_be_utf8() {
    let mut stage = Stage::new().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({});
    stage
        .admin
        .send("POST", path, "impersonate-user: josé\r\nimpersonate-group: über\r\n", &review.to_string())
        .await;
    let who = stage.admin.answer().await.json()["status"]["userInfo"].clone();
    assert_eq!(who, json!({"username": "josé", "groups": ["über", "system:authenticated"]}));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 2\r\n",
        stage.server.admin_token()
    );
    let mut bytes = head.into_bytes();
    bytes.extend(b"impersonate-user: jos\xe9\r\n\r\n{}");
    stage.admin.raw(&bytes).await;
    assert_eq!(stage.admin.answer().await.status, 400);
}

/// `Authorization: Bearer` with bytes that are not text was served as anonymous.
#[tokio::test]
async fn malformed_credentials_are_401() {
    let mut stage = Stage::new().await;
    for (header, status) in [
        (&b"Bearer \xff\xfe"[..], 401),
        (b"Bearer wrong", 401),
        (b"Bearer a.b.c", 401),
        (b"Basic eDp5", 403),
        (b"Bearer ", 403),
    ] {
        let mut bytes = b"GET /api/v1/secrets HTTP/1.1\r\nhost: x\r\nauthorization: ".to_vec();
        bytes.extend(header);
        bytes.extend(b"\r\n\r\n");
        stage.admin.raw(&bytes).await;
        assert_eq!(stage.admin.answer().await.status, status, "{}", String::from_utf8_lossy(header));
    }
}

/// A right to delete one object by its name deleted collections through a field selector.
#[tokio::test]
async fn permission_for_one_name_does_not_allow_deletecollection() {
    let mut stage = Stage::new().await;
    stage
        .give(
            "eve",
            json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
        "verbs": ["deletecollection", "list", "delete"]}]),
        )
        .await;
    let path = "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Da";
    assert_eq!(stage.as_user("eve", "GET", path, &Value::Null).await.status, 200);
    assert_eq!(stage.as_user("eve", "DELETE", path, &Value::Null).await.status, 403);
}

/// A request for a certificate; made with `openssl req -new -newkey ec -subj /CN=x`, for `system:masters` if `all`.
fn certificate_request(name: &str, all: bool) -> Value {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "x");
    if all {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}})
}

/// Any user with write access to the subresource could approve and sign for every signer, and the subject of a certificate
/// was not checked.
#[tokio::test]
async fn certificates_are_approved_and_signed_by_those_who_may() {
    let mut stage = Stage::new().await;
    let answer = stage.admin("POST", REQUESTS, certificate_request("masters", true)).await;
    assert_eq!(answer.status, 403);
    assert!(message(&answer).contains("signer with system:masters group is not allowed"));
    let all = json!(["create", "get", "update", "patch"]);
    let subresources = [
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
    ];
    let mut write = rule("certificates.k8s.io", &subresources, &[]);
    write["verbs"] = all;
    stage.give("eve", json!([write])).await;
    let answer = stage.as_user("eve", "POST", REQUESTS, &certificate_request("c", false)).await;
    assert_eq!(answer.status, 201, "{}", message(&answer));
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x", "message": "y"}]}});
    let merge = "application/merge-patch+json";
    let (approval, status) = (format!("{REQUESTS}/c/approval"), format!("{REQUESTS}/c/status"));
    let answer = stage.typed("eve", "PATCH", &approval, merge, &approved).await;
    assert_eq!(answer.status, 403, "{}", message(&answer));
    assert!(message(&answer).ends_with(
        "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    ));
    assert_eq!(stage.typed("eve", "PATCH", &status, merge, &approved).await.status, 422);
    let signed = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().cert.pem();
    let certificate = json!({"status": {"certificate": STANDARD.encode(signed)}});
    let answer = stage.typed("eve", "PATCH", &status, merge, &certificate).await;
    assert!(message(&answer).contains("user not permitted to sign"), "{}", message(&answer));
    stage
        .give(
            "ann",
            json!([write, {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]}]),
        )
        .await;
    assert_eq!(stage.typed("ann", "PATCH", &approval, merge, &approved).await.status, 200);
}

/// What is known of an impersonated user was lost on the way into the request for a certificate.
#[tokio::test]
async fn a_certificate_request_records_the_whole_identity_of_its_requester() {
    let mut stage = Stage::new().await;
    let mut request = certificate_request("c", false);
    request["spec"]["username"] = json!("somebody-else");
    request["spec"]["extra"] = json!({"forged": ["x"]});
    let headers = "impersonate-user: bob\r\nimpersonate-group: system:masters\r\nimpersonate-uid: 1\r\nimpersonate-extra-scopes: view\r\n";
    stage.admin.send("POST", REQUESTS, headers, &request.to_string()).await;
    let spec = stage.admin.answer().await.json()["spec"].clone();
    assert_eq!((&spec["username"], &spec["uid"]), (&json!("bob"), &json!("1")));
    assert_eq!(spec["extra"], json!({"scopes": ["view"]}));
}

/// The default roles had no labels, and a role labelled `aggregate-to-view` did nothing.
#[tokio::test]
async fn a_role_labelled_for_view_is_part_of_view_and_of_what_view_is_part_of() {
    let mut stage = Stage::new().await;
    let role = json!({"metadata": {"name": "part", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule("example.com", &["things"], &["get"])]});
    assert_eq!(stage.admin("POST", &format!("{RBAC}/clusterroles"), role).await.status, 201);
    for (user, bound) in [("vera", "view"), ("ed", "edit"), ("ada", "admin")] {
        let binding = stage.binding(user, bound);
        assert_eq!(stage.admin("POST", &format!("{RBAC}/clusterrolebindings"), binding).await.status, 201);
        let question = json!({"spec": {"user": user, "resourceAttributes": {"verb": "get", "group": "example.com", "resource": "things"}}});
        let answer =
            stage.admin("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", question).await;
        let status = answer.json()["status"].clone();
        assert_eq!(status["allowed"], json!(true), "{user}");
        let expected = format!(
            "RBAC: allowed by ClusterRoleBinding \"{user}-{bound}\" of ClusterRole \"{bound}\" to User \"{user}\""
        );
        assert_eq!(status["reason"], json!(expected));
    }
}

/// A user with permissions for ConfigMaps of one namespace tries to read a Secret of another: ambiguous paths, methods in
/// headers, headers of proxies, subprotocols, queries.
#[tokio::test]
async fn odd_paths_methods_and_headers_give_no_access() {
    const PLANTED: &str = "cGxhbnRlZA==";
    let mut stage = Stage::new().await;
    stage.admin("POST", "/api/v1/namespaces", json!({"metadata": {"name": "there"}})).await;
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": PLANTED}});
    assert_eq!(stage.admin("POST", "/api/v1/namespaces/there/secrets", secret).await.status, 201);
    stage.give("eve", json!([rule("", &["configmaps"], &["get", "list", "watch", "create"])])).await;
    let admin = stage.server.admin_token().to_owned();
    let socket = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&admin);
    let plain = "/api/v1/namespaces/there/secrets/s";
    let mut requests: Vec<(&str, String, String)> = [
        "/api/v1/namespaces/default/configmaps/../../there/secrets/s",
        "/api/v1/namespaces/default/configmaps/%2e%2e/%2e%2e/there/secrets/s",
        "/api/v1/namespaces/default%2f..%2fthere/secrets/s",
        "/api/v1/namespaces/default/configmaps%2f..%2f..%2fthere%2fsecrets%2fs",
        "/api/v1/namespaces/there/configmaps/../secrets/s",
        "//api/v1/namespaces/there/secrets/s",
        "/api//v1/namespaces/there/secrets/s",
        "/api/v1/namespaces//there/secrets/s",
        "/api/v1/namespaces/there//secrets/s",
        "/api/v1/namespaces/there/secrets//s",
        "/api/v1/namespaces/there/Secrets/s",
        "/API/v1/namespaces/there/secrets/s",
        "/api/v1/namespaces/there/secrets/%73",
        "/api/v1/namespaces/there/%73ecrets/s",
        "/api/v1/watch/namespaces/there/secrets/s?timeoutSeconds=1",
        "/api/v1/proxy/namespaces/there/secrets/s",
        "/api/v1/namespaces/default/configmaps;/../../there/secrets/s",
        "/healthz/../api/v1/namespaces/there/secrets/s",
        "/console/../api/v1/namespaces/there/secrets/s",
        "http://x/api/v1/namespaces/there/secrets/s",
        "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.namespace%3Dthere",
        "/api/v1/namespaces/there/secrets?fieldSelector=metadata.name%3Ds",
        "/api/v1/secrets?watch=1&watch=0&timeoutSeconds=1",
    ]
    .into_iter()
    .map(|path| ("GET", path.to_owned(), String::new()))
    .collect();
    for header in [
        "x-http-method-override: GET".to_owned(),
        "x-original-url: /version".to_owned(),
        "x-remote-user: admin\r\nx-remote-group: system:masters".to_owned(),
        "x-forwarded-user: admin".to_owned(),
        format!("proxy-authorization: Bearer {admin}"),
        format!("cookie: token={admin}"),
        format!("sec-websocket-protocol: x, base64url.bearer.authorization.k8s.io.{socket}"),
    ] {
        requests.push(("GET", plain.to_owned(), format!("{header}\r\n")));
        requests.push(("POST", plain.to_owned(), format!("{header}\r\n")));
    }
    requests.push(("GET", format!("{plain}?access_token={admin}"), String::new()));
    for method in ["HEAD", "OPTIONS", "get", "SEARCH"] {
        requests.push((method, plain.to_owned(), String::new()));
    }
    let token = stage.token_of("eve").await;
    for (method, path, headers) in requests {
        // Each on a connection of its own: some are no HTTP, and end it.
        let mut client = Client::new(&stage.server).await.with_token(&token);
        client.send(method, &path, &format!("{headers}connection: close\r\n"), "").await;
        let mut answer = Vec::new();
        tokio::time::timeout(common::PATIENCE, client.stream.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains(PLANTED), "{method} {path} {headers}: {answer}");
        let lists_nothing = answer.starts_with("HTTP/1.1 200") && answer.contains("\"items\":[]");
        assert!(answer.starts_with("HTTP/1.1 4") || lists_nothing, "{method} {path} {headers}: {answer}");
    }
}

/// Paths with a star at the end are all below, and no others; verbs are those of the rule.
#[tokio::test]
async fn non_resource_urls_match_exactly_or_by_prefix() {
    let mut stage = Stage::new().await;
    stage.give("eve", json!([{"nonResourceURLs": ["/metri*", "/debug/listwatch"], "verbs": ["get"]}])).await;
    for (method, path, status) in [
        ("GET", "/metrics", 200),
        ("POST", "/metrics", 403),
        ("GET", "/debug/listwatch", 200),
        ("GET", "/debug/listwatch/errors", 403),
        ("GET", "/debug/listwatch/", 403),
        ("GET", "/METRICS", 403),
        ("GET", "/debug/../metrics", 403),
        // Discovery is open to all users, and has no such page.
        ("GET", "/apis/../metrics", 404),
        ("GET", "/logs/", 403),
    ] {
        let answer = stage.as_user("eve", method, path, &Value::Null).await;
        assert_eq!(answer.status, status, "{method} {path}");
    }
}

/// A user who may create claims got admin access to devices that others use.
#[tokio::test]
async fn admin_access_to_devices_is_for_namespaces_with_the_label() {
    let mut stage = Stage::new().await;
    stage
        .give(
            "eve",
            json!([rule("resource.k8s.io", &["resourceclaims", "resourceclaimtemplates"], &["create"])]),
        )
        .await;
    let exactly = json!({"deviceClassName": "c", "adminAccess": true});
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": exactly}]}});
    let claim = json!({"metadata": {"name": "a"}, "spec": spec});
    let template = json!({"metadata": {"name": "a"}, "spec": {"spec": spec}});
    let root = "/apis/resource.k8s.io/v1/namespaces/default";
    let both =
        [(format!("{root}/resourceclaims"), claim), (format!("{root}/resourceclaimtemplates"), template)];
    for (path, object) in &both {
        let answer = stage.as_user("eve", "POST", path, object).await;
        assert_eq!(answer.status, 422, "{path}");
        assert!(message(&answer).contains("spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label"), "{}", message(&answer));
    }
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    let headers = "content-type: application/merge-patch+json\r\n";
    stage.admin.send("PATCH", "/api/v1/namespaces/default", headers, &label.to_string()).await;
    assert_eq!(stage.admin.answer().await.status, 200);
    for (path, object) in &both {
        let answer = stage.as_user("eve", "POST", path, object).await;
        assert_eq!(answer.status, 201, "{path}: {}", message(&answer));
    }
}

/// A user who may write the status of claims could allocate devices and report for every driver.
#[tokio::test]
async fn the_status_of_a_resource_claim_requires_permission_for_its_drivers() {
    let mut stage = Stage::new().await;
    let group = "resource.k8s.io";
    stage.give("eve", json!([rule(group, &["resourceclaims/status"], &["patch", "update"])])).await;
    stage
        .give(
            "scheduler",
            json!([rule(group, &["resourceclaims/status", "resourceclaims/binding"], &["patch", "update"]),]),
        )
        .await;
    stage.give("driver", json!([
        rule(group, &["resourceclaims/status"], &["patch"]),
        {"apiGroups": [group], "resources": ["resourceclaims/driver"], "resourceNames": ["d.example"], "verbs": ["arbitrary-node:patch"]},
    ])).await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let claim = json!({"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}});
    assert_eq!(stage.admin("POST", claims, claim).await.status, 201);
    let status = format!("{claims}/a/status");
    let device = |driver: &str| json!({"driver": driver, "pool": "p", "device": "d"});
    let result = json!({"request": "r", "driver": "d.example", "pool": "p", "device": "d"});
    let allocation = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    let merge = "application/merge-patch+json";
    let answer = stage.typed("eve", "PATCH", &status, merge, &allocation).await;
    assert_eq!(answer.status, 422);
    assert!(message(&answer).contains("status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"patch\" permission: resourceclaims.resource.k8s.io is forbidden: User \"eve\" cannot patch resource \"resourceclaims/binding\""), "{}", message(&answer));
    let answer = stage.typed("scheduler", "PATCH", &status, merge, &allocation).await;
    assert_eq!(answer.status, 200, "{}", message(&answer));
    for (user, driver, code) in
        [("eve", "d.example", 422), ("scheduler", "d.example", 422), ("driver", "d.example", 200)]
    {
        let devices = json!({"status": {"devices": [device(driver)]}});
        let answer = stage.typed(user, "PATCH", &status, merge, &devices).await;
        assert_eq!(answer.status, code, "{user}: {}", message(&answer));
        assert!(
            code == 200 || message(&answer).contains("verb=\"[arbitrary-node:patch]\""),
            "{}",
            message(&answer)
        );
    }
}

/// A definition with the group and plural of a built-in kind, with any schema.
fn shadow(plural: &str, group: &str, kind: &str, version: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

/// A definition of `clusterrolebindings.rbac.authorization.k8s.io` shared its stored objects with the built-in kind:
/// a user who could write definitions became an administrator through a version of their own, replaced the kind itself,
/// and deleted all bindings by deleting the definition.
#[tokio::test]
async fn a_definition_cannot_take_over_a_built_in_kind() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut stage = Stage::new().await;
    let everything = json!([{"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [GROUP], "resources": ["clusterrolebindings"], "verbs": ["create", "list"]}]);
    stage.give("eve", everything).await;
    let bindings = format!("{RBAC}/clusterrolebindings");
    let before = stage.admin("GET", &bindings, Value::Null).await.json()["items"].as_array().unwrap().len();
    for (plural, group, kind, version) in [
        ("clusterrolebindings", GROUP, "ClusterRoleBinding", "v1"),
        ("clusterroles", GROUP, "ClusterRole", "v9"),
        ("events", "events.k8s.io", "Event", "v1"),
        ("customresourcedefinitions", "apiextensions.k8s.io", "CustomResourceDefinition", "v2"),
    ] {
        let definition = shadow(plural, group, kind, version);
        let name = format!("{plural}.{group}");
        let created = stage.as_user("eve", "POST", DEFINITIONS, &definition).await;
        assert_eq!(created.status, 201, "{}", created.json());
        let refused = async {
            loop {
                let now = stage.admin("GET", &format!("{DEFINITIONS}/{name}"), Value::Null).await.json();
                let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
                if let Some(names) = conditions.iter().find(|one| one["type"] == "NamesAccepted") {
                    break (names["status"].clone(), names["reason"].clone());
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        assert_eq!(refused.await, (json!("False"), json!("PluralConflict")), "{name}");
        if version != "v1" {
            let path = format!("/apis/{group}/{version}/{plural}");
            assert_eq!(stage.admin("GET", &path, Value::Null).await.status, 404, "{path}");
        }
        let deleted = stage.as_user("eve", "DELETE", &format!("{DEFINITIONS}/{name}"), &Value::Null).await;
        assert_eq!(deleted.status, 200);
        while stage.admin("GET", &format!("{DEFINITIONS}/{name}"), Value::Null).await.status != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    let masters = stage.binding("eve", "cluster-admin");
    assert_eq!(
        stage.as_user("eve", "POST", &bindings, &masters).await.status,
        403,
        "still the built-in kind"
    );
    let after = stage.admin("GET", &bindings, Value::Null).await.json()["items"].as_array().unwrap().len();
    assert_eq!(after, before, "nothing was deleted with the definitions");
    assert_eq!(stage.admin("GET", "/apis/events.k8s.io/v1/events", Value::Null).await.status, 200);
}

/// A policy with Secrets as parameters, whose message shows one of them.
fn leaking_policy(name: &str, with_params: bool) -> Value {
    let validation = json!({"expression": "false", "message": "no"});
    let mut policy = json!({"metadata": {"name": name}, "spec": {"validations": [validation], "matchConstraints": {"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]}}});
    if with_params {
        policy["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "Secret"});
        policy["spec"]["validations"][0]["messageExpression"] = json!("string(params.data.p)");
    }
    policy
}

/// The server read the parameters of policies for everybody, so that a right to write policies was one to read all Secrets.
#[tokio::test]
async fn parameters_of_policies_are_read_by_those_who_may_read_them() {
    const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
    let mut stage = Stage::new().await;
    stage.give("author", json!([rule("admissionregistration.k8s.io", &["*"], &["*"])])).await;
    let reader =
        json!([rule("admissionregistration.k8s.io", &["*"], &["*"]), rule("", &["secrets"], &["get"])]);
    stage.give("reader", reader).await;
    let policies = format!("{ADMISSION}/validatingadmissionpolicies");
    let bindings = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let refused = stage.as_user("author", "POST", &policies, &leaking_policy("leak", true)).await;
    assert_eq!(refused.status, 422);
    let told = "must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)";
    assert!(message(&refused).contains(told), "{}", message(&refused));
    // Nor by adding the parameters later, in any way.
    assert_eq!(stage.as_user("author", "POST", &policies, &leaking_policy("leak", false)).await.status, 201);
    let path = format!("{policies}/leak");
    for media in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        let patch = json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}});
        assert_eq!(stage.typed("author", "PATCH", &path, media, &patch).await.status, 422);
    }
    // A binding needs the right to the one object, even if the policy is that of another.
    assert_eq!(stage.as_user("reader", "POST", &policies, &leaking_policy("read", true)).await.status, 201);
    let mut binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "read", "validationActions": ["Deny"],
        "paramRef": {"name": "sec", "namespace": "kube-system", "parameterNotFoundAction": "Allow"}}});
    let refused = stage.as_user("author", "POST", &bindings, &binding).await;
    assert_eq!(refused.status, 422);
    let told = "does not have \"get\" permission on the object referenced by paramRef";
    assert!(message(&refused).contains(told), "{}", message(&refused));
    binding["spec"]["policyName"] = json!("later");
    let refused = stage.as_user("author", "POST", &bindings, &binding).await;
    assert!(message(&refused).contains("unable to get policy later"), "{}", message(&refused));
    binding["spec"]["policyName"] = json!("read");
    assert_eq!(stage.as_user("reader", "POST", &bindings, &binding).await.status, 201);
    // Without parameters there is nothing to read.
    binding["metadata"]["name"] = json!("plain");
    binding["spec"].as_object_mut().unwrap().remove("paramRef");
    assert_eq!(stage.as_user("author", "POST", &bindings, &binding).await.status, 201);
}

/// The right to write ClusterTrustBundles was one to make workloads trust any authority, in the name of any signer.
#[tokio::test]
async fn trust_bundles_of_a_signer_are_written_by_those_who_attest_for_it() {
    const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    let mut stage = Stage::new().await;
    let bundles = rule("certificates.k8s.io", &["clustertrustbundles"], &["*"]);
    stage.give("writer", json!([bundles])).await;
    let mut attest = rule("certificates.k8s.io", &["signers"], &["attest"]);
    attest["resourceNames"] = json!(["example.test/mesh"]);
    stage.give("mesh", json!([bundles, attest])).await;
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let anchors = parameters.self_signed(&key).unwrap().pem();
    let bundle = json!({"metadata": {"name": "example.test:mesh:a"},
        "spec": {"signerName": "example.test/mesh", "trustBundle": anchors}});
    let refused = stage.as_user("writer", "POST", BUNDLES, &bundle).await;
    assert_eq!(refused.status, 403, "{}", message(&refused));
    let told = "user not permitted to attest for signerName \"example.test/mesh\"";
    assert!(message(&refused).contains(told), "{}", message(&refused));
    assert_eq!(stage.as_user("mesh", "POST", BUNDLES, &bundle).await.status, 201);
    let path = format!("{BUNDLES}/example.test:mesh:a");
    let merge = "application/merge-patch+json";
    let change = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(stage.typed("writer", "PATCH", &path, merge, &change).await.status, 403);
    let release = json!({"metadata": {"finalizers": ["example.test/x"]}});
    assert_eq!(stage.typed("writer", "PATCH", &path, merge, &release).await.status, 200);
    // A bundle without a signer needs no permission to attest.
    let plain = json!({"metadata": {"name": "plain"}, "spec": {"trustBundle": anchors}});
    assert_eq!(stage.as_user("writer", "POST", BUNDLES, &plain).await.status, 201);
}
