//! The files of a saved cache: a header, and the objects.
//!
//! `NAME.head` has the identity of the saved collection, its revision, and the events that handlers have not received
//! yet. `NAME.N.objects` has the objects in key order, in blocks with a checksum each, so that several threads read it
//! and none copies it twice. The head names its file of objects and is replaced by a rename, so that there is always
//! one complete cache. When only the revision changed, only the head is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::WarmError;
use crate::object::Object;
use crate::store::Snapshot;
use crate::sync::Mutex;

/// The format of the files, and the first bytes of a head.
const MAGIC: &[u8] = b"listwatch cache 1\n";

/// A block is closed when it is this large: enough for one read, few enough that threads share the work evenly.
const BLOCK: usize = 1 << 20;

/// The most that is read of a head: a thousand namespaces, a hundred handlers and what these have unread.
const MAX_HEAD: u64 = 256 << 20;

/// Threads that read the objects. More would wait for memory.
const MAX_THREADS: usize = 4;

/// A part of the file of objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ObjectBlock {
    at: u64,
    len: usize,
    objects: usize,
    crc: u32,
}

/// Up to where a namespace, or everything, was saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedPosition {
    pub(crate) namespace: Option<String>,
    /// The collection and the form of its objects.
    pub(crate) scope: String,
    pub(crate) revision: u64,
}

/// The events of the saved state that a handler has not received yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SavedMark {
    pub(super) name: String,
    /// It had not received the whole initial state, so it receives everything again.
    pub(super) everything: bool,
    /// Keys of saved objects that it has not received in their saved state.
    pub(super) changed: Vec<String>,
    /// The number of deletions it has not received. Their objects follow the head.
    pub(super) deleted: usize,
}

/// The head of a saved cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileHead {
    /// See [`identity_check`](crate::object::saved::identity_check).
    pub(super) identities: u64,
    /// See [`WarmOptions::version`](super::WarmOptions::version).
    pub(super) version: String,
    pub(super) server: Option<String>,
    pub(super) positions: Vec<SavedPosition>,
    pub(super) marks: Vec<SavedMark>,
    pub(super) generation: u64,
    pub(super) blocks: Vec<ObjectBlock>,
}

/// The paths of the files of one informer.
#[derive(Clone, Debug)]
pub(super) struct Files {
    directory: PathBuf,
    stem: String,
}

fn io_error(path: &Path, error: &io::Error) -> WarmError {
    WarmError::Io { path: path.display().to_string(), reason: error.to_string() }
}

fn damaged(path: &Path, reason: &'static str) -> WarmError {
    WarmError::Damaged { path: path.display().to_string(), reason }
}

/// Readable and writable by its owner only, under any umask: caches hold Secrets.
fn create(path: &Path) -> Result<File, WarmError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| io_error(path, &error))
}

impl Files {
    /// Names are escaped so that no two informers share a file.
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        let mut stem = String::new();
        for byte in name.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => stem.push(char::from(byte)),
                other => stem.push_str(&format!("_{other:02x}")),
            }
        }
        if stem.len() > 200 {
            stem = format!("{:.180}_{:08x}", stem, crc32fast::hash(name.as_bytes()));
        }
        Self { directory: directory.to_owned(), stem }
    }

    fn head(&self) -> PathBuf {
        self.directory.join(format!("{}.head", self.stem))
    }

    fn objects(&self, generation: u64) -> PathBuf {
        self.directory.join(format!("{}.{generation}.objects", self.stem))
    }

    /// Reads the head, and the records behind it. None if nothing was saved.
    pub(super) fn read_head(&self) -> Result<Option<(FileHead, Vec<u8>)>, WarmError> {
        let path = self.head();
        let bytes = match fs::metadata(&path).and_then(|metadata| {
            if metadata.len() > MAX_HEAD {
                return Err(io::Error::other("larger than any head"));
            }
            fs::read(&path)
        }) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path, &error)),
        };
        let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(WarmError::OtherFormat) };
        let parts = rest.split_last_chunk::<4>().and_then(|(body, crc)| {
            let (len, body) = body.split_first_chunk::<4>()?;
            let whole = crc32fast::hash(rest.get(..rest.len() - 4)?) == u32::from_le_bytes(*crc);
            body.split_at_checked(u32::from_le_bytes(*len) as usize).filter(|_| whole)
        });
        let (json, records) = parts.ok_or_else(|| damaged(&path, "the head is not whole"))?;
        let head: FileHead = serde_json::from_slice(json).map_err(|_| WarmError::OtherFormat)?;
        if head.identities != crate::object::saved::identity_check() {
            return Err(WarmError::OtherFormat);
        }
        Ok(Some((head, records.to_vec())))
    }

    /// Replaces the head. From then on the cache is the one that the new head describes.
    pub(super) fn write_head(&self, head: &FileHead, records: &[u8]) -> Result<(), WarmError> {
        let json =
            serde_json::to_vec(head).map_err(|error| io_error(&self.head(), &io::Error::other(error)))?;
        let len = u32::try_from(json.len()).map_err(|_| damaged(&self.head(), "the head is too large"))?;
        let body = [&len.to_le_bytes(), json.as_slice(), records].concat();
        let crc = crc32fast::hash(&body).to_le_bytes();
        let next = self.directory.join(format!("{}.head.next", self.stem));
        let mut file = create(&next)?;
        let written = [MAGIC, &body, &crc].into_iter().try_for_each(|part| file.write_all(part));
        written.and_then(|()| file.sync_all()).map_err(|error| io_error(&next, &error))?;
        fs::rename(&next, self.head()).map_err(|error| io_error(&self.head(), &error))?;
        self.sync_directory();
        Ok(())
    }

    /// Makes the rename last. A file system that cannot is no reason to fail.
    fn sync_directory(&self) {
        let _ = File::open(&self.directory).and_then(|directory| directory.sync_all());
    }

    /// Writes the objects to a file of their own.
    pub(super) fn write_objects<K>(
        &self,
        generation: u64,
        snapshot: &Snapshot<K>,
    ) -> Result<Vec<ObjectBlock>, WarmError> {
        fs::create_dir_all(&self.directory).map_err(|error| io_error(&self.directory, &error))?;
        let path = self.objects(generation);
        let file = create(&path)?;
        BlockWriter::new(file).write(snapshot).map_err(|error| io_error(&path, &error))
    }

    /// Removes files of objects that no head names: older ones, and what an interrupted save left behind.
    pub(super) fn remove_others(&self, generation: u64) {
        let keep = self.objects(generation);
        let prefix = format!("{}.", self.stem);
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".objects"));
            let own = number.is_some_and(|number| number.parse::<u64>().is_ok());
            if own && entry.path() != keep {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Reads the objects, in key order, with a few threads.
    pub(super) fn read_objects<K: Send>(&self, head: &FileHead) -> Result<Vec<Object<K>>, WarmError> {
        let path = self.objects(head.generation);
        let parts: Vec<Mutex<Vec<Object<K>>>> = head.blocks.iter().map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), WarmError> {
            let mut file = File::open(&path).map_err(|error| io_error(&path, &error))?;
            let mut buffer = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(block), Some(part)) = (head.blocks.get(at), parts.get(at)) else { return Ok(()) };
                *part.lock() = read_block(&mut file, &path, block, &mut buffer)?;
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = threads.min(MAX_THREADS).min(head.blocks.len().max(1));
        let results: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(damaged(&path, "reading it panicked"))));
            std::iter::once(own).chain(joined).collect()
        });
        results.into_iter().collect::<Result<(), _>>()?;
        let mut objects = Vec::with_capacity(head.blocks.iter().map(|block| block.objects).sum());
        parts.into_iter().for_each(|part| objects.append(&mut part.lock()));
        Ok(objects)
    }
}

/// Writes objects in blocks, each with its checksum.
struct BlockWriter {
    file: File,
    /// The blocks written so far.
    blocks: Vec<ObjectBlock>,
    /// Their length in bytes.
    written: u64,
    /// The block that is being filled, and the number of objects in it.
    buffer: Vec<u8>,
    objects: usize,
}

impl BlockWriter {
    fn new(file: File) -> Self {
        let buffer = Vec::with_capacity(BLOCK + BLOCK / 8);
        Self { file, blocks: Vec::new(), written: 0, buffer, objects: 0 }
    }

    /// Writes all objects and syncs the file.
    fn write<K>(mut self, snapshot: &Snapshot<K>) -> io::Result<Vec<ObjectBlock>> {
        for object in snapshot.iter() {
            object.write_record(&mut self.buffer);
            self.objects += 1;
            if self.buffer.len() >= BLOCK {
                self.flush()?;
            }
        }
        if self.objects > 0 {
            self.flush()?;
        }
        self.file.sync_all()?;
        Ok(self.blocks)
    }

    /// Ends a block.
    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        let (len, crc) = (self.buffer.len(), crc32fast::hash(&self.buffer));
        self.blocks.push(ObjectBlock { at: self.written, len, objects: self.objects, crc });
        self.written += len as u64;
        self.buffer.clear();
        self.objects = 0;
        Ok(())
    }
}

/// The longest block: one object may be as large as a server stores.
const MAX_BLOCK: usize = 64 << 20;

/// Reads and verifies one block. Lengths are checked before anything is allocated, because the file may be damaged.
fn read_block<K>(
    file: &mut File,
    path: &Path,
    block: &ObjectBlock,
    buffer: &mut Vec<u8>,
) -> Result<Vec<Object<K>>, WarmError> {
    if block.len > MAX_BLOCK || block.objects > block.len {
        return Err(damaged(path, "a block is larger than any"));
    }
    buffer.resize(block.len, 0);
    let read = file.seek(SeekFrom::Start(block.at)).and_then(|_| file.read_exact(buffer));
    read.map_err(|error| io_error(path, &error))?;
    if crc32fast::hash(buffer) != block.crc {
        return Err(damaged(path, "a checksum is wrong"));
    }
    read_records(buffer, block.objects).ok_or_else(|| damaged(path, "a record is not whole"))
}

/// Exactly as many records as there should be, and nothing behind them.
pub(super) fn read_records<K>(mut bytes: &[u8], count: usize) -> Option<Vec<Object<K>>> {
    let mut objects = Vec::with_capacity(count);
    for _ in 0..count {
        objects.push(Object::read_record(&mut bytes)?);
    }
    bytes.is_empty().then_some(objects)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::object::Raw;
    use crate::store::Store;

    fn files(name: &str) -> Files {
        let directory = std::env::temp_dir().join(format!("listwatch-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Files::new(&directory, "pods")
    }

    fn head(blocks: Vec<ObjectBlock>) -> FileHead {
        let identities = crate::object::saved::identity_check();
        let (version, server, positions, marks) = Default::default();
        FileHead { identities, version, server, positions, marks, generation: 1, blocks }
    }

    /// A program that computes identities in another way would take every object for a new one.
    #[test]
    fn a_head_with_other_identities_has_another_format() {
        let files = files("identities");
        files.write_head(&head(Vec::new()), b"").unwrap();
        assert!(files.read_head().unwrap().is_some());
        let other = FileHead { identities: 1, ..head(Vec::new()) };
        files.write_head(&other, b"").unwrap();
        assert!(matches!(files.read_head(), Err(WarmError::OtherFormat)));
        fs::remove_dir_all(&files.directory).unwrap();
    }

    #[test]
    fn a_head_that_is_larger_than_any_is_not_read() {
        let files = files("large");
        File::create(files.head()).unwrap().set_len(MAX_HEAD + 1).unwrap();
        assert!(matches!(files.read_head(), Err(WarmError::Io { .. })));
        fs::remove_dir_all(&files.directory).unwrap();
    }

    /// Secrets are saved as they are.
    #[cfg(unix)]
    #[test]
    fn saved_files_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;

        let files = files("mode");
        files.write_head(&head(Vec::new()), b"").unwrap();
        files.write_objects(1, &Store::<Raw>::new().0.snapshot()).unwrap();
        for path in [files.head(), files.objects(1)] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::remove_dir_all(&files.directory).unwrap();
    }

    /// The checksum of a head says that it is the one that was written, not that what it claims is there: a block of
    /// terabytes is refused before memory is taken for it.
    #[test]
    fn a_block_that_claims_more_than_it_has_is_refused() {
        let files = files("blocks");
        let object = Object::<Raw>::from_value(&serde_json::json!({"metadata": {"name": "y"}})).unwrap();
        let mut bytes = Vec::new();
        object.write_record(&mut bytes);
        fs::write(files.objects(1), &bytes).unwrap();
        let whole = ObjectBlock { at: 0, len: bytes.len(), objects: 1, crc: crc32fast::hash(&bytes) };
        let read = |block: &ObjectBlock| files.read_objects::<Raw>(&head(vec![block.clone()]));
        assert_eq!(read(&whole).unwrap().len(), 1);
        let behind = ObjectBlock { at: 1, ..whole };
        let crc = |len: usize| crc32fast::hash(bytes.get(..len).unwrap());
        for (block, reason) in [
            (ObjectBlock { len: usize::MAX, ..whole }, "a block is larger than any"),
            (ObjectBlock { objects: usize::MAX, ..whole }, "a block is larger than any"),
            (ObjectBlock { crc: 0, ..whole }, "a checksum is wrong"),
            (ObjectBlock { objects: 0, ..whole }, "a record is not whole"),
            (ObjectBlock { objects: 2, ..whole }, "a record is not whole"),
            (ObjectBlock { len: 10, crc: crc(10), ..whole }, "a record is not whole"),
        ] {
            let path = files.objects(1).display().to_string();
            assert_eq!(read(&block).unwrap_err(), WarmError::Damaged { path, reason }, "{block:?}");
        }
        assert!(matches!(read(&behind), Err(WarmError::Io { .. })), "behind the end");
        fs::remove_dir_all(&files.directory).unwrap();
    }
}
