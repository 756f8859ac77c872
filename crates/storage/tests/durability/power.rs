//! Simulated power loss.
//!
//! A real worker runs with a recorder loaded into it (`record.c`), which writes down every write and every sync of the
//! store's files in order. Then a power loss is simulated at many random points of that record: data that was synced by
//! then is kept, and every sector written since has its old content, its new content, or neither, at random. The store
//! must open on each of these disks with every write that had been acknowledged by then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::verify::{Counts, Note, notes, verify};
use crate::worker::{DIRECTORY, NOTES, WRITES};

/// The unit that a disk writes at once.
const SECTOR: usize = 512;

/// The number of power failures: `LISTWATCH_POWER_CUTS`, or 60.
fn cuts() -> u64 {
    std::env::var("LISTWATCH_POWER_CUTS").map_or(60, |cuts| cuts.parse().expect("a number"))
}

enum Event {
    Write { file: String, offset: usize, data: Vec<u8> },
    Truncate { file: String, length: usize },
    Sync { file: String },
    Remove { file: String },
}

/// A file as the disk has it, and what was written since it was last synced.
#[derive(Default)]
struct OnDisk {
    durable: Vec<u8>,
    pending: Vec<Pending>,
    /// The directory was synced since the file was made: otherwise it may be missing.
    listed: bool,
    /// It was removed since the directory was synced: it may still be there.
    removed: bool,
}

enum Pending {
    Sector { offset: usize, data: Vec<u8> },
    Truncate(usize),
}

impl OnDisk {
    fn apply(content: &mut Vec<u8>, pending: &Pending) {
        match pending {
            Pending::Truncate(length) => content.resize(*length, 0),
            Pending::Sector { offset, data } => {
                content.resize(content.len().max(offset + data.len()), 0);
                content[*offset..offset + data.len()].copy_from_slice(data);
            }
        }
    }

    fn write(&mut self, mut offset: usize, mut data: &[u8]) {
        while !data.is_empty() {
            let (now, later) = data.split_at(data.len().min(SECTOR - offset % SECTOR));
            self.pending.push(Pending::Sector { offset, data: now.to_vec() });
            (offset, data) = (offset + now.len(), later);
        }
    }

    fn sync(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            Self::apply(&mut self.durable, &pending);
        }
    }

    /// The bytes left after the power failed. `kept` of ten unsynced sectors arrived, and some of the others are
    /// garbage.
    fn after_loss(&self, chance: &mut StdRng, kept: u32) -> Vec<u8> {
        let mut content = self.durable.clone();
        for pending in &self.pending {
            match (chance.random_range(0..10) < kept, pending) {
                (true, pending) => Self::apply(&mut content, pending),
                (false, Pending::Sector { offset, data }) if chance.random_ratio(1, 8) => {
                    let garbage = data.iter().map(|byte| byte ^ chance.random::<u8>()).collect();
                    Self::apply(&mut content, &Pending::Sector { offset: *offset, data: garbage });
                }
                (false, _) => {}
            }
        }
        content
    }
}

fn parse(record: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut rest = record;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..end]).unwrap();
        rest = &rest[end + 1..];
        let parts: Vec<&str> = line.split(' ').collect();
        events.push(match parts[..] {
            ["W", file, offset, length] => {
                let (data, later) = rest.split_at(length.parse().unwrap());
                rest = later;
                Event::Write { file: file.to_owned(), offset: offset.parse().unwrap(), data: data.to_vec() }
            }
            ["T", file, length] => Event::Truncate { file: file.to_owned(), length: length.parse().unwrap() },
            ["U", file] => Event::Remove { file: file.to_owned() },
            ["S", file] => Event::Sync { file: file.to_owned() },
            _ => panic!("bad record {line:?}"),
        });
    }
    events
}

/// The recorder, compiled as SQLite itself was.
fn recorder(directory: &Path) -> PathBuf {
    let library = directory.join("record.so");
    // Tests run in the folder of their package.
    let source = "tests/durability/record.c";
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.expect("a C compiler, as building SQLite needs one").success());
    library
}

fn record() -> Vec<Event> {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let store = root.join("store");
    std::fs::create_dir(&store).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker_process", "--nocapture"])
        .env(DIRECTORY, &store)
        .env(WRITES, "250")
        .env("LD_PRELOAD", recorder(&root))
        .env("RECORD_DIRECTORY", &store)
        .env("RECORD_FILE", root.join("record"))
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success());
    parse(&std::fs::read(root.join("record")).unwrap())
}

/// The file of a name; after a removal it is another one.
fn made<'d, 'e>(disk: &'d mut BTreeMap<&'e str, OnDisk>, name: &'e str) -> &'d mut OnDisk {
    let file = disk.entry(name).or_default();
    if file.removed {
        *file = OnDisk::default();
    }
    file
}

/// The disk after some events, and what the worker had noted by then.
fn replay(events: &[Event]) -> (BTreeMap<&str, OnDisk>, String) {
    let mut disk: BTreeMap<&str, OnDisk> = BTreeMap::new();
    let mut noted = String::new();
    for event in events {
        match event {
            Event::Write { file, data, .. } if file == NOTES => noted += std::str::from_utf8(data).unwrap(),
            Event::Write { file, offset, data } => made(&mut disk, file).write(*offset, data),
            Event::Truncate { file, length } => {
                made(&mut disk, file).pending.push(Pending::Truncate(*length))
            }
            Event::Remove { file } => made(&mut disk, file).removed = true,
            Event::Sync { file } if file == "." => {
                disk.retain(|_, file| !file.removed);
                disk.values_mut().for_each(|file| file.listed = true);
            }
            Event::Sync { file } => made(&mut disk, file).sync(),
        }
    }
    (disk, noted)
}

/// One power loss somewhere in the record, by chance: the disk as it is then, and what had been noted.
fn lose_power(events: &[Event], seed: u64) -> (tempfile::TempDir, Vec<Note>) {
    let mut chance = StdRng::seed_from_u64(seed);
    let upto = chance.random_range(0..=events.len());
    let (disk, noted) = replay(&events[..upto]);
    let directory = tempfile::tempdir().unwrap();
    let kept = chance.random_range(0..=10);
    for (name, file) in &disk {
        let certain = file.listed && !file.removed;
        if certain || chance.random() {
            std::fs::write(directory.path().join(name), file.after_loss(&mut chance, kept)).unwrap();
        }
    }
    (directory, notes(&noted))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_loss_loses_nothing_acknowledged() {
    let mut events = record();
    let syncs = events.iter().filter(|event| matches!(event, Event::Sync { .. })).count();
    let mut total = Counts::default();
    for seed in 0..cuts() {
        let (directory, notes) = lose_power(&events, seed);
        let counts = verify(directory.path(), &notes).await;
        total.acknowledged += counts.acknowledged;
        total.seen += counts.seen;
    }
    println!(
        "{} power cuts among {} events with {syncs} syncs; {} acknowledged and {} watched changes checked: 0 lost, 0 torn",
        cuts(),
        events.len(),
        total.acknowledged,
        total.seen
    );
    assert!(syncs > 100 && total.acknowledged > 0, "nothing was recorded");
    events.retain(|event| !matches!(event, Event::Sync { file } if file.ends_with("-wal")));
    assert!(some_loss_is_noticed(&events).await, "the simulation does not notice when syncs are missing");
}

/// Returns true if the same check fails for a store that does not sync its write-ahead log.
async fn some_loss_is_noticed(events: &[Event]) -> bool {
    for seed in 0..10 {
        let (directory, notes) = lose_power(events, seed);
        let outcome = tokio::spawn(async move { verify(directory.path(), &notes).await }).await;
        if outcome.is_err() {
            return true;
        }
    }
    false
}
