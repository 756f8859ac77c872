//! [`Encrypted`]: a storage engine in front of another one that encrypts chosen values.
//!
//! A decorator, so that cache, pipeline and controllers see plain objects and no engine knows keys. Keys and
//! revisions stay as they are: only values are encrypted. One value that cannot be decrypted must not hide the
//! others, so a range returns it as empty and the cache reports it as damaged (`cache/damage.rs`). After a key
//! rotation, `is_outdated` lets an unchanged update rewrite a value with the first key.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use listwatch_storage::{
    Batch, Change, Changes, Engine, Error, Health, KeyValue, KeyVersion, Page, Range, Revision, Transacted,
    Usage, VersionRange, Write, Written,
};

use crate::encryption::config::EncryptionConfig;

/// A storage engine that keeps the values of chosen resources encrypted in another engine.
///
/// Everything else of the inner engine passes through: order, revisions, conditions, history. A condition never
/// depends on a value, so encryption cannot change which write wins.
#[doc(alias = "EncryptionAtRest")]
#[derive(Debug)]
pub struct Encrypted {
    inner: Arc<dyn Engine>,
    config: Arc<EncryptionConfig>,
}

impl Encrypted {
    /// Encrypts values on the way into `inner` and decrypts them on the way out.
    #[must_use]
    pub fn new(inner: Arc<dyn Engine>, config: EncryptionConfig) -> Self {
        Self { inner, config: Arc::new(config) }
    }
}

impl EncryptionConfig {
    /// Decrypts a value, if the configuration covers its key. The key is part of what is authenticated: a value copied
    /// to another place is refused.
    fn read(&self, place: &str, stored: Bytes) -> Result<Bytes, Error> {
        match self.transform(place) {
            Some(transform) => transform.read(place, stored).map_err(Error::Invalid),
            None => Ok(stored),
        }
    }

    /// Decrypts what a read found.
    ///
    /// # Errors
    ///
    /// The value cannot be decrypted with any key of the configuration.
    fn plain(&self, found: KeyValue) -> Result<KeyValue, Error> {
        let value = self.read(&found.key, found.value)?;
        Ok(KeyValue { value, ..found })
    }

    /// One value that cannot be decrypted does not keep the others from being read.
    fn plain_or_damaged(&self, found: KeyValue) -> KeyValue {
        let damaged = KeyValue { value: Bytes::new(), ..found.clone() };
        self.plain(found).unwrap_or(damaged)
    }

    /// Deletions have no value and pass as they are.
    fn sealed(&self, mut write: Write) -> Result<Write, Error> {
        if let (Some(transform), Some(value)) = (self.transform(&write.key), &write.value) {
            write.value = Some(transform.store(&write.key, value.clone()).map_err(Error::Invalid)?);
        }
        Ok(write)
    }

    /// The previous value is decrypted, too: watches with selectors need it to recognize an event that leaves their
    /// selection.
    ///
    /// # Errors
    ///
    /// One value that cannot be decrypted ends the log, as a gap in it would.
    fn change(&self, change: &Change) -> Result<Change, Error> {
        let Change { revision, key, value, previous } = change.clone();
        let value = value.map(|value| self.read(&key, value)).transpose()?;
        let previous = match previous {
            Some((revision, value)) => Some((revision, self.read(&key, value)?)),
            None => None,
        };
        Ok(Change { revision, key, value, previous })
    }
}

#[async_trait]
impl Engine for Encrypted {
    async fn current(&self) -> Result<Revision, Error> {
        self.inner.current().await
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error> {
        self.inner.get(key, at).await?.map(|found| self.config.plain(found)).transpose()
    }

    async fn range(&self, range: Range) -> Result<Page, Error> {
        let page = self.inner.range(range).await?;
        let items = page.items.into_iter().map(|item| self.config.plain_or_damaged(item)).collect();
        Ok(Page { items, ..page })
    }

    async fn versions(&self, key: &str, range: VersionRange) -> Result<Vec<KeyVersion>, Error> {
        let opened = |version: KeyVersion| {
            let KeyVersion { revision, value: Some(value), origin } = version else { return Ok(version) };
            let found = self.config.plain(KeyValue { key: key.into(), value, revision })?;
            Ok(KeyVersion { revision, value: Some(found.value), origin })
        };
        self.inner.versions(key, range).await?.into_iter().map(opened).collect()
    }

    /// Reads the stored bytes again, because those that the caller has are plain.
    async fn is_outdated(&self, key: &str) -> Result<bool, Error> {
        let Some(transform) = self.config.transform(key) else { return Ok(false) };
        let stored = self.inner.get(key, None).await?;
        Ok(stored.is_some_and(|stored| !transform.is_current(&stored.value)))
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        Ok(match self.inner.write(self.config.sealed(write)?).await? {
            Written::Refused { current } => {
                Written::Refused { current: current.map(|found| self.config.plain(found)).transpose()? }
            }
            done @ Written::Done { .. } => done,
        })
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error> {
        let writes = writes.into_iter().map(|write| self.config.sealed(write)).collect::<Result<_, _>>()?;
        Ok(match self.inner.transact(writes).await? {
            Transacted::Refused { current } => {
                let current = current.into_iter();
                let plain = |found: Option<KeyValue>| found.map(|found| self.config.plain(found)).transpose();
                Transacted::Refused { current: current.map(plain).collect::<Result<_, _>>()? }
            }
            done @ Transacted::Done { .. } => done,
        })
    }

    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error> {
        let inner = self.inner.changes(after).await?;
        Ok(Box::new(Decrypted { inner, config: Arc::clone(&self.config) }))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.inner.compact(upto).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.inner.compacted().await
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}

/// The log of the other store, decrypted.
#[derive(Debug)]
struct Decrypted {
    inner: Box<dyn Changes>,
    config: Arc<EncryptionConfig>,
}

#[async_trait]
impl Changes for Decrypted {
    async fn next(&mut self) -> Result<Batch, Error> {
        let batch = self.inner.next().await?;
        // Most batches have nothing encrypted and stay shared.
        if batch.changes.iter().all(|change| self.config.transform(&change.key).is_none()) {
            return Ok(batch);
        }
        let changes =
            batch.changes.iter().map(|change| self.config.change(change)).collect::<Result<_, _>>()?;
        Ok(Batch { changes, ..batch })
    }
}
