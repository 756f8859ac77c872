//! The engine on etcd, for several servers on one cluster.
//!
//! etcd is the store; this is a translation. Writes are transactions on the modification revision, reads are linearizable,
//! history is etcd's own, and [one watch](mod@feed) over everything feeds the same [tail](crate::tail) that the other engines
//! use. [Calls](mod@call) have a deadline and are made again at another member where that does no harm. Nothing here compacts
//! by itself: etcd's `--auto-compaction-retention` sets how long history is kept.
//!
//! Differences to the embedded engine that callers may notice: revisions have gaps, the changes of one transaction
//! share a revision, values are bounded by etcd's `--max-request-bytes` (1.5 MiB by default), and the begin of
//! history is found by asking. kube-apiserver keeps its objects in etcd the same way, but with a watch per resource
//! and in protobuf; the two cannot read each other's data.

mod backlog;
mod call;
mod feed;
mod keyspace;
mod options;
mod parts;

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, GetOptions, GetResponse, Txn, TxnOp, TxnOpResponse};
use listwatch_wire::Revision;
use parking_lot::RwLock;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

pub use options::{EtcdOptions, EtcdTls, EtcdUser};

use crate::tail::{LogCursor, Tail, TailBounds};
use crate::{Changes, Engine, Error, Expect, Health, KeyValue, Page, Range, Transacted, Write, Written};
use backlog::{EtcdBacklog, READERS};
use call::{CallFailure, Repeat, call};
use feed::{ClientBox, EtcdShared, MAX_MESSAGE};
use keyspace::{Keyspace, number, revision};

/// The keys that are read at a time: keeps messages small, and other users of etcd served.
const CHUNK: usize = 1000;
/// The bytes of a response to a read. Where so many keys have more, fewer are read at a time.
const MAX_READ: usize = 64 << 20;

/// A store on an etcd cluster. Dropping it ends its watch.
///
/// Needs the tokio runtime that it was made in, for the watch. Any number of engines, in any number of processes, may
/// use the same prefix.
#[derive(Debug)]
pub struct EtcdEngine {
    shared: Arc<EtcdShared>,
    feed: AbortHandle,
}

impl EtcdEngine {
    /// Connects, and begins to follow all changes under the prefix.
    ///
    /// ```no_run
    /// use listwatch_storage::etcd::EtcdUser;
    /// use listwatch_storage::{EtcdEngine, EtcdOptions};
    ///
    /// # async fn example(password: String) -> Result<(), listwatch_storage::Error> {
    /// let engine = EtcdEngine::connect(EtcdOptions {
    ///     endpoints: vec!["https://etcd-0:2379".into(), "https://etcd-1:2379".into()],
    ///     prefix: "/staging".into(), // servers with another prefix share nothing but the revisions
    ///     tls: Some(Default::default()),
    ///     user: Some(EtcdUser { name: "listwatch".into(), password }),
    ///     ..EtcdOptions::default()
    /// })
    /// .await?;
    /// # drop(engine);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no member answers in time, or none lets us in.
    pub async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        let client = ClientBox(call::connect(&options.endpoints, &options).await?);
        let bounds = TailBounds { changes: options.tail_changes, bytes: options.tail_bytes };
        let starting = EtcdShared {
            client,
            keys: Keyspace::new(&options.prefix),
            options,
            tail: Arc::new(Tail::new(Revision::ZERO, bounds)),
            health: RwLock::default(),
            wanted: watch::Sender::new(Revision::ZERO),
            readers: Arc::new(Semaphore::new(READERS)),
        };
        let current = starting.current().await.map_err(CallFailure::into_error)?;
        starting.tail.restart(current);
        let shared = Arc::new(starting);
        let feed = tokio::spawn(feed::run(Arc::clone(&shared))).abort_handle();
        Ok(Self { shared, feed })
    }

    fn open(&self) -> Result<(), Error> {
        if self.shared.tail.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Sends a read, which may be repeated without harm if its connection fails.
    async fn read(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, CallFailure> {
        let shared = &self.shared;
        call(&shared.options, Repeat::Harmless, || {
            let mut kv = shared.client.0.kv_client().max_decoding_message_size(MAX_READ);
            let (key, options) = (key.to_vec(), options.clone());
            async move { kv.get(key, Some(options)).await }
        })
        .await
    }

    /// Explains a failed read by the revisions that can be read.
    ///
    /// etcd reports only that a revision is compacted or in the future; the numbers in the error cost another call, on
    /// this rare path.
    async fn explain(&self, failure: CallFailure, asked: Revision) -> Error {
        let explained = match failure {
            CallFailure::Compacted => self.compacted().await.map(|oldest| Error::Compacted { asked, oldest }),
            CallFailure::Future => self.current().await.map(|current| Error::Future { asked, current }),
            other => Ok(other.into_error()),
        };
        explained.unwrap_or_else(|error| error)
    }

    /// etcd takes revision zero for the newest one, but here it is before the first write.
    ///
    /// Counts the keys of the marker at that revision, the cheapest request that etcd refuses for a revision out of
    /// history.
    async fn readable(&self, at: Revision) -> Result<(), Error> {
        let probe = GetOptions::new().with_count_only().with_revision(number(at.max(Revision(1))));
        match self.read(self.shared.keys.marker().as_bytes(), probe).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.explain(failure, at).await),
        }
    }

    /// All of a range, a chunk at a time, each at the revision of the first.
    async fn collect(&self, range: &Range) -> Result<Page, (CallFailure, Revision)> {
        let (start, end) = self.shared.keys.bounds(range);
        let mut start = start.into_bytes();
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let mut page: Option<Page> = None;
        let mut most = CHUNK;
        loop {
            let have = page.as_ref().map_or(0, |page| page.items.len());
            let at = page.as_ref().map_or(range.at, |page| Some(page.revision));
            let chunk = most.min(limit - have);
            let options = GetOptions::new().with_range(end.clone()).with_limit(chunk as i64);
            let options = options.with_revision(at.map_or(0, number));
            let mut response = match self.read(&start, options).await {
                Ok(response) => response,
                Err(CallFailure::TooLong(_)) if chunk > 1 => {
                    most = chunk / 8 + 1;
                    continue;
                }
                Err(failure) => return Err((failure, at.unwrap_or_default())),
            };
            let newest = response.header().map_or(Revision::ZERO, |header| revision(header.revision()));
            let count = u64::try_from(response.count()).unwrap_or(0);
            let page =
                page.get_or_insert_with(|| Page { revision: at.unwrap_or(newest), items: Vec::new(), count });
            let found = response.take_kvs();
            if let Some(last) = found.last() {
                // The first key after a key is that key with a zero byte.
                start = [last.key(), b"\0"].concat();
            }
            page.items.extend(found.into_iter().filter_map(|kv| self.shared.keys.key_value(kv)));
            if !response.more() || page.items.len() >= limit {
                return Ok(page.clone());
            }
        }
    }

    /// Once its response is lost, a transaction is not sent again: its condition would then see its own write and
    /// report a conflict.
    async fn send(&self, transaction: Txn) -> Result<etcd_client::TxnResponse, Error> {
        let done = call(&self.shared.options, Repeat::Harmful, || {
            let mut kv = self.shared.client.0.kv_client().max_decoding_message_size(MAX_MESSAGE);
            let transaction = transaction.clone();
            async move { kv.txn(transaction).await }
        });
        done.await.map_err(CallFailure::into_error)
    }
}

/// The conditions of etcd's transaction for a write; `None` if they can never hold.
///
/// A put without a condition has none. A delete always has one, so that deleting nothing is refused here as in the
/// other engines.
fn conditions(key: &str, write: &Write) -> Option<Vec<Compare>> {
    let exists = || Compare::create_revision(key, CompareOp::Greater, 0);
    match (write.expect, &write.value) {
        (Expect::Any, Some(_)) => Some(Vec::new()),
        (Expect::Any, None) => Some(vec![exists()]),
        (Expect::Absent, Some(_)) => Some(vec![Compare::create_revision(key, CompareOp::Equal, 0)]),
        (Expect::Absent, None) => None,
        // To etcd an absent key has modification revision zero.
        (Expect::At(at), _) => Some(vec![exists(), Compare::mod_revision(key, CompareOp::Equal, number(at))]),
    }
}

#[async_trait]
impl Engine for EtcdEngine {
    async fn current(&self) -> Result<Revision, Error> {
        self.open()?;
        let current = self.shared.current().await.map_err(CallFailure::into_error)?;
        if current > self.shared.tail.upto() {
            self.shared.wanted.send_if_modified(|wanted| {
                let further = current > *wanted;
                *wanted = current.max(*wanted);
                further
            });
        }
        Ok(current)
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error> {
        self.open()?;
        if at == Some(Revision::ZERO) {
            return self.readable(Revision::ZERO).await.map(|()| None);
        }
        let options = GetOptions::new().with_revision(at.map_or(0, number));
        match self.read(self.shared.keys.key(key).as_bytes(), options).await {
            Ok(mut response) => Ok(response.take_kvs().pop().and_then(|kv| self.shared.keys.key_value(kv))),
            Err(failure) => Err(self.explain(failure, at.unwrap_or_default()).await),
        }
    }

    async fn range(&self, range: Range) -> Result<Page, Error> {
        self.open()?;
        if let Some(at) = range.at.filter(|at| *at == Revision::ZERO || range.is_empty()) {
            return self.readable(at).await.map(|()| Page { revision: at, items: Vec::new(), count: 0 });
        }
        if range.is_empty() {
            return Ok(Page { revision: self.current().await?, items: Vec::new(), count: 0 });
        }
        loop {
            match self.collect(&range).await {
                Ok(page) => return Ok(page),
                // History was compacted between two chunks of the newest state: there is a newer one.
                Err((CallFailure::Compacted, _)) if range.at.is_none() => {}
                Err((failure, asked)) => return Err(self.explain(failure, asked).await),
            }
        }
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        self.open()?;
        write.check()?;
        let key = self.shared.keys.key(&write.key);
        let Some(conditions) = conditions(&key, &write) else {
            return Ok(Written::Refused { current: self.get(&write.key, None).await? });
        };
        let change = match &write.value {
            Some(value) => TxnOp::put(key.as_str(), value.to_vec(), None),
            None => TxnOp::delete(key.as_str(), None),
        };
        let look = TxnOp::get(key.as_str(), None);
        let response = self.send(Txn::new().when(conditions).and_then([change]).or_else([look])).await?;
        if response.succeeded() {
            let revision = response.header().map_or(Revision::ZERO, |header| revision(header.revision()));
            return Ok(Written::Done { revision });
        }
        let current = match response.op_responses().pop() {
            Some(TxnOpResponse::Get(mut found)) => found.take_kvs().pop(),
            _ => None,
        };
        Ok(Written::Refused { current: current.and_then(|kv| self.shared.keys.key_value(kv)) })
    }

    /// In etcd all changes of a transaction have one revision.
    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error> {
        self.open()?;
        Write::check_all(&writes)?;
        let (mut when, mut then, mut look) = (Vec::new(), Vec::new(), Vec::new());
        for write in &writes {
            let key = self.shared.keys.key(&write.key);
            // A condition that never holds is one that contradicts itself.
            let never = || vec![Compare::create_revision(key.as_str(), CompareOp::Less, 0)];
            when.extend(conditions(&key, write).unwrap_or_else(never));
            look.push(TxnOp::get(key.as_str(), None));
            then.push(match &write.value {
                Some(value) => TxnOp::put(key.as_str(), value.to_vec(), None),
                None => TxnOp::delete(key.as_str(), None),
            });
        }
        let response = self.send(Txn::new().when(when).and_then(then).or_else(look)).await?;
        if response.succeeded() {
            let at = response.header().map_or(Revision::ZERO, |header| revision(header.revision()));
            return Ok(Transacted::Done { revisions: vec![at; writes.len()] });
        }
        let mut current = Vec::with_capacity(writes.len());
        for found in response.op_responses() {
            let kv = match found {
                TxnOpResponse::Get(mut found) => found.take_kvs().pop(),
                _ => None,
            };
            current.push(kv.and_then(|kv| self.shared.keys.key_value(kv)));
        }
        Ok(Transacted::Refused { current })
    }

    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error> {
        self.open()?;
        self.readable(after).await?;
        let tail = Arc::clone(&self.shared.tail);
        Ok(Box::new(LogCursor::new(tail, Arc::new(EtcdBacklog::new(Arc::clone(&self.shared))), after)))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.open()?;
        let shared = &self.shared;
        let compacted = call(&shared.options, Repeat::Harmless, || {
            let mut kv = shared.client.0.kv_client();
            async move { kv.compact(number(upto), None).await }
        });
        match compacted.await {
            Ok(_) | Err(CallFailure::Compacted) => Ok(()),
            Err(failure) => Err(self.explain(failure, upto).await),
        }
    }

    /// etcd reports the begin of its history only to a watch that begins before it.
    async fn compacted(&self) -> Result<Revision, Error> {
        self.open()?;
        let first = GetOptions::new().with_count_only().with_revision(1);
        match self.read(self.shared.keys.marker().as_bytes(), first).await {
            Ok(_) => Ok(Revision::ZERO),
            Err(CallFailure::Compacted) => backlog::oldest(&self.shared).await,
            Err(failure) => Err(failure.into_error()),
        }
    }

    fn health(&self) -> Health {
        self.shared.health.read().clone()
    }

    async fn close(&self) -> Result<(), Error> {
        self.feed.abort();
        self.shared.tail.close();
        Ok(())
    }
}

impl Drop for EtcdEngine {
    fn drop(&mut self) {
        self.feed.abort();
        self.shared.tail.close();
    }
}
