//! The standard source over a `kube::Client` whose server is a function: the requests it sends, and the decoding of responses
//! in pieces of any size.
#![cfg(test)]

mod support;

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use listwatch::kube::layers::{RateLimit, RateLimitLayer, WarningLayer};
use listwatch::kube::{Compression, KubeSource, ResourceKind};
use listwatch::lister_watcher::{
    HeldObjects, ListRequest, ListVersion, SourceError, WatchEvent, WatchRequest,
};
use listwatch::object::{Keep, ManagedFields};
use listwatch::{ListerWatcher, Revision, SharedInformer};
use support::server::Server;
use tokio::time::Instant;

fn item(name: &str, revision: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"x","uid":"u-{name}","resourceVersion":"{revision}","labels":{{"a":"b"}},"managedFields":[{{"manager":"m","fieldsV1":{{"f:data":{{}}}}}}]}},"data":{{"text":"brackets ]}} and \" quotes \\"}}}}"#
    )
}

fn list_body() -> String {
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"77","continue":"next\u003d"}},"items":[{},{}]}}"#,
        item("one", 5),
        item("two", 6)
    )
}

fn first(version: ListVersion, limit: Option<u32>) -> ListRequest {
    ListRequest::first(version, limit)
}

fn watch(revision: Option<u64>, initial_events: bool) -> WatchRequest {
    WatchRequest { revision: revision.map(Revision), initial_events, timeout: Some(Duration::from_secs(432)) }
}

#[tokio::test]
async fn requests_are_what_a_server_expects() {
    let server = Server::answering(list_body());
    let source = KubeSource::of::<ConfigMap>(server.client());
    source.list(&first(ListVersion::Any, Some(500))).await.unwrap();
    source.list(&first(ListVersion::MostRecent, Some(500))).await.unwrap();
    source.list(&first(ListVersion::NotOlderThan(Revision(7)), None)).await.unwrap();
    let next = ListRequest { continue_token: Some("t=".to_owned()), ..first(ListVersion::Any, Some(500)) };
    source.list(&next).await.unwrap();
    let _ = source.watch(&watch(Some(7), false)).await.unwrap();
    let _ = source.watch(&watch(None, true)).await.unwrap();
    let json = "application/json identity";
    assert_eq!(
        server.requests(),
        [
            format!("/api/v1/configmaps?resourceVersion=0&limit=500 {json}"),
            format!("/api/v1/configmaps?limit=500 {json}"),
            format!("/api/v1/configmaps?resourceVersion=7&resourceVersionMatch=NotOlderThan {json}"),
            format!("/api/v1/configmaps?limit=500&continue=t%3D {json}"),
            format!(
                "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=432 {json}"
            ),
            format!(
                "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=432&sendInitialEvents=true {json}"
            ),
        ]
    );
}

#[tokio::test]
async fn scope_selectors_and_tweaks_are_sent() {
    let server = Server::answering(list_body());
    let source = KubeSource::of::<Deployment>(server.client())
        .namespace("prod")
        .labels("app=web,tier in (a,b)".parse().unwrap())
        .fields("metadata.name=web".parse().unwrap())
        .compression(Compression::All)
        .tweak(|options| options.limit = 7)
        .query("shardSelector=x");
    source.list(&first(ListVersion::Any, None)).await.unwrap();
    let resource = ResourceKind::of::<PartialObjectMeta<Deployment>>();
    let metadata = KubeSource::new(server.client(), resource);
    let _ = metadata.watch(&watch(Some(1), false)).await.unwrap();
    let seen = server.requests();
    assert!(seen[0].starts_with("/apis/apps/v1/namespaces/prod/deployments?labelSelector=app%3Dweb%2Ctier+in+%28a%2Cb%29&fieldSelector=metadata.name%3Dweb")
        || seen[0].starts_with("/apis/apps/v1/namespaces/prod/deployments?labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29&fieldSelector=metadata.name%3Dweb"), "{}", seen[0]);
    assert!(
        seen[0].contains("limit=7") && seen[0].contains("&shardSelector=x ") && seen[0].ends_with(" gzip"),
        "{}",
        seen[0]
    );
    assert!(
        seen[1].contains(" application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1 "),
        "{}",
        seen[1]
    );
}

/// Compression of everything made each small event dearer to save bytes that only lists are full of.
#[tokio::test]
async fn lists_can_be_compressed_without_watches() {
    let server = Server::answering(list_body());
    for (compression, expected) in [
        (Compression::Off, ["identity", "identity", "identity"]),
        (Compression::Lists, ["gzip", "gzip", "identity"]),
        (Compression::All, ["gzip", "gzip", "gzip"]),
    ] {
        let source = KubeSource::of::<Deployment>(server.client()).compression(compression);
        source.list(&first(ListVersion::Any, None)).await.unwrap();
        let _ = source.watch(&watch(None, true)).await.unwrap();
        let _ = source.watch(&watch(Some(1), false)).await.unwrap();
        for (request, encoding) in server.requests().iter().zip(expected) {
            assert!(request.ends_with(&format!(" {encoding}")), "{compression:?}: {request}");
        }
    }
}

#[tokio::test]
async fn a_list_is_read_whatever_the_pieces_it_comes_in() {
    let body = list_body().into_bytes();
    for size in [1, 2, 3, 7, 64, 10_000] {
        let server =
            Server { chunks: body.chunks(size).map(<[u8]>::to_vec).collect(), ..Server::answering("") };
        let source = KubeSource::of::<ConfigMap>(server.client());
        let page = source.list(&first(ListVersion::Any, None)).await.unwrap();
        assert_eq!((page.revision, page.continue_token.as_deref()), (Revision(77), Some("next=")), "{size}");
        let found: Vec<_> = page.objects.iter().map(|object| (object.name(), object.revision().0)).collect();
        assert_eq!(found, [("one", 5), ("two", 6)]);
        assert_eq!(page.objects[0].json(), item("one", 5).as_bytes());
        let map = page.objects[0].clone().cast::<ConfigMap>().get().unwrap();
        assert_eq!(map.data.as_ref().unwrap()["text"], r#"brackets ]} and " quotes \"#);
    }
}

#[tokio::test]
async fn lists_without_items_or_with_metadata_behind_them_are_lists() {
    let empty = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"5"},"items":null}"#;
    let none = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"5"}}"#;
    let behind = r#" {"items" : [ ] , "kind" : "ConfigMapList", "metadata":{"resourceVersion":"5"}} "#;
    for body in [empty, none, behind] {
        let source = KubeSource::of::<ConfigMap>(Server::answering(body).client());
        let page = source.list(&first(ListVersion::Any, None)).await.unwrap();
        assert_eq!((page.objects.len(), page.revision), (0, Revision(5)), "{body}");
    }
}

#[tokio::test]
async fn bodies_that_are_no_list_are_refused() {
    let table = r#"{"kind":"Table","metadata":{"resourceVersion":"5"},"rows":[]}"#;
    let half = &list_body()[..120];
    for body in
        ["<html>Bad gateway</html>", "", "[]", "{", table, half, r#"{"kind":"ConfigMapList","items":[1]}"#]
    {
        let source = KubeSource::of::<ConfigMap>(Server::answering(body).client());
        let error = source.list(&first(ListVersion::Any, None)).await.unwrap_err();
        assert!(matches!(error, SourceError::Malformed(_)), "{body}: {error}");
    }
}

#[tokio::test]
async fn an_item_that_is_no_object_of_the_kind_spoils_nothing() {
    let body = format!(
        r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"5"}},"items":[{{"kind":"Secret","metadata":{{"name":"s"}}}},{{"data":{{}}}},{}]}}"#,
        item("good", 3)
    );
    let source = KubeSource::of::<ConfigMap>(Server::answering(body).client());
    let page = source.list(&first(ListVersion::Any, None)).await.unwrap();
    assert_eq!((page.objects.len(), page.unusable.len()), (1, 2), "{:?}", page.unusable);
}

/// A server can send items without end: a page has a bound, and of items that cannot be used only some reasons are kept.
#[tokio::test]
async fn a_list_has_bounds() {
    let list = |items: String| {
        let body =
            format!(r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#);
        KubeSource::of::<ConfigMap>(Server::answering(body).client())
    };
    let page = list(vec!["{}"; 5000].join(",")).list(&first(ListVersion::Any, None)).await.unwrap();
    assert_eq!(page.unusable.len(), 1001);
    assert_eq!(page.unusable.last().unwrap(), "4000 more objects");
    let source = list(vec![item("a", 1); 5000].join(",")).max_list_bytes(100_000);
    let error = source.list(&first(ListVersion::Any, None)).await.unwrap_err();
    assert!(error.to_string().contains("more than 100000 bytes"), "{error}");
}

/// The reflector keeps the initial events until their end, which a server may never send; the same object again and again, too.
/// Changes after the end are not counted.
#[tokio::test]
async fn the_initial_events_of_a_streaming_list_have_a_bound() {
    let added = |count: usize| {
        let event = format!(r#"{{"type":"ADDED","object":{}}}"#, item("a", 1));
        vec![event; count].join("\n") + "\n"
    };
    let end = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let errors = async |body: String, initial| {
        let chunks = body.into_bytes().chunks(10_000).map(<[u8]>::to_vec).collect();
        let source = KubeSource::of::<ConfigMap>(Server { chunks, ..Server::answering("") }.client());
        let events = source.max_list_bytes(100_000).watch(&watch(None, initial)).await.unwrap();
        let errors = events.filter_map(async |events| events.err().map(|error| error.to_string()));
        errors.collect::<Vec<_>>().await
    };
    let told = errors(added(5000), true).await;
    assert!(matches!(&told[..], [only] if only.contains("more than 100000 bytes")), "{told:?}");
    assert!(errors(format!("{}{end}\n{}", added(10), added(5000)), true).await.is_empty());
    assert!(errors(added(5000), false).await.is_empty());
}

/// The head was read again with each byte of it, as far as an object can be long: minutes for some megabytes.
#[tokio::test]
async fn a_long_head_in_single_bytes_is_refused_early() {
    let body = format!(r#"{{"a":"{}"}}"#, "x".repeat(200_000));
    let chunks = body.into_bytes().chunks(1).map(<[u8]>::to_vec).collect();
    let source = KubeSource::of::<ConfigMap>(Server { chunks, ..Server::answering("") }.client());
    let error = source.list(&first(ListVersion::Any, None)).await.unwrap_err();
    assert!(error.to_string().contains("first 65536 bytes"), "{error}");
}

/// A response without a body was an error without a message.
#[tokio::test]
async fn an_empty_error_names_its_code() {
    let server = Server { code: 302, ..Server::answering("") };
    let source = KubeSource::of::<ConfigMap>(server.client());
    let error = source.list(&first(ListVersion::Any, None)).await.unwrap_err();
    assert_eq!(error.to_string(), "the server answered with 302");
}

fn watch_body() -> String {
    let typed = |name: &str, revision| {
        item(name, revision).replacen('{', r#"{"kind":"ConfigMap","apiVersion":"v1","#, 1)
    };
    format!(
        "{{\"type\":\"ADDED\",\"object\":{}}}\n{{\"type\":\"MODIFIED\",\"object\":{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p\"}}}}}}\n{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"metadata\":{{\"resourceVersion\":\"9\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n{{\"type\":\"DELETED\",\"object\":{}}}\n{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}}}}\n",
        typed("one", 5),
        typed("one", 10)
    )
}

async fn all_events(server: &Server) -> Result<Vec<String>, SourceError> {
    let source = KubeSource::of::<ConfigMap>(server.client());
    let mut stream = source.watch(&watch(Some(1), false)).await?;
    let mut all = Vec::new();
    while let Some(batch) = stream.next().await {
        for event in batch? {
            all.push(match event {
                WatchEvent::Added(object) => format!("added {object:?}"),
                WatchEvent::Modified(object) => format!("modified {object:?}"),
                WatchEvent::Deleted(object) => format!("deleted {object:?}"),
                WatchEvent::Bookmark { revision, initial_events_end } => {
                    format!("bookmark {revision} {initial_events_end}")
                }
                WatchEvent::Error(status) => format!("error {}", status.code),
                WatchEvent::Unusable(reason) => format!("unusable: {reason}"),
                WatchEvent::Rejected { .. } => "rejected".to_owned(),
            });
        }
    }
    Ok(all)
}

const EVENTS: [&str; 5] = [
    "added x/one@5",
    "unusable: expected a ConfigMap, got a Pod",
    "bookmark 9 true",
    "deleted x/one@10",
    "error 410",
];

#[tokio::test]
async fn a_watch_is_read_whatever_the_pieces_it_comes_in() {
    for size in [1, 5, 100, 10_000] {
        let chunks = watch_body().into_bytes().chunks(size).map(<[u8]>::to_vec).collect();
        let server = Server { chunks, ..Server::answering("") };
        assert_eq!(all_events(&server).await.unwrap(), EVENTS, "{size}");
    }
}

/// Servers from 1.37 on compress each event of a watch as a gzip member of its own.
#[tokio::test]
async fn gzip_members_are_read_one_after_the_other() {
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let members: Vec<Vec<u8>> = watch_body().split_inclusive('\n').map(gzip).collect();
    let joined = members.concat();
    for chunks in [members, vec![joined.clone()], joined.chunks(3).map(<[u8]>::to_vec).collect()] {
        let headers = vec![("content-encoding", "gzip".to_owned())];
        let server = Server { chunks, headers, ..Server::answering("") };
        assert_eq!(all_events(&server).await.unwrap(), EVENTS);
    }
}

#[tokio::test]
async fn half_an_event_and_rubbish_break_the_stream_after_what_was_good() {
    let good = watch_body().lines().next().unwrap().to_owned();
    for rest in ["{\"type\":\"ADDED\",\"obj", "<html>\n"] {
        let server =
            Server { chunks: vec![format!("{good}\n").into_bytes(), rest.into()], ..Server::answering("") };
        let source = KubeSource::of::<ConfigMap>(server.client());
        let mut stream = source.watch(&watch(Some(1), false)).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 1);
        let mut last = None;
        while let Some(item) = stream.next().await {
            last = Some(item);
        }
        assert!(matches!(last, Some(Err(SourceError::Malformed(_)))), "{rest}: {last:?}");
    }
}

#[tokio::test]
async fn failures_keep_their_code_their_reason_and_their_retry_after() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","message":"old","code":410}"#;
    let error = |code, headers: Vec<(&'static str, String)>, body: &str| {
        let server = Server { code, headers, ..Server::answering(body) };
        async move {
            KubeSource::of::<ConfigMap>(server.client())
                .list(&first(ListVersion::Any, None))
                .await
                .unwrap_err()
        }
    };
    assert!(error(410, Vec::new(), status).await.is_expired());
    assert!(error(410, Vec::new(), "<html>").await.is_expired());
    let busy = error(429, vec![("retry-after", "7".to_owned())], "slow down").await;
    assert!(busy.is_too_many_requests());
    assert_eq!(busy.retry_after(), Some(Duration::from_secs(7)));
    assert!(error(422, Vec::new(), "").await.is_refusal());
}

#[tokio::test]
async fn managed_fields_are_removed_on_request() {
    let keep = Keep::default().managed_fields(ManagedFields::Drop);
    let source = KubeSource::of::<ConfigMap>(Server::answering(list_body()).client()).keep(keep);
    let page = source.list(&first(ListVersion::Any, None)).await.unwrap();
    let object = page.objects[0].clone().cast::<ConfigMap>();
    assert!(!String::from_utf8_lossy(object.json()).contains("managedFields"));
    assert_eq!(object.label("a").as_deref(), Some("b"));
    assert!(object.get().unwrap().metadata.managed_fields.is_none());
    assert_eq!(object.uid(), "u-one");
}

/// An informer over the real source, from the bytes of a stream to a decoded object.
#[tokio::test]
async fn an_informer_over_the_client_syncs_and_decodes() {
    let body: String = watch_body().split_inclusive('\n').take(3).collect();
    let server = Server { chunks: vec![body.into_bytes()], ..Server::answering("") };
    let informer = SharedInformer::<ConfigMap>::new(KubeSource::of::<ConfigMap>(server.client()));
    informer.start().unwrap();
    assert!(informer.wait_synced().await);
    let map = informer.store().get_by("x", "one").unwrap();
    assert_eq!(map.get().unwrap().metadata.name.as_deref(), Some("one"));
    assert_eq!(informer.store().revision(), Revision(9));
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_rate_limit_holds_requests_back_but_not_watches() {
    let server = Server::answering(list_body());
    let limit = Arc::new(RateLimit::new(10.0, 3));
    let layered = |server: &Server| {
        let layer = RateLimitLayer::new(Arc::clone(&limit));
        kube::Client::new(tower::Layer::layer(&layer, server.service()), "default")
    };
    // Two clients share the limit: three requests at once, then one each tenth of a second.
    let (one, two) =
        (KubeSource::of::<ConfigMap>(layered(&server)), KubeSource::of::<ConfigMap>(layered(&server)));
    let started = Instant::now();
    for at in 0..8 {
        let source = if at % 2 == 0 { &one } else { &two };
        source.list(&first(ListVersion::Any, None)).await.unwrap();
        let _ = source.watch(&watch(Some(1), false)).await.unwrap();
    }
    let waited = started.elapsed().as_millis();
    assert!((450..=550).contains(&waited), "{waited} ms");
}

#[tokio::test]
async fn warnings_reach_their_hook() {
    let headers = vec![("warning", "299 - \"v1beta1 is deprecated\"".to_owned())];
    let server = Server { headers, ..Server::answering(list_body()) };
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let inner = Arc::clone(&heard);
    let layer = WarningLayer::new(move |text| inner.lock().unwrap().push(text.to_owned()));
    let client = kube::Client::new(tower::Layer::layer(&layer, server.service()), "default");
    KubeSource::of::<ConfigMap>(client).list(&first(ListVersion::Any, None)).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["v1beta1 is deprecated"]);
}

/// Logs are read by many; what breaks off in the middle of a secret must not carry it there.
#[tokio::test]
async fn unreadable_bodies_are_not_quoted_unless_they_are_web_pages() {
    let server = Server { chunks: vec![b"cGFzc3dvcmQ=\"}}}\n".to_vec()], ..Server::answering("") };
    assert!(!all_events(&server).await.unwrap_err().to_string().contains("cGFzc3dvcmQ="));
    let body = r#"{"kind":"SecretList","metadata":{},"items":[{"metadata":{"name":"a"}}cGFzc3dvcmQ="#;
    let source = KubeSource::of::<ConfigMap>(Server::answering(body).client());
    let error = source.list(&first(ListVersion::Any, None)).await.unwrap_err();
    assert!(!error.to_string().contains("cGFzc3dvcmQ="), "{error}");
    let page = Server { chunks: vec![b"<html>Bad gateway</html>\n".to_vec()], ..Server::answering("") };
    assert!(all_events(&page).await.unwrap_err().to_string().contains("Bad gateway"));
}

/// A line that cannot be read was reported only when something else came after it, which may take a minute.
#[tokio::test(start_paused = true)]
async fn a_malformed_line_is_reported_at_once() {
    let good = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}"#;
    let server = Server { stay_open: true, ..Server::answering(format!("{good}\nrubbish\n")) };
    let source = KubeSource::of::<ConfigMap>(server.client());
    let mut stream = source.watch(&watch(Some(7), false)).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().len(), 1);
    let error = tokio::time::timeout(std::time::Duration::from_secs(1), stream.next()).await;
    assert!(matches!(error.expect("it does not wait for more"), Some(Err(SourceError::Malformed(_)))));
    assert!(stream.next().await.is_none());
}

/// The request went to a path that no server knows, again and again.
#[tokio::test(start_paused = true)]
async fn a_namespace_of_a_cluster_scoped_kind_is_refused() {
    let nodes = KubeSource::of::<k8s_openapi::api::core::v1::Node>(Server::default().client());
    let informer = listwatch::SharedInformer::<listwatch::Raw>::new(nodes.namespace("x"));
    let error = informer.start().unwrap_err().to_string();
    assert!(error.contains("nodes are not in namespaces"), "{error}");
}

/// An `Api` knows its kind and its namespace.
#[tokio::test]
async fn an_api_is_a_source() {
    let server = Server::answering(list_body());
    let api = kube::Api::<Deployment>::namespaced(server.client(), "prod");
    KubeSource::from(api).list(&first(ListVersion::MostRecent, None)).await.unwrap();
    assert!(server.requests()[0].starts_with("/apis/apps/v1/namespaces/prod/deployments"));
}

const DELTAS: &str = "application/json;stream=watch;delta=json-patch,application/json";

#[tokio::test]
async fn deltas_are_requested_only_by_informers_of_whole_objects() {
    let server = Server::answering(watch_body());
    let source = KubeSource::of::<ConfigMap>(server.client());
    let held = HeldObjects::new(|_, _| None);
    let mut stream = source.watch_holding(&watch(Some(7), false), &held).await.unwrap();
    // This server knows no patches: its stream is read as ever.
    assert!(matches!(stream.next().await.unwrap().unwrap()[0], WatchEvent::Added(_)));
    let dropping = source.clone().keep(Keep::default().managed_fields(ManagedFields::Drop));
    let metadata = KubeSource::new(server.client(), ResourceKind::of::<PartialObjectMeta<ConfigMap>>());
    for source in [source.clone().deltas(false), dropping, metadata] {
        let _ = source.watch_holding(&watch(Some(7), false), &held).await.unwrap();
    }
    let _ = source.watch(&watch(Some(7), false)).await.unwrap();
    let asked: Vec<bool> = server.requests().iter().map(|request| request.contains(DELTAS)).collect();
    assert_eq!(asked, [true, false, false, false, false]);
}

#[tokio::test]
async fn a_patch_that_does_not_fit_ends_the_stream_and_the_next_watches_are_of_whole_objects() {
    let delta = r#"{"type":"MODIFIED","delta":{"namespace":"x","name":"none","uid":"u","base":"5","resourceVersion":"9","at":1,"bytes":1,"crc32":"00000000","patch":[{"op":"remove","path":"/data","at":[1,1]}]}}"#;
    let body = format!("{}{delta}\n", watch_body());
    let mut server = Server::answering(body);
    server.headers = vec![("content-type", "application/json;stream=watch;delta=json-patch".to_owned())];
    let source = KubeSource::of::<ConfigMap>(server.client());
    let held = HeldObjects::new(|_, _| None);
    let mut stream = source.watch_holding(&watch(Some(7), false), &held).await.unwrap();
    // What came before it counts.
    assert!(!stream.next().await.unwrap().unwrap().is_empty());
    let broken = stream.next().await.unwrap();
    assert!(matches!(broken, Err(SourceError::Delta(_))), "{broken:?}");
    assert!(stream.next().await.is_none());
    for _ in 0..3 {
        let _ = source.watch_holding(&watch(Some(8), false), &held).await.unwrap();
    }
    let asked: Vec<bool> = server.requests().iter().map(|request| request.contains(DELTAS)).collect();
    assert_eq!(asked, [true, false, false, true]);
}
