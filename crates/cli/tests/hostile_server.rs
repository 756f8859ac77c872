//! Commands against a hostile server: lists without an end, and text that controls the terminal.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

const RESOURCES: &str = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
    {"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["list"]}]}"#;
const VERSION: &str = r#"{"major":"1","minor":"37"}"#;

/// Reads one request head; `None` at the end of the connection.
fn head(connection: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    String::from_utf8(head).ok()
}

fn serve(mut connection: TcpStream, answer: fn(&str) -> String) {
    while let Some(head) = head(&mut connection) {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let body = match path {
            "/version" => VERSION.to_owned(),
            "/api/v1" => RESOURCES.to_owned(),
            _ => answer(&head),
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        if connection.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// A kubeconfig of a server that responds like this.
fn server(answer: fn(&str) -> String) -> (TempDir, PathBuf) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            std::thread::spawn(move || serve(connection.unwrap(), answer));
        }
    });
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    std::fs::write(&file, text).unwrap();
    (directory, file)
}

fn run(arguments: &[&str], kubeconfig: &PathBuf) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

/// Each page named a next one, and the commands asked for it for ever.
#[test]
fn lists_without_an_end_are_given_up() {
    let (_directory, kubeconfig) = server(|head| {
        let kind = if head.contains("Table") { "Table" } else { "ConfigMapList" };
        format!(
            r#"{{"kind":"{kind}","metadata":{{"resourceVersion":"5","continue":"again"}},"columnDefinitions":[],"rows":[],"items":[],"versions":[]}}"#
        )
    });
    for command in
        [&["list", "configmaps"][..], &["list", "configmaps", "-o", "json"], &["history", "configmap", "a"]]
    {
        let output = run(command, &kubeconfig);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("repeats a continue token"), "{command:?}: {text}");
    }
}

/// JSON was passed on as it came, with escape sequences in it; so were cells of tables that are lists.
#[test]
fn no_output_controls_the_terminal() {
    let (_directory, kubeconfig) = server(|head| {
        let rest = if head.contains("Table") {
            "\"columnDefinitions\":[{\"name\":\"N\u{9b}\"}],\"rows\":[{\"cells\":[[\"a\u{9b}5m\u{202e}\"]]}]"
        } else {
            "\"items\":[{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"1\",\"annotations\":{\"a\":\"\u{9b}5m\u{7f}\"}}}]"
        };
        let kind = if head.contains("Table") { "Table" } else { "ConfigMapList" };
        format!("{{\"kind\":\"{kind}\",\"metadata\":{{\"resourceVersion\":\"5\"}},{rest}}}")
    });
    for form in ["table", "json", "yaml", "name"] {
        let output = run(&["list", "configmaps", "-o", form], &kubeconfig);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{form}: {}", String::from_utf8_lossy(&output.stderr));
        let is_unsafe = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.is_empty() && !text.contains(is_unsafe), "{form}: {text:?}");
    }
}
