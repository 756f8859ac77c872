//! A handler that falls behind receives a shorter history that is still consistent, and ends in the state of the store.
#![cfg(test)]

mod support;

use std::collections::BTreeMap;

use futures::StreamExt;
use listwatch::lister_watcher::InMemory;
use listwatch::{Event, HandlerOptions, SharedInformer};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    /// The handler reads this many events.
    Read(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4_u8).prop_map(Step::Put),
        3 => (0..4_u8).prop_map(Step::Delete),
        1 => (0..6_u8).prop_map(Step::Read),
    ]
}

/// The state that a handler derives from its events: key to uid and revision. Every event must fit it.
#[derive(Default)]
struct Belief(BTreeMap<String, (String, u64)>);

impl Belief {
    fn apply(&mut self, event: &Event<Value>) -> Result<(), String> {
        let wrong = || Err(format!("{event} when {:?} was believed", self.0));
        let Some(object) = event.object() else { return Ok(()) };
        let (key, uid) = (object.key().to_string(), object.uid().into_owned());
        let known = self.0.get(&key);
        match (event, known) {
            (Event::Added { .. }, None) => {}
            (Event::Updated { old, .. }, Some((told, revision))) => {
                if *told != uid || old.revision().0 != *revision || object.revision().0 <= *revision {
                    return wrong();
                }
            }
            (Event::Deleted(_), Some((told, revision))) => {
                if *told != uid || object.revision().0 < *revision {
                    return wrong();
                }
                self.0.remove(&key);
                return Ok(());
            }
            _ => return wrong(),
        }
        self.0.insert(key, (uid, object.revision().0));
        Ok(())
    }
}

async fn play(steps: Vec<Step>, max_backlog: usize) -> Result<(), String> {
    let source = InMemory::new(1000);
    let informer = SharedInformer::<Value>::new(source.clone());
    informer.start().map_err(|error| error.to_string())?;
    informer.wait_synced().await;
    let mut stream = informer.events_with(HandlerOptions::default().max_backlog(max_backlog)).unwrap();
    let mut belief = Belief::default();
    let mut incarnation = 0;
    for step in steps {
        match step {
            Step::Put(name) => {
                let key = format!("x/{name}").parse().unwrap();
                let uid = informer.store().get(&key).map(|object| object.uid().into_owned());
                incarnation += 1;
                let uid = uid.unwrap_or_else(|| format!("incarnation {incarnation}"));
                let metadata = json!({"namespace": "x", "name": name.to_string(), "uid": uid});
                source.put(&json!({"metadata": metadata})).unwrap();
            }
            Step::Delete(name) => {
                source.delete(&format!("x/{name}").parse().unwrap());
            }
            Step::Read(count) => {
                for _ in 0..count {
                    let Some(event) = futures::FutureExt::now_or_never(stream.next()).flatten() else {
                        break;
                    };
                    belief.apply(&event)?;
                }
            }
        }
        informer.store().wait_for(source.revision()).await.unwrap();
    }
    informer.drain().await;
    while let Some(event) = stream.next().await {
        belief.apply(&event)?;
    }
    let store: Vec<_> = informer.snapshot().iter().map(|o| (o.key().to_string(), o.revision().0)).collect();
    let believed: Vec<_> = belief.0.into_iter().map(|(key, (_, revision))| (key, revision)).collect();
    if store == believed { Ok(()) } else { Err(format!("the store has {store:?}, the handler {believed:?}")) }
}

proptest! {
    #[test]
    fn every_history_is_legal_and_ends_at_the_store(steps in prop::collection::vec(step(), 1..80), max in 1..20_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(steps, max)).map_err(TestCaseError::fail)?;
    }
}
