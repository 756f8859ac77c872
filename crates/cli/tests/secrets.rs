//! Secrets in requests, files and keys never appear in the output of the binary, at any log level.

#![cfg(test)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Every planted value begins so.
const PLANTED: &str = "pl4nt3d";

/// A server with all logging on, and its output when it ends.
struct Talkative {
    process: Child,
    address: String,
    rest: mpsc::Receiver<String>,
}

impl Talkative {
    fn start(arguments: &[&str], directory: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_listwatch"))
            .args(["serve", "--memory", "--insecure-http", "--bind", "127.0.0.1:0"])
            .args(["--log", "trace,hyper=trace,h2=trace,rustls=trace,tokio=trace"])
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let before = said.len();
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
            let line = said[before..].trim();
            if let Some(rest) = line.strip_prefix("ready http://") {
                break rest.split(' ').next().unwrap().to_owned();
            }
        };
        let (send, rest) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = stderr.read_to_string(&mut said);
            let _ = send.send(said);
        });
        Self { process, address, rest }
    }

    /// Sends a request; the whole response, head and body.
    fn send(&self, head: &str, token: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let length = body.len();
        let request = format!(
            "{head}\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn end(mut self) -> String {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let said = self.rest.recv_timeout(Duration::from_secs(30)).unwrap();
        self.process.wait().unwrap();
        said
    }
}

impl Drop for Talkative {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// The places around what must not be there.
fn leaks(text: &str) -> Vec<&str> {
    let found = text.match_indices(PLANTED).map(|(at, _)| {
        let start = (0..=at.saturating_sub(150)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        &text[start..at + PLANTED.len()]
    });
    found.collect()
}

/// Tokens, values of Secrets, passwords in URLs and keys were asked for in logs at every level, errors, metrics and debug pages.
#[test]
fn secrets_appear_in_no_log_error_metric_or_debug_page() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
        name.to_owned()
    };
    let admin = format!("{PLANTED}-admin");
    let tokens =
        file("tokens.csv", &format!("{admin},admin,admin,\"system:masters\"\n{PLANTED}-bob,bob,bob,\n"));
    // A key whose base64 begins as everything that is planted.
    let key = format!("{PLANTED}-0000");
    let key = format!("{}A", key.replace('-', "+").chars().cycle().take(42).collect::<String>());
    let encryption = file(
        "encryption.yaml",
        &format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  \
             - aesgcm: {{keys: [{{name: k, secret: {key}=}}]}}\n"
        ),
    );
    let policy =
        file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n");
    let server = Talkative::start(
        &[
            "--token-auth-file",
            &tokens,
            "--encryption-provider-config",
            &encryption,
            "--audit-policy-file",
            &policy,
            "--audit-log-path",
            "audit.log",
        ],
        directory.path(),
    );
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = format!(r#"{{"metadata":{{"name":"s"}},"stringData":{{"k":"{PLANTED}-value"}}}}"#);
    assert!(server.send(&format!("POST {secrets} HTTP/1.1"), &admin, &secret).starts_with("HTTP/1.1 201"));
    let mut seen = String::new();
    for (head, token, body) in [
        // Refused, malformed and invalid requests whose errors might contain the secret. The first 30 bytes of an unreadable
        // body are returned to its sender, as in kube-apiserver.
        (format!("POST {secrets} HTTP/1.1"), admin.as_str(), secret.clone()),
        (format!("POST {secrets} HTTP/1.1"), "pl4nt3d-bob", secret.clone()),
        (format!("POST {secrets} HTTP/1.1"), admin.as_str(), format!(r#"{{"metadata":{{"name":"malformed"}},"stringData":{{"k":"{PLANTED}"#)),
        (format!("POST {secrets} HTTP/1.1"), admin.as_str(), format!(r#"{{"stringData":{{"k":["{PLANTED}"]}}}}"#)),
        (format!("PUT {secrets}/s HTTP/1.1"), admin.as_str(), format!(r#"{{"metadata":{{"name":"s"}},"data":{{"k":"{PLANTED}"}}}}"#)),
        (
            format!("PATCH {secrets}/s HTTP/1.1"),
            admin.as_str(),
            format!(r#"[{{"op":"test","path":"/data/k","value":"{PLANTED}"}}]"#),
        ),
        (format!("GET {secrets} HTTP/1.1"), "pl4nt3d-wrong", String::new()),
        (format!("GET {secrets} HTTP/1.1\r\nauthorization: Bearer {PLANTED}-second"), "", String::new()),
        (format!("GET {secrets} HTTP/1.1\r\nupgrade: websocket\r\nsec-websocket-protocol: base64url.bearer.authorization.k8s.io.{PLANTED}!"), "", String::new()),
        (format!("GET {secrets}?access_token={PLANTED} HTTP/1.1"), "", String::new()),
        (format!("GET {secrets} HTTP/1.1\r\ncookie: {PLANTED}\r\nx-api-key: {PLANTED}"), &admin, String::new()),
        (format!("GET / HTTP/9.9\r\nauthorization: {PLANTED}"), &admin, String::new()),
        (
            "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations HTTP/1.1".to_owned(),
            &admin,
            r#"{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
                "failurePolicy":"Fail","clientConfig":{"url":"https://127.0.0.1:1/hook"},
                "rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["secrets"]}]}]}"#.to_owned(),
        ),
        // The error says that the webhook cannot be reached, and not what the request was.
        (format!("POST {secrets} HTTP/1.1"), &admin, secret.replace("\"s\"", "\"t\"")),
        ("GET /metrics HTTP/1.1".to_owned(), &admin, String::new()),
        ("GET /debug/listwatch HTTP/1.1".to_owned(), &admin, String::new()),
        ("GET /debug/listwatch/errors HTTP/1.1".to_owned(), &admin, String::new()),
        ("GET /debug/listwatch/watches HTTP/1.1".to_owned(), &admin, String::new()),
        ("GET /readyz?verbose HTTP/1.1".to_owned(), &admin, String::new()),
    ] {
        let answer = server.send(&head, token, &body);
        // A permitted read of a Secret is not a leak.
        if !head.starts_with("GET /api/v1") || !answer.starts_with("HTTP/1.1 200") {
            writeln!(seen, "{} -> {answer}", head.split(' ').next().unwrap()).unwrap();
        }
    }
    // An issued token is returned to the requester and appears nowhere else.
    let account = r#"{"metadata":{"name":"robot"}}"#;
    server.send("POST /api/v1/namespaces/default/serviceaccounts HTTP/1.1", &admin, account);
    let issued =
        server.send("POST /api/v1/namespaces/default/serviceaccounts/robot/token HTTP/1.1", &admin, "{}");
    let start = issued.find("\"token\":\"").expect("a token") + 9;
    let issued = issued[start..].split('"').next().unwrap().to_owned();
    let answer = server.send(&format!("GET {secrets} HTTP/1.1"), &issued, "");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let pages = server.send("GET /debug/listwatch/errors HTTP/1.1", &admin, "");
    let audit = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let said = server.end();
    assert!(said.len() > 1000, "it said enough to compare: {said}");
    for (what, text) in [
        ("answers", &seen),
        ("logs", &said),
        ("audit", &audit.replace("access_token=", "")),
        ("pages", &pages),
    ] {
        let leaks = leaks(text);
        let known = |leak: &&str| what == "audit" && leak.contains("secrets?");
        let leaks: Vec<_> = leaks.into_iter().filter(|leak| !known(leak)).collect();
        assert!(leaks.is_empty(), "{what}: {leaks:#?}");
        assert!(!text.contains(&issued), "an issued token in {what}");
        assert!(!text.contains("PRIVATE KEY"), "a key in {what}");
    }
}

/// A file that cannot be used is named in the error; what is in it is not.
#[test]
fn errors_about_files_do_not_quote_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for (flags, text) in [
        (&["--token-auth-file", "file"][..], format!("{PLANTED},bob,\"x\n")),
        (&["--token-auth-file", "file"][..], PLANTED.to_owned()),
        (
            &["--service-account-signing-key-file", "file"][..],
            format!("-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\n"),
        ),
        (&["--service-account-key-file", "file"][..], format!("-----BEGIN PUBLIC KEY-----\n{PLANTED}\n")),
        (
            &["--tls-cert-file", "file", "--tls-private-key-file", "file"][..],
            format!("-----BEGIN EC PRIVATE KEY-----\n{PLANTED}\n"),
        ),
        (
            &["--encryption-provider-config", "file"][..],
            format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  \
                     - aesgcm: {{keys: [{{name: k, secret: {PLANTED}}}]}}\n"
            ),
        ),
        (&["--encryption-provider-config", "file"][..], format!("secret: [{PLANTED}\n")),
        (
            &["--authentication-token-webhook-config-file", "file"][..],
            format!(
                "clusters: [{{name: c, cluster: {{server: 'https://u:{PLANTED}@h/'}}}}]\ncontexts: [{{name: x, context: {{cluster: c}}}}]\ncurrent-context: x\n"
            ),
        ),
        (
            &["--authentication-token-webhook-config-file", "file"][..],
            format!("users: [{{name: x, user: {{token: [{PLANTED}\n"),
        ),
    ] {
        std::fs::write(&path, &text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_listwatch"))
            .args(["serve", "--memory", "--bind", "127.0.0.1:0", "--log", "trace"])
            .args(flags)
            .current_dir(directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{flags:?}: {said}");
        assert!(leaks(&said).is_empty(), "{flags:?}: {said}");
    }
}
