//! The concurrent parts under shuttle's scheduler: `cargo nextest run -p listwatch --features shuttle --test shuttle`.
//!
//! Each test is run under a thousand random interleavings of its threads at every lock.
#![cfg(feature = "shuttle")]
#![cfg(test)]

mod support;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use listwatch::delta::{Delta, DeltaQueue, Form, QueueOptions};
use listwatch::mutation_cache::MutationCache;
use listwatch::store::{Store, StoreWrite};
use listwatch::{InformerFactory, Raw, Revision};
use shuttle::future::block_on;
use shuttle::thread;
use support::object;
use support::server::Server;

const ROUNDS: usize = 1000;

/// Two sources push more than fits while one consumer pops: nothing is lost, nothing is out of order within a source,
/// and no task sleeps for ever.
#[test]
fn a_full_queue_loses_nothing_and_wakes_everybody() {
    for form in [Form::InOrder, Form::Coalescing] {
        shuttle::check_random(
            move || {
                let options = QueueOptions::default().form(form).capacity(2);
                let queue = Arc::new(DeltaQueue::<Raw>::new(2, options));
                let pushers: Vec<_> = (0..2)
                    .map(|source| {
                        let queue = Arc::clone(&queue);
                        thread::spawn(move || {
                            for at in 1..=4 {
                                let delta = Delta::Updated(object(&format!("{source}/{at}"), at));
                                block_on(queue.push(source, vec![delta])).unwrap();
                            }
                        })
                    })
                    .collect();
                let consumer = {
                    let queue = Arc::clone(&queue);
                    thread::spawn(move || {
                        let mut seen = [0; 2];
                        while let Some(batch) = block_on(queue.pop_batch()) {
                            for delta in batch.deltas {
                                if let Delta::Bookmark(upto) = delta {
                                    assert!(upto.0 <= seen[batch.source], "it promises what was not popped");
                                    continue;
                                }
                                let revision = delta.revision().unwrap().0;
                                assert_eq!(revision, seen[batch.source] + 1);
                                seen[batch.source] = revision;
                            }
                        }
                        seen
                    })
                };
                pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
                queue.close();
                assert_eq!(consumer.join().unwrap(), [4, 4]);
            },
            ROUNDS,
        );
    }
}

#[test]
fn closing_wakes_those_who_wait_to_push_and_to_pop() {
    shuttle::check_random(
        || {
            let queue = Arc::new(DeltaQueue::<Raw>::new(2, QueueOptions::default().capacity(1)));
            block_on(queue.push(0, vec![Delta::SyncAll])).unwrap();
            let pusher = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || block_on(queue.push(0, vec![Delta::SyncAll])).is_err())
            };
            let closer = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.close())
            };
            assert!(pusher.join().unwrap());
            closer.join().unwrap();
            assert!(block_on(queue.pop_batch()).is_some());
            assert!(block_on(queue.pop_batch()).is_none());
        },
        ROUNDS,
    );
}

/// A reader sees the old content or the new of a replacement; an index added at the same time misses nothing.
#[test]
fn replacements_are_atomic_to_readers_and_late_indexes_complete() {
    shuttle::check_random(
        || {
            let (store, mut writer) = Store::<Raw>::new();
            let state = |revision| (0..3).map(|at| object(&format!("x/{at}"), revision)).collect::<Vec<_>>();
            writer.replace(None, state(1));
            let reader = {
                let store = store.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        let snapshot = store.snapshot();
                        let revisions: Vec<_> = snapshot.iter().map(|object| object.revision().0).collect();
                        assert!(
                            revisions == [1, 1, 1] || revisions == [2, 2, 2] || revisions == [2, 2, 2, 3]
                        );
                    }
                })
            };
            let indexer = {
                let store = store.clone();
                thread::spawn(move || {
                    let by_revision =
                        |object: &listwatch::Object<Raw>| Ok([object.revision()].into_iter().collect());
                    store.add_index("revision", by_revision).unwrap()
                })
            };
            writer.replace(None, state(2));
            writer.write(vec![StoreWrite::Put(object("x/9", 3))]);
            reader.join().unwrap();
            let index = indexer.join().unwrap();
            let snapshot = store.snapshot();
            assert_eq!(snapshot.index_keys(&index, &Revision(1)).unwrap().len(), 0);
            assert_eq!(snapshot.index_keys(&index, &Revision(2)).unwrap().len(), 3);
            assert_eq!(snapshot.index_keys(&index, &Revision(3)).unwrap().len(), 1);
        },
        ROUNDS,
    );
}

/// An own write at 7, a watch that reaches and passes it, two readers: none of them ever sees something older
/// than what it has seen. It was not so when the store was read before the lock was taken: the other reader could
/// remove the write in between.
#[test]
fn readers_of_own_writes_never_go_back_in_time() {
    shuttle::check_random(
        || {
            let (store, mut writer) = Store::<Raw>::new();
            writer.write(vec![StoreWrite::Put(object("x/y", 5))]);
            writer.advance(Revision(5));
            let (cache, now) =
                (Arc::new(MutationCache::new(store, Default::default())), tokio::time::Instant::now());
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let cache = Arc::clone(&cache);
                    thread::spawn(move || {
                        let key = "x/y".parse().unwrap();
                        let read = || cache.get(&key, now).map_or(0, |object| object.revision().0);
                        let seen: Vec<_> = (0..4).map(|_| read()).collect();
                        assert!(seen.is_sorted(), "{seen:?}");
                    })
                })
                .collect();
            let own = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || cache.written(object("x/y", 7), now))
            };
            for revision in [7, 9] {
                writer.write(vec![StoreWrite::Put(object("x/y", revision))]);
                writer.advance(Revision(revision));
            }
            own.join().unwrap();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        },
        ROUNDS,
    );
}

/// A controller's call races with the watch event of the deletion: in either order the object is deleted in the end.
#[test]
fn a_write_and_a_deletion_at_the_same_time_leave_nothing() {
    shuttle::check_random(
        || {
            let (store, mut writer) = Store::<Raw>::new();
            writer.write(vec![StoreWrite::Put(object("x/y", 5))]);
            let (cache, now) =
                (Arc::new(MutationCache::new(store, Default::default())), tokio::time::Instant::now());
            let own = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || cache.written(object("x/y", 7), now))
            };
            let watch = thread::spawn(move || {
                writer.write(vec![StoreWrite::Remove("x/y".parse().unwrap())]);
                writer.advance(Revision(8));
            });
            own.join().unwrap();
            watch.join().unwrap();
            assert!(cache.get(&"x/y".parse().unwrap(), now).is_none());
        },
        ROUNDS,
    );
}

/// Concurrent holders of an informer share one, while others are requested and dropped.
#[test]
fn concurrent_requests_to_the_factory_share_an_informer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let client = Server::answering("").client();
    shuttle::check_random(
        move || {
            let factory = Arc::new(InformerFactory::new(client.clone()));
            let passer_by = {
                let factory = Arc::clone(&factory);
                thread::spawn(move || drop(factory.informer::<ConfigMap>()))
            };
            let holders: Vec<_> = (0..2)
                .map(|_| {
                    let factory = Arc::clone(&factory);
                    thread::spawn(move || factory.informer::<ConfigMap>())
                })
                .collect();
            passer_by.join().unwrap();
            let held: Vec<_> = holders.into_iter().map(|holder| holder.join().unwrap()).collect();
            assert!(std::ptr::eq(held[0].store(), held[1].store()));
            assert_eq!(factory.status().len(), 1);
            drop(held);
            assert_eq!(factory.status().len(), 1, "the factory keeps it");
            factory.release_unused();
            assert!(factory.status().is_empty());
        },
        ROUNDS,
    );
}
