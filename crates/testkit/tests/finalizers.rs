//! Finalizers against a server: added on the revision that was read, conflicting if the object changed, removed with
//! the object.

#![cfg(test)]

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use listwatch::controller::{FinalizerError, Finalizers, KubeFinalizers};
use listwatch::object::Object;
use listwatch_testkit::TestServer;
use serde_json::json;

const NAME: &str = "tests.example.com/clean-up";

async fn read(maps: &Api<ConfigMap>) -> Object {
    Object::from_value(&maps.get("a").await.unwrap()).unwrap()
}

/// Each step as a controller takes it; both ways to name the kind do the same.
#[tokio::test]
async fn finalizers_are_written_to_the_version_that_was_read() {
    let server = TestServer::start().await.unwrap();
    let client = server.client().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let kinds = [
        KubeFinalizers::of::<ConfigMap>(client.clone()),
        KubeFinalizers::dynamic(client.clone(), ApiResource::erase::<ConfigMap>(&())),
    ];
    for finalizers in kinds {
        let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let before = read(&maps).await;
        finalizers.write(&before, vec![NAME.to_owned()]).await.unwrap();
        assert_eq!(maps.get("a").await.unwrap().metadata.finalizers, Some(vec![NAME.to_owned()]));

        // The object has changed since it was read.
        let stale = finalizers.write(&before, Vec::new()).await;
        assert!(matches!(stale, Err(FinalizerError::Conflict)), "{stale:?}");
        let touched = Patch::Merge(json!({"data": {"k": "v"}}));
        let current = read(&maps).await;
        maps.patch("a", &PatchParams::default(), &touched).await.unwrap();
        let stale = finalizers.write(&current, Vec::new()).await;
        assert!(matches!(stale, Err(FinalizerError::Conflict)), "{stale:?}");

        // It waits for the finalizer, and goes with it.
        maps.delete("a", &DeleteParams::default()).await.unwrap();
        let leaving = read(&maps).await;
        assert!(leaving.is_deleting());
        finalizers.write(&leaving, Vec::new()).await.unwrap();
        assert!(maps.get_opt("a").await.unwrap().is_none());

        // It is not an error if the object does not exist.
        finalizers.write(&leaving, Vec::new()).await.unwrap();
        assert!(maps.get_opt("a").await.unwrap().is_none());
    }
    server.stop().await;
}

/// Another object of the same name is not the one that was read.
#[tokio::test]
async fn finalizers_are_not_written_to_a_successor() {
    let server = TestServer::start().await.unwrap();
    let client = server.client().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let first = read(&maps).await;
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let written = KubeFinalizers::of::<ConfigMap>(client).write(&first, vec![NAME.to_owned()]).await;
    assert!(matches!(written, Err(FinalizerError::Conflict)), "{written:?}");
    assert_eq!(maps.get("a").await.unwrap().metadata.finalizers, None);
    server.stop().await;
}
