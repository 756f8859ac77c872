//! The commit of a write: the object is encoded, checked against the bounds on size and depth, and written under the condition
//! that the stored object is still the one that was read.
//!
//! Quotas and claims on addresses are written in the same transaction, so that an object is never stored without its charges
//! and claims. A condition that fails is not an error: [`CommitConflict`] carries the newer object back to
//! [`transaction`](super::transaction), which decides again.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_storage::{self as storage, Expect, KeyValue, Write};
use listwatch_wire::json::{EarlierEncoding, Encoded, Value};
use listwatch_wire::{Revision, Status, json};

use crate::api::stored::Stored;
use crate::api::{Api, convert};
use crate::cache::fresh::storage_status;
use crate::cache::{CachedObject, TreeMaker, WrittenTree};
use crate::pipeline::origin::origin;
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Done, shown};

/// The conditions of a commit, and what is committed with it.
pub(super) struct Commit<'a> {
    /// The object before.
    pub(super) before: Option<&'a Stored>,
    /// The revision at which the object must still be, or its absence.
    pub(super) expect: Expect,
    /// The bytes it may have.
    pub(super) room: usize,
    /// Writes of quotas and claims that are committed with it, or not at all.
    pub(super) charges: Vec<Write>,
}

/// The reason why a commit did not take place.
///
/// A conflict about the object comes with its newer state, so that the next attempt needs no read.
#[derive(Debug)]
pub(crate) enum CommitConflict<T> {
    /// The object is at another revision: this is the newer one, or `None` if it was deleted.
    Object(Option<T>),
    /// A quota or claim that was to be written in the same transaction has changed.
    Charge,
}

impl CommitConflict<KeyValue> {
    /// Reads the object that a commit lost to, so that the next attempt can decide on it.
    pub(super) async fn read(self, api: &Api, target: &Target<'_>) -> Result<CommitConflict<Stored>, Status> {
        Ok(match self {
            Self::Object(Some(found)) => {
                CommitConflict::Object(Some(Stored::from_engine(api, target, found).await?))
            }
            Self::Object(None) => CommitConflict::Object(None),
            Self::Charge => CommitConflict::Charge,
        })
    }
}

/// Leaves an object as it is, except that it is rewritten if it would be stored in another form now.
///
/// Makes rotation of an encryption key and migration to another stored version as simple as writing every object
/// without a change.
pub(super) async fn keep(
    api: &Api,
    target: &Target<'_>,
    seen: Option<Stored>,
) -> Result<Result<Done, CommitConflict<Stored>>, Status> {
    let stored = seen.ok_or_else(|| target.not_found())?;
    let form = match present_form(api, target, &stored).await? {
        None => outdated(api, target, stored.revision).await?,
        form => form,
    };
    let Some(bytes) = form else {
        return Ok(Ok(Done::Stored {
            object: shown(target, stored.bytes, stored.revision)?,
            created: false,
        }));
    };
    match put(api, target, Some(bytes.clone()), Expect::At(stored.revision), Vec::new()).await? {
        Ok(revision) => Ok(Ok(Done::Stored { object: shown(target, bytes, revision)?, created: false })),
        Err(conflict) => conflict.read(api, target).await.map(Err),
    }
}

/// The stored form of a custom object by its present definition, if it is another than the one that is stored: in
/// another version, with defaults that were added, without fields that were removed.
async fn present_form(api: &Api, target: &Target<'_>, stored: &Stored) -> Result<Option<Bytes>, Status> {
    if !target.resource.may_restore(stored.revision, &stored.bytes) {
        return Ok(None);
    }
    let present = encode(api, target, stored.value.clone()).await?;
    Ok((present != stored.bytes).then_some(present))
}

/// The stored value, if the store would keep it in another form now.
async fn outdated(api: &Api, target: &Target<'_>, at: Revision) -> Result<Option<Bytes>, Status> {
    let failed = |error| storage_status(&error);
    if !api.engine.is_outdated(&target.key).await.map_err(failed)? {
        return Ok(None);
    }
    // Read without conversion: the stored version may be another one than that of the request.
    let found = api.engine.get(&target.key, None).await.map_err(failed)?;
    Ok(found.filter(|found| found.revision == at).map(|found| found.value))
}

/// Removes the object and its claims.
pub(super) async fn remove(
    api: &Api,
    target: &Target<'_>,
    last: Value,
    seen: Option<Stored>,
) -> Result<Result<Done, CommitConflict<Stored>>, Status> {
    let Some(stored) = seen else { return Err(target.not_found()) };
    let last = encode(api, target, last).await?;
    let claims = claims(api, target, Some(&stored.value), None).await?;
    match put(api, target, None, Expect::At(stored.revision), claims).await? {
        Ok(revision) => {
            let object = shown(target, last, stored.revision)?;
            Ok(Ok(Done::Removed { object, at: revision }))
        }
        Err(conflict) => conflict.read(api, target).await.map(Err),
    }
}

/// Stores a new object and charges quotas for it.
///
/// A conflict means that the name is taken or that a quota changed.
pub(crate) async fn insert(
    api: &Api,
    target: &Target<'_>,
    object: Value,
    charges: Vec<Write>,
) -> Result<Result<Done, CommitConflict<Stored>>, Status> {
    let room = api.options.requests.object_bytes;
    let commit = Commit { before: None, expect: Expect::Absent, room, charges };
    match store(api, target, object, commit).await? {
        Ok(object) => Ok(Ok(Done::Stored { object, created: true })),
        Err(conflict) => conflict.read(api, target).await.map(Err),
    }
}

/// Stores an object if the conditions hold.
///
/// The tree is kept beside the bytes only if reading the bytes would give the same tree: before the commit for readers that see
/// the change before this task continues, after it for the next writer.
pub(super) async fn store(
    api: &Api,
    target: &Target<'_>,
    object: Value,
    commit: Commit<'_>,
) -> Result<Result<Arc<CachedObject>, CommitConflict<KeyValue>>, Status> {
    let (rules, trees) = (&target.resource.rules, &api.cache.trees);
    let Commit { before, expect, room, mut charges } = commit;
    charges.extend(claims(api, target, before.map(|stored| &stored.value), Some(&object)).await?);
    let mut stored = object.clone();
    convert::to_stored(api, target.resource, &mut stored).await?;
    let example = if before.is_none() { api.cache.created.like(&stored) } else { None };
    let earlier = before.map_or_else(|| example.as_ref().map(WrittenTree::encoding), Stored::written);
    let Encoded { bytes, spans, exact, .. } = encode_within(room, &mut stored, earlier)?;
    let bytes = Bytes::from(bytes);
    // A converted tree need not be equal to the tree of its bytes.
    let maker = stored.is_same(&object).then(|| Arc::clone(rules) as Arc<dyn TreeMaker>);
    // Stored bytes have no resourceVersion.
    let exact = exact && !stored.at("metadata").has("resourceVersion");
    let tree = exact.then(|| WrittenTree::new(stored, bytes.clone(), spans.into()));
    tree.iter().for_each(|tree| trees.offer(&target.key, tree.clone()));
    match put(api, target, Some(bytes.clone()), expect, charges).await? {
        Ok(revision) => {
            tree.iter().filter(|_| before.is_none()).for_each(|tree| api.cache.created.note(tree));
            tree.into_iter().for_each(|tree| trees.put(&target.key, revision, maker.clone(), tree));
            shown(target, bytes, revision).map(Ok)
        }
        Err(conflict) => Ok(Err(conflict)),
    }
}

/// The writes of claims that are committed with an object.
async fn claims(
    api: &Api,
    target: &Target<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<Vec<Write>, Status> {
    let writes = api.allocator.claims.writes(&*api.engine, target, before, after).await;
    writes.map_err(|error| storage_status(&error))
}

/// The stored form, if it has no more than `room` bytes and is not deeper than what can be read again. As in
/// kube-apiserver, an object that does not fit is tried once more without `managedFields`, which repeat all field names
/// and are nested deeper than the fields.
///
/// The limit is etcd's default request size in kube-apiserver, hence the message of its error.
fn encode_within(
    room: usize,
    object: &mut Value,
    earlier: Option<EarlierEncoding<'_>>,
) -> Result<Encoded, Status> {
    let fits = |encoded: &Encoded| encoded.bytes.len() <= room && encoded.depth <= json::MAX_DEPTH;
    let mut encoded = json::encode_after(object, earlier);
    if !fits(&encoded)
        && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        meta.remove("managedFields");
        encoded = json::encode_after(object, earlier);
    }
    match encoded {
        encoded if fits(&encoded) => Ok(encoded),
        Encoded { depth, .. } if depth > json::MAX_DEPTH => Err(Status::bad_request("exceeded max depth")),
        // The message of etcd, which clients know from kube-apiserver.
        _ => Err(Status::unknown_reason("etcdserver: request is too large")),
    }
}

/// The bytes to store.
async fn encode(api: &Api, target: &Target<'_>, mut object: Value) -> Result<Bytes, Status> {
    convert::to_stored(api, target.resource, &mut object).await?;
    Ok(json::encode_stored(&object).into())
}

/// Writes or removes the object, with charges in one transaction. A write of admission configuration returns only
/// once the cache has it, so that the next request is admitted by it.
///
/// The only function that writes objects to the engine.
pub(super) async fn put(
    api: &Api,
    target: &Target<'_>,
    value: Option<Bytes>,
    expect: Expect,
    charges: Vec<Write>,
) -> Result<Result<Revision, CommitConflict<KeyValue>>, Status> {
    let origin = Some(origin(target.user, jiff::Timestamp::now()));
    let write = Write { key: Arc::clone(&target.key), value, expect, origin };
    let written = if charges.is_empty() {
        let written = api.engine.write(write).await.map_err(|error| storage_status(&error))?;
        match written {
            storage::Written::Done { revision } => Ok(revision),
            storage::Written::Refused { current } => Err(CommitConflict::Object(current)),
        }
    } else {
        put_charged(api, write, charges).await?
    };
    if let Ok(revision) = &written
        && crate::admission::is_configuration(target.resource)
    {
        // The response waits until admission plugins of this server see the write in the cache.
        api.cache.position().wait_for(*revision, api.options.requests.version_wait).await;
    }
    Ok(written)
}

/// Writes an object with charges of quotas and claims, all or nothing.
async fn put_charged(
    api: &Api,
    write: Write,
    charges: Vec<Write>,
) -> Result<Result<Revision, CommitConflict<KeyValue>>, Status> {
    let expect = write.expect;
    let origin = write.origin.clone();
    let charges = charges.into_iter().map(|charge| Write { origin: origin.clone(), ..charge });
    let writes = std::iter::once(write).chain(charges).collect();
    let outcome = api.engine.transact(writes).await.map_err(|error| storage_status(&error))?;
    Ok(match outcome {
        storage::Transacted::Done { revisions } => Ok(revisions.first().copied().unwrap_or_default()),
        storage::Transacted::Refused { current } => {
            let object = current.into_iter().next().flatten();
            let holds = expect.holds(object.as_ref().map(|found| found.revision));
            Err(if holds { CommitConflict::Charge } else { CommitConflict::Object(object) })
        }
    })
}
