//! `listwatch serve`: its ready line, its failures, its shutdown.

#![cfg(test)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

fn listwatch(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// A running server; killed when dropped.
struct Running {
    process: Child,
    stderr: BufReader<ChildStderr>,
    url: String,
    hint: String,
}

impl Running {
    fn start(arguments: &[&str], directory: &Path) -> Self {
        let mut process = listwatch(arguments, directory).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let (ready, hint) = (line(&mut stderr), line(&mut stderr));
        let data = line(&mut stderr);
        assert!(data.starts_with("data: "), "{data}");
        let console = line(&mut stderr);
        assert!(
            console.starts_with("console: https://") || console.starts_with("console: http://"),
            "{console}"
        );
        let words: Vec<_> = ready.split_whitespace().collect();
        assert!(matches!(words[..], ["ready", _, "in", _, "ms"]), "{ready}");
        Self { process, stderr, url: words[1].to_owned(), hint }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end; the exit code and what was said since the start.
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.process.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn line(reader: &mut impl BufRead) -> String {
    let mut text = String::new();
    reader.read_line(&mut text).unwrap();
    text.trim_end().to_owned()
}

/// The kubeconfig that the second line of output names.
fn kubeconfig(running: &Running) -> PathBuf {
    let words: Vec<_> = running.hint.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--kubeconfig").unwrap();
    words[at + 1].into()
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The start must fail with one line that contains `text`, and leave nothing in the directory but what was there.
fn fails(arguments: &[&str], directory: &Path, text: &str) {
    let before = entries(directory);
    let Output { status, stdout, stderr } = listwatch(arguments, directory).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("listwatch: ") && said.contains(text), "{said}");
    assert!(stdout.is_empty());
    assert_eq!(entries(directory), before);
}

#[test]
fn the_ready_line_has_the_address_and_a_kubectl_command() {
    let directory = TempDir::new().unwrap();
    let running = Running::start(&["serve", "--bind", "127.0.0.1:0"], directory.path());
    assert!(running.url.starts_with("https://127.0.0.1:"), "{}", running.url);
    assert!(running.hint.contains("kubectl --kubeconfig "), "{}", running.hint);
    let file = directory.path().join(kubeconfig(&running));
    assert!(std::fs::read_to_string(&file).unwrap().contains(&running.url));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(entries(directory.path()), ["listwatch-data"]);
}

#[test]
fn the_server_ends_with_success_on_sigint_and_sigterm() {
    for name in ["TERM", "INT"] {
        let directory = TempDir::new().unwrap();
        let running = Running::start(&["serve", "--memory", "--bind", "127.0.0.1:0"], directory.path());
        running.signal(name);
        let (code, said) = running.end();
        assert_eq!(code, Some(0), "SIG{name}");
        let lines: Vec<_> = said.lines().collect();
        assert!(
            matches!(lines[..], [a, b, c] if a.contains("started") && b.contains("stopping") && c.contains("stopped")),
            "{said}"
        );
        assert!(!said.contains('\x1b'), "no colours in what is not a terminal");
    }
}

/// Waits until a process handles SIGINT itself.
#[cfg(target_os = "linux")]
fn await_signal_handler(process: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() & (1 << 1) != 0 {
            return;
        }
        assert!(Instant::now() < deadline, "no handler of SIGINT");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A start that waited for an etcd that is away used to end ten seconds after Ctrl-C.
#[cfg(target_os = "linux")]
#[test]
fn a_start_that_waits_for_etcd_ends_on_a_signal() {
    let directory = TempDir::new().unwrap();
    let arguments = ["serve", "--bind", "127.0.0.1:0", "--etcd-endpoints", "http://127.0.0.1:1"];
    let mut process = listwatch(&arguments, directory.path()).stderr(Stdio::null()).spawn().unwrap();
    await_signal_handler(process.id());
    let interrupted = Instant::now();
    assert!(Command::new("kill").args(["-s", "INT", &process.id().to_string()]).status().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(0));
    assert!(interrupted.elapsed() < Duration::from_secs(5), "{:?}", interrupted.elapsed());
    assert!(entries(directory.path()).is_empty());
}

/// Status line of a GET without credentials.
fn without_credentials(running: &Running, path: &str) -> String {
    let address = running.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    line(&mut BufReader::new(stream))
}

#[test]
fn anonymous_requests_can_be_refused() {
    let directory = TempDir::new().unwrap();
    let serve = ["serve", "--memory", "--insecure-http", "--bind", "127.0.0.1:0"];
    for (flag, version, pods) in [(None, "200", "403"), (Some("--anonymous-auth=false"), "401", "401")] {
        let arguments: Vec<&str> = serve.into_iter().chain(flag).collect();
        let running = Running::start(&arguments, directory.path());
        for (path, status) in [("/version", version), ("/api/v1/pods", pods)] {
            let answer = without_credentials(&running, path);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{flag:?} {path}: {answer}");
        }
        running.signal("TERM");
        running.end();
    }
}

#[test]
fn an_in_memory_server_leaves_no_files() {
    let directory = TempDir::new().unwrap();
    let running = Running::start(&["serve", "--memory", "--bind", "127.0.0.1:0"], directory.path());
    let file = kubeconfig(&running);
    assert!(file.exists());
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
    assert!(!file.exists());
    assert!(entries(directory.path()).is_empty());
}

#[test]
fn a_second_start_has_the_same_credentials() {
    let directory = TempDir::new().unwrap();
    let read = |running: &Running| {
        let text = std::fs::read_to_string(directory.path().join(kubeconfig(running))).unwrap();
        // The client certificate is issued again at each start; the CA that vouches for it and the token stay.
        let lasting =
            |line: &&str| !line.contains("client-certificate-data") && !line.contains("client-key-data");
        text.replace(&running.url, "URL").lines().filter(lasting).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = Running::start(&["serve", "--bind", "127.0.0.1:0"], directory.path());
    let before = read(&first);
    first.signal("TERM");
    assert_eq!(first.end().0, Some(0));
    let second = Running::start(&["serve", "--bind", "127.0.0.1:0"], directory.path());
    assert_eq!(read(&second), before);
}

#[test]
fn the_kubeconfig_is_written_to_the_given_path() {
    let directory = TempDir::new().unwrap();
    let arguments =
        ["serve", "--memory", "--insecure-http", "--bind", "127.0.0.1:0", "--kubeconfig-out", "here.yaml"];
    let running = Running::start(&arguments, directory.path());
    assert!(running.url.starts_with("http://"));
    assert!(directory.path().join("here.yaml").exists());
}

#[test]
fn a_taken_port_is_one_clear_line() {
    let directory = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&["serve", "--bind", &address], directory.path(), &address);
}

#[test]
fn a_token_file_that_cannot_be_used_is_one_clear_line() {
    let directory = TempDir::new().unwrap();
    let arguments = ["serve", "--bind", "127.0.0.1:0", "--token-auth-file", "missing.csv"];
    fails(&arguments, directory.path(), "missing.csv");
    std::fs::write(directory.path().join("bad.csv"), "only-one-field\n").unwrap();
    fails(&["serve", "--bind", "127.0.0.1:0", "--token-auth-file", "bad.csv"], directory.path(), "bad.csv");
}

#[test]
fn a_data_directory_that_cannot_be_written_is_one_clear_line() {
    let directory = TempDir::new().unwrap();
    // A file in the way stops root as well, whom no permission stops.
    std::fs::write(directory.path().join("file"), "").unwrap();
    fails(&["serve", "--bind", "127.0.0.1:0", "--data-dir", "file/data"], directory.path(), "file/data");
}

#[test]
fn a_data_directory_in_use_names_the_process_that_has_it() {
    let directory = TempDir::new().unwrap();
    let running = Running::start(&["serve", "--bind", "127.0.0.1:0"], directory.path());
    fails(
        &["serve", "--bind", "127.0.0.1:0"],
        directory.path(),
        &format!("process {}", running.process.id()),
    );
}

#[test]
fn usage_errors_and_failures_have_different_exit_codes() {
    let directory = TempDir::new().unwrap();
    let output =
        listwatch(&["serve", "--memory", "--etcd-endpoints", "http://127.0.0.1:1"], directory.path())
            .output()
            .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// A pipe to `head` takes one line and closes: writing to a closed pipe must not end the server.
#[test]
fn the_server_survives_a_closed_stderr() {
    let directory = TempDir::new().unwrap();
    let arguments = ["serve", "--memory", "--bind", "127.0.0.1:0", "--kubeconfig-out", "config"];
    let mut process = listwatch(&arguments, directory.path()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stderr.take());
    let deadline = Instant::now() + Duration::from_secs(20);
    let address = loop {
        let config = std::fs::read_to_string(directory.path().join("config")).unwrap_or_default();
        if let Some((_, rest)) = config.split_once("server: https://") {
            break rest.lines().next().unwrap().trim().to_owned();
        }
        assert!(Instant::now() < deadline, "no kubeconfig");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(std::net::TcpStream::connect(address).is_ok());
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(0), "a panic would be 101");
}

#[test]
fn debug_logs_are_about_the_server_and_json_is_one_object_per_line() {
    let directory = TempDir::new().unwrap();
    let arguments = [
        "serve",
        "--memory",
        "--insecure-http",
        "--bind",
        "127.0.0.1:0",
        "--log",
        "debug",
        "--log-format",
        "json",
    ];
    let running = Running::start(&arguments, directory.path());
    let address = running.url.trim_start_matches("http://").to_owned();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    connection.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    running.signal("TERM");
    let (_, said) = running.end();
    for line in said.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["target"].as_str().unwrap().starts_with("listwatch"), "{line}");
    }
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let version: serde_json::Value = serde_json::from_str(body).unwrap();
    let commit = version["gitCommit"].as_str().unwrap();
    assert!(
        commit == "unknown" || commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()),
        "{version}"
    );
    let date = version["buildDate"].as_str().unwrap();
    assert!(date == "unknown" || date.len() == 20 && date.ends_with('Z'), "{version}");
}

/// A failed request is in the log and on the page of recent errors.
#[test]
fn rejected_requests_are_on_the_page_of_recent_errors() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("tokens.csv"), "secret,admin,admin,\"system:masters\"\n").unwrap();
    let arguments =
        ["serve", "--memory", "--insecure-http", "--bind", "127.0.0.1:0", "--token-auth-file", "tokens.csv"];
    let running = Running::start(&arguments, directory.path());
    let get = |path: &str, token: &str| {
        let mut connection = std::net::TcpStream::connect(running.url.trim_start_matches("http://")).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/api/v1/secrets", "wrong").starts_with("HTTP/1.1 401"));
    let index = get("/debug/listwatch", "secret");
    assert!(
        index.contains("/debug/listwatch/errors") && index.contains("/debug/listwatch/watches"),
        "{index}"
    );
    let errors = get("/debug/listwatch/errors", "secret");
    assert!(errors.contains("\"code\":401") && errors.contains("/api/v1/secrets"), "{errors}");
}
