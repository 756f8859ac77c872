//! The optimistic loop that every change of an object goes through. kube-apiserver's `GuaranteedUpdate`.
//!
//! A verb decides from the stored object what should be stored. It decides on the cached object first, which is
//! nearly always current and costs no read. The engine writes only if the object is still at that revision; otherwise
//! it returns the newer one and the verb decides again. Before an error or "nothing to do" becomes the response, the
//! engine is asked if the cached object was current, so that no client sees its own earlier write ignored.
//!
//! Deciding is `change.rs` and `delete.rs`; size, depth and canonical encoding are checked here, at the
//! commit.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_storage::{self as storage, Expect, KeyValue, Write};
use listwatch_wire::json::{Encoded, Value, json, raw};
use listwatch_wire::{Revision, Status, json};

use crate::api::stored::{Stored, cached, fresh};
use crate::api::{Api, convert};
use crate::cache::fresh::storage_status;
use crate::cache::{Object, TreeMaker, WrittenTree};
use crate::pipeline::origin::origin;
use crate::pipeline::target::Target;
use crate::pipeline::{Answer, AnswerBody};

/// The decision of a verb about the stored object. It is only tried: the commit may fail and the verb be asked again.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Store a new object where there is none.
    Create(Value),
    /// Store a changed object.
    Write(Value),
    /// Store an object that is being deleted. The size limit does not apply, or it could never be deleted.
    Mark(Value),
    /// Take the object away; this is its last state.
    Remove(Value),
    /// Leave it as it is.
    Keep,
}

/// The result of a change: an object that was stored, removed, or would have been (dry run).
#[derive(Debug)]
pub(crate) enum Done {
    /// Stored, or already so.
    Stored { object: Arc<Object>, created: bool },
    /// Taken away; the last state under its last revision, and the revision at which it went.
    Removed { object: Arc<Object>, at: Revision },
    /// Would have been done.
    Dry { object: Value, created: bool, removed: bool },
}

impl Done {
    /// The answer of a create, update or patch.
    pub(crate) fn answer(self) -> Answer {
        let (code, body) = match self {
            Self::Stored { object, created } => (if created { 201 } else { 200 }, AnswerBody::Object(object)),
            Self::Removed { object, .. } => (200, AnswerBody::Object(object)),
            Self::Dry { object, created, .. } => {
                (if created { 201 } else { 200 }, AnswerBody::Document(object))
            }
        };
        Answer { code, body, warnings: Vec::new() }
    }
}

/// Decides from the stored object what should be stored. Asked again whenever the object has changed meanwhile.
///
/// Closures are decisions too, for those that wait for nothing.
pub(crate) trait Decide: Send {
    fn decide(
        &mut self,
        stored: Option<&Stored>,
    ) -> impl std::future::Future<Output = Result<Verdict, Status>> + Send;

    /// Returns the writes of quotas that must be committed together with the last decision.
    fn charges(&mut self) -> Vec<Write> {
        Vec::new()
    }
}

/// The reason why a commit did not take place.
///
/// A conflict about the object comes with its newer state, so that the next attempt needs no read.
#[derive(Debug)]
pub(crate) enum CommitConflict<T> {
    /// The object is at another revision: this is it, or `None` if it is gone.
    Object(Option<T>),
    /// A quota or claim that was to be written in the same transaction has changed.
    Charge,
}

/// A decision that waits for nothing.
impl<F: FnMut(Option<&Stored>) -> Result<Verdict, Status> + Send> Decide for F {
    fn decide(
        &mut self,
        stored: Option<&Stored>,
    ) -> impl std::future::Future<Output = Result<Verdict, Status>> + Send {
        std::future::ready(self(stored))
    }
}

/// Runs a change to its end: decide, commit, and again with the newer object after a conflict. The number of attempts
/// is not bounded, since each conflict means that another writer succeeded; the deadline of the request is the bound.
///
/// # Errors
/// Those of `decide`, once it is sure that they are about the current object, and storage errors.
#[doc(alias = "GuaranteedUpdate")]
pub(crate) async fn change(
    api: &Api,
    target: &Target<'_>,
    dry_run: bool,
    mut decide: impl Decide,
) -> Result<Done, Status> {
    let mut seen = cached(api, target).await?;
    let mut sure = false;
    loop {
        let verdict = decide.decide(seen.as_ref()).await;
        let final_word = matches!(verdict, Ok(Verdict::Keep) | Err(_));
        if !sure && (final_word || dry_run) {
            sure = true;
            let now = fresh(api, target).await?;
            if now.as_ref().map(|stored| stored.revision) != seen.as_ref().map(|stored| stored.revision) {
                seen = now;
                continue;
            }
        }
        let verdict = verdict?;
        if dry_run {
            return dry(target, verdict, seen);
        }
        match attempt(api, target, verdict, seen, decide.charges()).await? {
            Ok(done) => return Ok(done),
            Err(CommitConflict::Object(current)) => seen = current,
            Err(CommitConflict::Charge) => {
                api.wait_for(None).await?;
                seen = fresh(api, target).await?;
            }
        }
        sure = true;
    }
}

/// Tries to commit a decision. The inner error is the conflict.
async fn attempt(
    api: &Api,
    target: &Target<'_>,
    verdict: Verdict,
    seen: Option<Stored>,
    charges: Vec<Write>,
) -> Result<Result<Done, CommitConflict<Stored>>, Status> {
    let expect = seen.as_ref().map_or(Expect::Absent, |stored| Expect::At(stored.revision));
    // What is too large already may stay as large as it is.
    let room = api.options.requests.object_bytes.max(seen.as_ref().map_or(0, |stored| stored.bytes.len()));
    let (value, created, room) = match verdict {
        Verdict::Keep => return keep(api, target, seen).await,
        Verdict::Remove(last) => return remove(api, target, last, seen).await,
        Verdict::Create(object) => (object, true, room),
        Verdict::Write(object) => (object, false, room),
        Verdict::Mark(object) => (object, false, usize::MAX),
    };
    let commit = Commit { before: seen.as_ref(), expect, room, charges };
    match store(api, target, value, commit).await? {
        Ok(object) => Ok(Ok(Done::Stored { object, created })),
        Err(conflict) => conflict.read(api, target).await.map(Err),
    }
}

/// The conditions of a commit, and what is committed with it.
struct Commit<'a> {
    /// The object before.
    before: Option<&'a Stored>,
    /// The revision at which the object must still be, or its absence.
    expect: Expect,
    /// The bytes it may have.
    room: usize,
    /// Writes of quotas and claims that are committed with it, or not at all.
    charges: Vec<Write>,
}

impl CommitConflict<KeyValue> {
    async fn read(self, api: &Api, target: &Target<'_>) -> Result<CommitConflict<Stored>, Status> {
        Ok(match self {
            Self::Object(Some(found)) => {
                CommitConflict::Object(Some(Stored::from_engine(api, target, found).await?))
            }
            Self::Object(None) => CommitConflict::Object(None),
            Self::Charge => CommitConflict::Charge,
        })
    }
}

/// Leaves an object as it is, except that it is rewritten if the store encrypts it with an outdated key.
///
/// Makes rotation of an encryption key as simple as writing every object without a change.
async fn keep(
    api: &Api,
    target: &Target<'_>,
    seen: Option<Stored>,
) -> Result<Result<Done, CommitConflict<Stored>>, Status> {
    let stored = seen.ok_or_else(|| target.not_found())?;
    let mut revision = stored.revision;
    if let Some(same) = outdated(api, target, revision).await? {
        match put(api, target, Some(same), Expect::At(revision), Vec::new()).await? {
            Ok(written) => revision = written,
            Err(conflict) => return conflict.read(api, target).await.map(Err),
        }
    }
    Ok(Ok(Done::Stored { object: shown(target, stored.bytes, revision)?, created: false }))
}

/// The stored value, if the store would keep it in another form now.
async fn outdated(api: &Api, target: &Target<'_>, at: Revision) -> Result<Option<Bytes>, Status> {
    let failed = |error| storage_status(&error);
    if !api.engine.is_outdated(&target.key).await.map_err(failed)? {
        return Ok(None);
    }
    // As it is stored, in whatever version: an object that was read may have been converted.
    let found = api.engine.get(&target.key, None).await.map_err(failed)?;
    Ok(found.filter(|found| found.revision == at).map(|found| found.value))
}

/// Removes the object and its claims.
async fn remove(
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

/// Stores an object if the conditions hold.
///
/// The tree is kept beside the bytes only if reading the bytes would give the same tree: before the commit for those who see the
/// change before this task goes on, after it for the next writer.
async fn store(
    api: &Api,
    target: &Target<'_>,
    object: Value,
    commit: Commit<'_>,
) -> Result<Result<Arc<Object>, CommitConflict<KeyValue>>, Status> {
    let (rules, trees) = (&target.resource.rules, &api.cache.trees);
    let Commit { before, expect, room, mut charges } = commit;
    charges.extend(claims(api, target, before.map(|stored| &stored.value), Some(&object)).await?);
    let mut stored = object.clone();
    convert::to_stored(api, target.resource, &mut stored).await?;
    let Encoded { bytes, spans, exact, .. } = encode_within(room, &mut stored, before)?;
    let bytes = Bytes::from(bytes);
    // A tree that was converted may read back as another one.
    let maker = stored.is_same(&object).then(|| Arc::clone(rules) as Arc<dyn TreeMaker>);
    let tree = exact.then(|| WrittenTree { value: stored, bytes: bytes.clone(), spans: spans.into() });
    tree.iter().for_each(|tree| trees.offer(&target.key, tree.clone()));
    match put(api, target, Some(bytes.clone()), expect, charges).await? {
        Ok(revision) => {
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

/// The stored form, if it has no more than `room` bytes and is no deeper than what can be read again. As in
/// kube-apiserver, an object that does not fit is tried once more without `managedFields`, which repeat all field names
/// and are nested deeper than the fields.
///
/// The limit is etcd's default request size in kube-apiserver, hence the words of its error.
fn encode_within(room: usize, object: &mut Value, before: Option<&Stored>) -> Result<Encoded, Status> {
    let fits = |encoded: &Encoded| encoded.bytes.len() <= room && encoded.depth <= json::MAX_DEPTH;
    let mut encoded = json::encode_after(object, before.and_then(Stored::written));
    if !fits(&encoded)
        && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        meta.remove("managedFields");
        encoded = json::encode_after(object, before.and_then(Stored::written));
    }
    match encoded {
        encoded if fits(&encoded) => Ok(encoded),
        Encoded { depth, .. } if depth > json::MAX_DEPTH => Err(Status::bad_request("exceeded max depth")),
        // The text that clients know, which comes from the store of kube-apiserver.
        _ => Err(Status::unknown_reason("etcdserver: request is too large")),
    }
}

/// Writes or removes the object, with charges in one transaction. A write of admission configuration returns only
/// once the cache has it, so that the next request is admitted by it.
///
/// The only function that writes objects to the engine.
async fn put(
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
        // Answered only when this server enforces it: plugins read the cache.
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

/// Removes an object that cannot be read, without its finalizers: it can be neither marked nor updated. `None` if it
/// can be read or does not exist.
///
/// # Errors
/// Those of `check`, 409 if the object changed meanwhile, 5xx.
pub(crate) async fn remove_unreadable(
    api: &Api,
    target: &Target<'_>,
    check: impl Fn(&Value, Revision) -> Result<(), Status>,
) -> Result<Option<Done>, Status> {
    let found = match api.engine.get(&target.key, None).await {
        Err(storage::Error::Corrupt(_)) => return remove_damaged(api, target, check).await.map(Some),
        found => found.map_err(|error| storage_status(&error))?,
    };
    let Some(found) = found.filter(|found| Value::read(&found.value).is_err()) else { return Ok(None) };
    let identity = identity(target, &found.value);
    check(&identity, found.revision)?;
    tracing::warn!(key = &*target.key, "an object that cannot be read is deleted without its finalizers");
    match put(api, target, None, Expect::At(found.revision), Vec::new()).await? {
        Ok(_) => Ok(Some(Done::Dry { object: identity, created: false, removed: true })),
        Err(_) => Err(target.modified()),
    }
}

/// Removes an object whose stored bytes are corrupt.
async fn remove_damaged(
    api: &Api,
    target: &Target<'_>,
    check: impl Fn(&Value, Revision) -> Result<(), Status>,
) -> Result<Done, Status> {
    let identity = identity(target, b"");
    check(&identity, Revision::ZERO)?;
    tracing::warn!(key = &*target.key, "a damaged object is deleted without its finalizers");
    match put(api, target, None, Expect::Any, Vec::new()).await? {
        Ok(_) => Ok(Done::Dry { object: identity, created: false, removed: true }),
        Err(_) => Err(target.not_found()),
    }
}

/// The revision and size of an object, known without reading it.
fn identity(target: &Target<'_>, bytes: &[u8]) -> Value {
    let uid = raw::lookup(bytes, &["metadata", "uid"]).and_then(raw::scalar).unwrap_or_default();
    let mut object = json!({
        "kind": &*target.resource.kind, "apiVersion": target.resource.api_version(),
        "metadata": {"name": target.name, "uid": uid},
    });
    if let (Some(namespace), Some(meta)) = (target.namespace, object.inner("metadata")) {
        meta.put("namespace", namespace);
    }
    object
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

/// The bytes to store.
async fn encode(api: &Api, target: &Target<'_>, mut object: Value) -> Result<Bytes, Status> {
    convert::to_stored(api, target.resource, &mut object).await?;
    Ok(json::encode_stored(&object).into())
}

/// An object as clients see it under a revision.
pub(crate) fn shown(target: &Target<'_>, bytes: Bytes, revision: Revision) -> Result<Arc<Object>, Status> {
    let object = target.resource.collection.object(&target.key, bytes, revision);
    object.ok_or_else(|| Status::internal("the object that was written cannot be read"))
}

/// The response to a dry run: a changed object keeps its resourceVersion, a new one has none.
fn dry(target: &Target<'_>, verdict: Verdict, seen: Option<Stored>) -> Result<Done, Status> {
    let revision = seen.as_ref().map(|stored| stored.revision);
    let (mut object, created, removed) = match verdict {
        Verdict::Create(object) => return Ok(Done::Dry { object, created: true, removed: false }),
        Verdict::Write(object) | Verdict::Mark(object) => (object, false, false),
        Verdict::Remove(object) => (object, false, true),
        Verdict::Keep => (seen.ok_or_else(|| target.not_found())?.value, false, false),
    };
    if let Some(revision) = revision {
        with_version(&mut object, revision);
    }
    Ok(Done::Dry { object, created, removed })
}

/// Shows an object's version in its metadata.
pub(crate) fn with_version(object: &mut Value, revision: Revision) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("resourceVersion".to_owned(), revision.to_string().into());
    }
}
