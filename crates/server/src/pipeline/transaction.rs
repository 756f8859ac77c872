//! The optimistic loop that every change of an object goes through. kube-apiserver's `GuaranteedUpdate`.
//!
//! A verb decides from the stored object what should be stored. It decides on the cached object first, which is
//! nearly always current and costs no read. The engine writes only if the object is still at that revision; otherwise
//! it returns the newer one and the verb decides again. Before an error or "nothing to do" becomes the response, the
//! engine is asked if the cached object was current, so that no client sees its own earlier write ignored.
//!
//! Deciding is `change.rs` and `delete.rs`; encoding, the bounds on size and depth and the write itself are in `commit.rs`. This
//! loop is independent of the verb: it repeats the verb's decision until the commit succeeds.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_storage::{Expect, Write};
use listwatch_wire::json::Value;
use listwatch_wire::{Revision, Status};

use crate::api::stored::{Stored, cached, fresh};
use crate::api::{Api, convert};
use crate::cache::CachedObject;
use crate::pipeline::commit::{Commit, CommitConflict, keep, remove, store};
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
    Stored { object: Arc<CachedObject>, created: bool },
    /// Taken away; the last state under its last revision, and the revision at which it went.
    Removed { object: Arc<CachedObject>, at: Revision },
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

/// Decides from the stored object what should be stored. Called again whenever the object has changed.
///
/// Closures implement it, for decisions that do not wait.
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
        let mut verdict = verdict?;
        if dry_run {
            if let Verdict::Create(object) | Verdict::Write(object) = &mut verdict {
                convert::round_trip(api, target.resource, object).await?;
            }
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
    // An object that is over the limit already may be updated, but not grow.
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

/// An object as clients see it under a revision.
pub(crate) fn shown(
    target: &Target<'_>,
    bytes: Bytes,
    revision: Revision,
) -> Result<Arc<CachedObject>, Status> {
    let object = target.resource.collection.object(&target.key, bytes, revision);
    object.ok_or_else(|| Status::internal("the object that was written cannot be read"))
}

/// The response to a dry run: a changed object keeps its resourceVersion, a new one has none.
fn dry(target: &Target<'_>, verdict: Verdict, seen: Option<Stored>) -> Result<Done, Status> {
    let revision = seen.as_ref().map(|stored| stored.revision);
    let (mut object, created, removed) = match verdict {
        Verdict::Create(object) => (object, true, false),
        Verdict::Write(object) | Verdict::Mark(object) => (object, false, false),
        Verdict::Remove(object) => (object, false, true),
        Verdict::Keep => (seen.ok_or_else(|| target.not_found())?.value, false, false),
    };
    if let Some(revision) = revision.filter(|_| !created) {
        with_version(&mut object, revision);
    }
    Ok(Done::Dry { object, created, removed })
}

/// Shows an object's version in its metadata.
pub(crate) fn with_version(object: &mut Value, revision: Revision) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("resourceVersion", revision.to_string().into());
    }
}
