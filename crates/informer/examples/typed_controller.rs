//! A controller for a custom resource with everything a real one has: a definition, a typed informer, a queue, leader
//! election, and events for users. For every `Greeting` it keeps a ConfigMap with the text.
//!
//! `cargo run -p listwatch --example typed_controller`, then
//! `kubectl create -f - <<< '{apiVersion: example.com/v1, kind: Greeting, metadata: {name: hi}, spec: {text: hello}}'`.
//!
//! It talks to the cluster of your kubeconfig. Without a cluster, `cargo run --release -- serve --memory` starts a server
//! and prints the path of a kubeconfig to put into `KUBECONFIG`.

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, CustomResourceExt, Resource, ResourceExt};
use kube_derive::CustomResource;
use listwatch::event_recorder::{EventRecorder, KubeSink, ObjectReference, Occurrence, Reporter};
use listwatch::leader_election::{ElectionOptions, KubeLease, LeaderElection, Leadership};
use listwatch::workqueue::{Job, Options, Outcome, Queue, Runner};
use listwatch::{Event, HandlerOptions, InformerFactory, Lister, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAME: &str = "greeter.example.com";

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, schema = "disabled")]
struct GreetingSpec {
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = listwatch::kube::client(kube::Config::infer().await?)?;
    define(&client).await?;

    let stop = CancellationToken::new();
    let signal = stop.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        signal.cancel();
    });

    let identity = format!("greeter-{}", std::process::id());
    let lock = KubeLease::new(client.clone(), "default", NAME);
    let election = LeaderElection::new(lock, ElectionOptions::new(identity.clone()))?
        .on_event(|event| println!("election: {event:?}"));
    let outcome = election
        .run(&stop, |leadership| async move {
            work(client, identity, leadership).await.map_err(|e| e.to_string())
        })
        .await;
    println!("{outcome:?}");
    Ok(())
}

/// Makes the kind known to the server.
async fn define(client: &Client) -> Result<(), kube::Error> {
    let mut definition = serde_json::to_value(Greeting::crd()).map_err(kube::Error::SerdeError)?;
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 1000}},
    }}});
    if let Some(version) = definition.pointer_mut("/spec/versions/0") {
        version["schema"] = json!({ "openAPIV3Schema": schema });
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.patch(Greeting::crd_name(), &PatchParams::apply(NAME).force(), &Patch::Apply(definition)).await?;
    Ok(())
}

async fn work(
    client: Client,
    instance: String,
    leadership: Leadership,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let factory = InformerFactory::new(client.clone());
    let greetings = factory.informer::<Greeting>();
    let queue = Queue::new(Options::new().name("greetings"));
    let keys = queue.clone();
    let enqueue = move |event: &Event<Greeting>| {
        if let Some(key) = event.key() {
            let _ = keys.add(key.clone());
        }
    };
    let handler = greetings.add_event_handler_with(enqueue, HandlerOptions::named("enqueue"))?;
    factory.start()?;
    handler.wait_synced().await;
    println!("{} greetings", greetings.store().len());

    let reporter = Reporter { controller: NAME.to_owned(), instance };
    let recorder = EventRecorder::start(KubeSink::new(client.clone()), reporter, Default::default());
    let context = Arc::new(Context { greetings: greetings.lister(), client, recorder: recorder.clone() });
    let runner = Runner::new(move |job: Job<ObjectKey>| reconcile(Arc::clone(&context), job.key));
    let running = runner.workers(2).start(&queue);

    leadership.over().await;
    running.shut_down().await;
    recorder.shut_down().await;
    factory.shutdown().await;
    Ok(())
}

struct Context {
    greetings: Lister<Greeting>,
    client: Client,
    recorder: EventRecorder,
}

async fn reconcile(context: Arc<Context>, key: ObjectKey) -> Result<Outcome, Box<dyn Error + Send + Sync>> {
    let Ok(greeting) = context.greetings.namespace(key.namespace()).get(key.name()) else {
        // Its ConfigMap is deleted with it: the server's garbage collector follows the owner reference.
        return Ok(Outcome::Done);
    };
    let greeting = greeting.get()?;
    let owners: Vec<_> = greeting.controller_owner_ref(&()).into_iter().collect();
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name(), "ownerReferences": owners},
        "data": {"text": greeting.spec.text},
    });
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), key.namespace());
    let written = maps.patch(key.name(), &PatchParams::apply(NAME).force(), &Patch::Apply(map)).await?;
    println!("{key} says {:?}", greeting.spec.text);
    let about = ObjectReference::of(&*greeting);
    let note = format!("the text is in {} {}", ConfigMap::kind(&()), written.name_any());
    context.recorder.record(Occurrence::normal(about, "Greeted", "Writing", note));
    Ok(Outcome::Done)
}
