//! Reading while writing: updates per second of the store while readers list a namespace each, beside kube-rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{reflector, watcher};
use listwatch::Raw;
use listwatch::store::{Store, StoreWrite};

use crate::measure::{elsewhere, peak_mb};
use crate::memory_source::{json, object};
use crate::row;

/// Versions that are written again and again. Few enough that kube-rs, which keeps objects decoded, fits in memory.
const VERSIONS: usize = 50_000;

pub(crate) fn all() {
    let go = [("160106", "-"), ("88.7", "2539"), ("123826", "-"), ("34", "70")];
    let cases = [(10_000, 0), (10_000, 10), (160_000, 0), (160_000, 10)];
    for ((objects, readers), (writes, reads)) in cases.into_iter().zip(go) {
        let run = |which: &str| elsewhere(&["readers", which, &objects.to_string(), &readers.to_string()]);
        let (ours, theirs) = (run("ours"), run("kube"));
        let both = |at: usize| (format!("{:.0}", ours[at]), format!("{:.0}", theirs[at]));
        let name = format!("{objects} objects, {readers} namespace-list readers");
        let (our, their) = both(0);
        row(&format!("{name}: writes/s"), &our, "", writes, &their);
        if readers > 0 {
            let (our, their) = both(1);
            row(&format!("{name}: lists/s"), &our, "", reads, &their);
        }
        let (our, their) = both(2);
        row(&format!("{name}: peak memory, MB"), &our, "", "", &their);
    }
}

pub(crate) fn run(which: &str, objects: usize, readers: usize) {
    match which {
        "ours" => ours(objects, readers),
        _ => kube(objects, readers),
    }
}

fn ours(objects: usize, readers: usize) {
    let (store, mut writer) = Store::<Raw>::new();
    writer.replace(None, (0..objects).map(|number| object(number, number + 1)).collect());
    let versions: Vec<_> = (0..VERSIONS).map(|at| object(at * 7919 % objects, objects + at + 1)).collect();
    let list =
        move |namespace: &str| store.snapshot().namespace(namespace).cloned().collect::<Vec<_>>().len();
    contend(objects, readers, list, |at| {
        writer.write(vec![StoreWrite::Put(versions[at].clone())]);
    });
}

fn kube(objects: usize, readers: usize) {
    let decoded = |number, version| serde_json::from_str::<ConfigMap>(&json(number, version)).unwrap();
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&watcher::Event::Init);
    for number in 0..objects {
        writer.apply_watcher_event(&watcher::Event::InitApply(decoded(number, number + 1)));
    }
    writer.apply_watcher_event(&watcher::Event::InitDone);
    let versions: Vec<_> = (0..VERSIONS)
        .map(|at| watcher::Event::Apply(decoded(at * 7919 % objects, objects + at + 1)))
        .collect();
    let list = move |namespace: &str| {
        store.state_filter(|object| object.metadata.namespace.as_deref() == Some(namespace)).len()
    };
    contend(objects, readers, list, |at| writer.apply_watcher_event(&versions[at]));
}

/// Two seconds of one writer and some readers, each on a thread of its own.
fn contend(
    objects: usize,
    readers: usize,
    list: impl Fn(&str) -> usize + Clone + Send + 'static,
    mut write: impl FnMut(usize),
) {
    let (stop, lists) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..readers)
        .map(|reader| {
            let (list, stop, lists) = (list.clone(), Arc::clone(&stop), Arc::clone(&lists));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(list(&format!("team-{reader:02}")), objects / 20);
                    lists.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (started, mut written) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(2) {
        for _ in 0..100 {
            write(written % VERSIONS);
            written += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} {} {}", written as f64 / seconds, lists.load(Ordering::Relaxed) as f64 / seconds, peak_mb());
}
