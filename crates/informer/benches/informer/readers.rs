//! Reading while writing: updates per second of the store while readers list a namespace each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use listwatch::Raw;
use listwatch::store::{Store, Write};

use crate::measure::elsewhere;
use crate::memory_source::object;
use crate::row;

pub(crate) fn all() {
    let go = [("160106", "-"), ("88.7", "2539"), ("123826", "-"), ("34", "70")];
    let cases = [(10_000, 0), (10_000, 10), (160_000, 0), (160_000, 10)];
    for ((objects, readers), (writes, reads)) in cases.into_iter().zip(go) {
        let figures = elsewhere(&["readers", &objects.to_string(), &readers.to_string()]);
        let name = format!("{objects} objects, {readers} namespace-list readers");
        row(&format!("{name}: writes/s"), &format!("{:.0}", figures[0]), "", writes, "");
        if readers > 0 {
            row(&format!("{name}: lists/s"), &format!("{:.0}", figures[1]), "", reads, "");
        }
    }
}

/// Two seconds of one writer and some readers, each on a thread of its own.
pub(crate) fn run(objects: usize, readers: usize) {
    let (store, mut writer) = Store::<Raw>::new();
    writer.replace(None, (0..objects).map(|number| object(number, number + 1)).collect());
    let versions: Vec<_> = (0..200_000).map(|at| object(at * 7919 % objects, objects + at + 1)).collect();
    let (stop, lists) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..readers)
        .map(|reader| {
            let (store, stop, lists) = (store.clone(), Arc::clone(&stop), Arc::clone(&lists));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let list: Vec<_> = snapshot.namespace(&format!("team-{reader:02}")).cloned().collect();
                    assert_eq!(list.len(), objects / 20);
                    lists.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (started, mut written) = (Instant::now(), 0_u64);
    while started.elapsed() < Duration::from_secs(2) {
        for object in versions.iter().skip(written as usize % versions.len()).take(100) {
            writer.write(vec![Write::Put(object.clone())]);
            written += 1;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} {}", written as f64 / seconds, lists.load(Ordering::Relaxed) as f64 / seconds);
}
