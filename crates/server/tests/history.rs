//! The history of an object: its versions, their difference, lists as of an older revision, and the rights to see them.

#![cfg(test)]

mod common;

use std::sync::Arc;

use common::{Client, config_map, names, start, start_on, start_with, version};
use listwatch_server::{Options, Security, Server};
use listwatch_storage::{EmbeddedEngine, EmbeddedOptions, MemoryOptions};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OF_A: &str = "version=v1&resource=configmaps&namespace=default&name=a";

async fn history(client: &mut Client, more: &str) -> Value {
    client.get(&format!("/listwatch/v1/history?{OF_A}{more}")).await
}

fn revisions(history: &Value) -> Vec<u64> {
    let versions = history["versions"].as_array().unwrap_or_else(|| panic!("{history}"));
    versions.iter().map(|v| v["resourceVersion"].as_str().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn versions_come_newest_first_with_their_writers_and_their_objects() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let first = client.create("a", "0").await;
    let put = config_map("a", "1").to_string();
    client
        .send("PUT", &format!("{MAPS}/a?fieldManager=person"), "content-type: application/json\r\n", &put)
        .await;
    let second = version(&client.answer().await.json());
    client.call("DELETE", &format!("{MAPS}/a"), None).await;
    let last = client.create("a", "2").await;
    let found = history(&mut client, "").await;
    let all = revisions(&found);
    assert_eq!((all.len(), all[0], all[2], all[3]), (4, last, second, first), "{found}");
    let versions = found["versions"].as_array().unwrap();
    assert_eq!((&versions[1]["deleted"], versions[1].get("object")), (&json!(true), None));
    assert_eq!((&versions[2]["manager"], &versions[2]["operation"]), (&json!("person"), &json!("Update")));
    assert!(versions[2]["time"].as_str().unwrap().ends_with('Z'));
    assert_eq!(versions[2]["object"]["data"]["k"], json!("1"));
    assert_eq!(version(&versions[2]["object"]), second);
    assert_eq!(
        (&versions[0]["object"]["kind"], &versions[0]["object"]["data"]["k"]),
        (&json!("ConfigMap"), &json!("2"))
    );
}

/// `managedFields` name programs. The history of an object did not name the user of a change or deletion.
#[tokio::test]
async fn history_names_the_user_of_each_change_and_deletion() {
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedEngine::open(directory.path(), EmbeddedOptions::default()).await.unwrap();
    let options = Options { security: Security::InsecureHttp, ..Options::default() };
    let server = Server::start(options, Arc::new(engine)).await.unwrap();
    let mut client = Client::new(&server).await;
    client.create("a", "0").await;
    let put = config_map("a", "1").to_string();
    let headers =
        "content-type: application/json\r\nimpersonate-user: alice\r\nimpersonate-group: system:masters\r\n";
    client.send("PUT", &format!("{MAPS}/a"), headers, &put).await;
    assert_eq!(client.answer().await.status, 200);
    let headers = "impersonate-user: bob\r\nimpersonate-group: system:masters\r\n";
    client.send("DELETE", &format!("{MAPS}/a"), headers, "").await;
    assert_eq!(client.answer().await.status, 200);
    let found = history(&mut client, "").await;
    let user = |version: usize| found["versions"][version]["user"].as_str().unwrap_or_default().to_owned();
    assert_eq!((user(0), user(1)), ("bob".to_owned(), "alice".to_owned()), "{found}");
    assert!(!user(2).is_empty() && user(2) != "alice", "{found}");
    assert!(found["versions"][0]["time"].as_str().unwrap().ends_with('Z'));
    server.shutdown().await;
}

#[tokio::test]
async fn pages_follow_each_other_and_end() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut written = vec![client.create("a", "0").await];
    for n in 1..7 {
        written.insert(0, client.update("a", &n.to_string()).await);
        client.create(&format!("other-{n}"), "x").await;
    }
    let (mut seen, mut next, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = history(&mut client, &format!("&limit=3&continue={next}")).await;
        assert!(revisions(&page).len() <= 3);
        seen.extend(revisions(&page));
        pages += 1;
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!((seen, pages), (written, 3));
}

#[tokio::test]
async fn the_difference_of_two_versions_is_a_patch_that_leads_from_one_to_the_other() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let first = client.create("a", "0").await;
    let labelled = json!({"metadata": {"name": "a", "labels": {"x/y": "1"}}, "data": {"k": "1", "l": "2"}});
    let second = version(&client.call("PUT", &format!("{MAPS}/a"), Some(&labelled)).await.json());
    let path = |from: u64, to: u64| format!("/listwatch/v1/history/diff?{OF_A}&from={from}&to={to}");
    let found = client.get(&path(first, second)).await;
    let patch = found["patch"].as_array().unwrap();
    let at =
        |path: &str| patch.iter().find(|op| op["path"] == path).unwrap_or_else(|| panic!("{path}: {found}"));
    assert_eq!(at("/metadata/labels")["value"], json!({"x/y": "1"}));
    assert_eq!(at("/metadata/resourceVersion")["value"], json!(second.to_string()));
    assert!(patch.iter().all(|op| op.get("at").is_none()));
    // A revision of another object selects the version that was current then.
    client.create("b", "0").await;
    let later = client.create("c", "0").await;
    assert_eq!(client.get(&path(first, later)).await["patch"], found["patch"]);
    for (from, to, code) in [(first, 99_999, 504), (1, second, 404)] {
        assert_eq!(client.call("GET", &path(from, to), None).await.status, code, "{from} {to}");
    }
    let without = format!("/listwatch/v1/history/diff?{OF_A}&from={first}");
    assert_eq!(client.call("GET", &without, None).await.status, 400);
}

#[tokio::test]
async fn a_version_is_restored_by_writing_it() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "good").await;
    client.update("a", "bad").await;
    let found = history(&mut client, "").await;
    let mut old = found["versions"][1]["object"].clone();
    old["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let restored = client.call("PUT", &format!("{MAPS}/a"), Some(&old)).await;
    assert_eq!((restored.status, &restored.json()["data"]["k"]), (200, &json!("good")));
}

#[tokio::test]
async fn a_list_shows_an_older_revision_exactly() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "0").await;
    let at = client.create("b", "0").await;
    client.call("DELETE", &format!("{MAPS}/a"), None).await;
    client.update("b", "1").await;
    let query = format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact");
    let list = client.get(&query).await;
    assert_eq!((names(&list), &list["items"][1]["data"]["k"]), (vec!["a".into(), "b".into()], &json!("0")));
}

#[tokio::test]
async fn history_ends_where_retention_does() {
    let memory = MemoryOptions { history_changes: 3, ..MemoryOptions::default() };
    let server = start_with(Options::default(), memory).await;
    let mut client = Client::new(&server).await;
    let first = client.create("a", "0").await;
    let mut last = first;
    for n in 1..10 {
        last = client.update("a", &n.to_string()).await;
    }
    // The three changes that are kept, and the version before them.
    assert_eq!(revisions(&history(&mut client, "").await).len(), 4);
    let path = format!("/listwatch/v1/history/diff?{OF_A}&from={first}&to={last}");
    assert_eq!(client.call("GET", &path, None).await.status, 410);
}

#[tokio::test]
async fn the_rights_are_those_to_get_the_object() {
    let server = start_on(Options::default()).await;
    let mut client = Client::new(&server).await;
    client.create("a", "0").await;
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]});
    let binding = json!({"metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    for (path, body) in [("roles", role), ("rolebindings", binding)] {
        assert_eq!(client.call("POST", &format!("{rbac}/{path}"), Some(&body)).await.status, 201);
    }
    let mut asked = async |user: &str, query: &str| {
        let headers = format!("impersonate-user: {user}\r\n");
        client.send("GET", &format!("/listwatch/v1/history?{query}"), &headers, "").await;
        client.answer().await
    };
    assert_eq!(asked("bob", OF_A).await.status, 200);
    let refused = asked("bob", &OF_A.replace("name=a", "name=b")).await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.json()["message"].as_str().unwrap().contains("cannot get resource \"configmaps\""),
        "{}",
        refused.json()
    );
    assert_eq!(asked("eve", OF_A).await.status, 403);
    assert_eq!(asked("bob", &OF_A.replace("configmaps", "secrets")).await.status, 403);
}

#[tokio::test]
async fn the_history_of_a_missing_object_is_answered_like_a_get() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "0").await;
    for (query, code) in [
        (OF_A.replace("name=a", "name=none"), 404),
        (OF_A.replace("configmaps", "nothings"), 404),
        ("version=v1&resource=configmaps&namespace=default".to_owned(), 400),
        (format!("{OF_A}&limit=-1"), 400),
        (format!("{OF_A}&limit=x"), 400),
        (format!("{OF_A}&continue=x"), 400),
    ] {
        assert_eq!(
            client.call("GET", &format!("/listwatch/v1/history?{query}"), None).await.status,
            code,
            "{query}"
        );
    }
    assert_eq!(client.call("POST", &format!("/listwatch/v1/history?{OF_A}"), None).await.status, 405);
}

/// Four hundred requests for the history of an object of a megabyte, none of which was read, held 1.3 GB.
#[tokio::test]
async fn pages_that_are_not_read_are_bounded() {
    let mut options = Options::default();
    options.requests.user_histories_bytes = 16 << 20;
    let server = start_on(options).await;
    let mut client = Client::new(&server).await;
    for n in 0..5 {
        let data = format!("{n}").repeat(900_000);
        if n == 0 {
            client.create("a", &data).await
        } else {
            client.update("a", &data).await
        };
    }
    let mut unread = Vec::new();
    for _ in 0..2 {
        // The system would otherwise take the whole page for the client.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut client = Client::new(&server).await;
        client.stream = tokio::io::BufReader::new(socket.connect(server.address()).await.unwrap());
        client.send("GET", &format!("/listwatch/v1/history?{OF_A}"), "", "").await;
        assert_eq!(client.head().await.0, 200);
        unread.push(client);
    }
    client.send("GET", &format!("/listwatch/v1/history?{OF_A}"), "", "").await;
    let waits = tokio::time::timeout(std::time::Duration::from_millis(300), client.head()).await;
    assert!(waits.is_err(), "two pages are the share of one user");
    drop(unread);
    let mut client = Client::new(&server).await;
    assert_eq!(revisions(&history(&mut client, "").await).len(), 5, "there is room again");
}
