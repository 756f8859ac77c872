//! The factory: sharing of informers and their lifetime.
#![cfg(test)]

mod support;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use listwatch::InformerFactory;
use listwatch::factory::Scope;
use support::server::Server;

/// Streams one object as the initial state of any request, and stays open.
fn server() -> Server {
    let lines = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"one","namespace":"x","resourceVersion":"5","labels":{"a":"b"}}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
    );
    Server { stay_open: true, ..Server::answering(lines) }
}

#[tokio::test]
async fn equal_scopes_share_one_informer_and_different_ones_do_not() {
    let server = server();
    let factory = InformerFactory::new(server.client());
    let all = factory.informer::<ConfigMap>();
    let again = factory.informer::<ConfigMap>();
    let some = factory.informer_for::<ConfigMap>(Scope::of::<ConfigMap>().namespace("x"));
    let labelled =
        factory.informer_for::<ConfigMap>(Scope::of::<ConfigMap>().labels(&"a=b".parse().unwrap()));
    let other = factory.informer::<Secret>();
    factory.start().unwrap();
    assert!(factory.wait_for_cache_sync().await);
    assert_eq!(server.requests().len(), 4, "one watch per scope");
    assert!(all.store().get_by("x", "one").is_some() && again.store().get_by("x", "one").is_some());
    let mut names: Vec<_> = factory.status().into_iter().map(|status| status.name).collect();
    names.sort();
    assert_eq!(names, ["configmaps", "configmaps/a=b", "configmaps/x", "secrets"]);
    drop((some, labelled, other));
    factory.shutdown().await;
    assert!(all.is_stopped());
}

#[tokio::test]
async fn an_unused_informer_lives_until_it_is_released() {
    let factory = InformerFactory::new(server().client());
    let lister = factory.lister::<ConfigMap>();
    factory.start().unwrap();
    assert!(factory.wait_for_cache_sync().await);
    assert_eq!(lister.namespace("x").get("one").unwrap().revision().0, 5);
    let error = lister.namespace("x").get("two").unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (404, "configmaps \"two\" not found"));
    assert_eq!(lister.list(&"a=b".parse().unwrap()).len(), 1);
    assert_eq!(lister.namespace("x").list(&"a=c".parse().unwrap()).len(), 0);
    factory.release_unused();
    assert_eq!(factory.status().len(), 1, "the lister uses it");
    drop(lister);
    assert_eq!(factory.status().len(), 1, "the factory keeps it");
    factory.release_unused();
    assert!(factory.status().is_empty());
    // Asked for again, it is made again; and starting is for the new ones only.
    let informer = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    factory.start().unwrap();
    assert!(informer.wait_synced().await);
}

/// A handler was added to a temporary handle. The informer was dropped with it: no request was made, and the factory
/// claimed to be synced.
#[tokio::test]
async fn a_handler_added_through_a_temporary_handle_is_called() {
    let server = server();
    let factory = InformerFactory::new(server.client());
    assert!(!factory.wait_for_cache_sync().await, "a factory without informers has cached nothing");
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    factory
        .informer::<ConfigMap>()
        .add_event_handler(move |event: &listwatch::Event<ConfigMap>| {
            let _ = heard.send(event.to_string());
        })
        .unwrap();
    factory.start().unwrap();
    assert!(factory.wait_for_cache_sync().await);
    assert_eq!(hears.recv().await.as_deref(), Some("add x/one 5 initial"));
    factory.release_unused();
    assert_eq!(factory.status().len(), 1, "the handler uses it");
    drop(factory);
    while hears.recv().await.is_some() {}
}

#[tokio::test]
async fn one_can_be_stopped_without_the_others() {
    let factory = InformerFactory::new(server().client());
    let (one, two) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start().unwrap();
    assert!(factory.wait_for_cache_sync().await);
    let (lister, other) = (one.lister(), two.lister());
    assert!(!lister.is_stopped());
    one.stop().await;
    assert!(lister.is_stopped() && !other.is_stopped(), "a lister tells that its cache grows old");
    assert!(one.is_stopped() && !two.is_stopped());
    // A stopped informer is not handed out again.
    let fresh = factory.informer::<ConfigMap>();
    assert!(!fresh.is_stopped());
}
