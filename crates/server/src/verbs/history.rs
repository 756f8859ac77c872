//! The history of one object: its versions within retention, and the difference of two.
//!
//! An extension of this server. Versions come from the engine, newest first and in pages bounded in number and bytes; each is
//! shown as a GET at that time would have shown it, with the field manager that wrote it as far as `managedFields` say, and the
//! user and time that the embedded engine keeps with each version. A list as of an older revision is an ordinary list
//! (`resourceVersionMatch=Exact`); a version is restored by writing it like any object. The request is read in
//! [`crate::request::history`].

use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use listwatch_storage::{KeyVersion, VersionRange};
use listwatch_wire::delta::{Compared, compare, patch_document};
use listwatch_wire::json::raw;
use listwatch_wire::json::{self, Map, Value};
use listwatch_wire::{Revision, Status};

use crate::api::{Api, blocking, convert, reserved};
use crate::cache::fresh::storage_status;
use crate::http::body::Response;
use crate::http::gzip;
use crate::http::request::Request;
use crate::pipeline::{origin, seconds};
use crate::registry::Resource;
use crate::registry::target::Target;
use crate::request::ResourceRequest;
use crate::request::history::HistoryPart;
use crate::request::info::{RequestInfo, ResourceInfo};
use crate::request::selectors::parse_version;
use crate::respond;

/// Versions of a page if the request has no limit.
const DEFAULT_LIMIT: usize = 50;
/// The largest limit.
const MAX_LIMIT: usize = 500;
/// Bytes after which no further version is added to a page, since many pages may be in memory at once.
const PAGE_BYTES: usize = 4 << 20;

/// The memory of a page: the versions and the response.
const ROOM: usize = 2 * PAGE_BYTES;

/// Answers a request for the history of an object.
///
/// # Errors
///
/// 404 if the object has no history, 400 for parameters, 410 for a revision that is compacted.
pub(crate) async fn answer(
    api: &Arc<Api>,
    target: &ResourceRequest,
    part: HistoryPart,
) -> Result<Response, Status> {
    // The response must have all writes that were acknowledged before the request.
    api.wait_for(None).await?;
    let asked = AskedHistory {
        resource: Arc::clone(&target.resource),
        request: Arc::clone(&target.request),
        info: Arc::clone(&target.info),
        part,
    };
    // A page is megabytes, and so may be one version: too much work for an async worker.
    let (beside, user) = (Arc::clone(api), &target.user.name);
    let room = api.histories.enter(user, ROOM).await;
    let body = api.blocking_for(user).run(async move { asked.body(&beside).await }).await?;
    Ok(gzip::compress(
        respond::json(StatusCode::OK, reserved(body, room)),
        &target.request.http,
        api.options.requests.gzip_above,
        &api.compressors,
    ))
}

/// The history of one object that a request asks for.
struct AskedHistory {
    resource: Arc<Resource>,
    request: Arc<RequestInfo>,
    info: Arc<ResourceInfo>,
    part: HistoryPart,
}

impl AskedHistory {
    /// The JSON of the response: the versions, or the difference between two of them.
    async fn body(&self, api: &Api) -> Result<Bytes, Status> {
        let Some(name) = self.info.name.as_deref() else {
            return Err(Status::bad_request("the history of an object needs its name"));
        };
        let namespace = self.info.namespace.as_deref().filter(|_| self.resource.namespaced);
        let object = Target::new(&self.resource, namespace, name);
        match self.part {
            HistoryPart::Versions => versions(api, &self.request.http, &object).await,
            HistoryPart::Difference => difference(api, &self.request.http, &object).await,
        }
    }
}

/// Answers a page of versions. One more than the page is read: it shows if there are others, and the field manager of
/// the oldest one is found by it.
async fn versions(api: &Api, request: &Request, object: &Target<'_>) -> Result<Bytes, Status> {
    let query = &request.query;
    let limit = match query.integer("limit")?.map(usize::try_from) {
        None | Some(Ok(0)) => DEFAULT_LIMIT,
        Some(Ok(limit)) => limit.min(MAX_LIMIT),
        Some(Err(_)) => return Err(Status::bad_request("the limit must not be negative")),
    };
    let before = parse_version(query.text("continue"))?;
    // One more than the page has: whether there are others, and the version before the oldest of the page.
    let range = VersionRange { before, limit: limit + 1, bytes: PAGE_BYTES };
    let mut found = api.engine.versions(&object.key, range).await.map_err(|error| storage_status(&error))?;
    if found.is_empty() && before.is_none() {
        return Err(object.not_found());
    }
    let full = found.len() > limit || bytes_of(&found) >= PAGE_BYTES;
    let older = (found.len() > limit.max(1)).then(|| found.pop()).flatten();
    let next = found.last().filter(|_| full).map(|last| last.revision);
    let mut out =
        BytesMut::from(&b"{\"kind\":\"ObjectHistory\",\"apiVersion\":\"listwatch/v1\",\"metadata\":{"[..]);
    if let Some(next) = next {
        out.extend_from_slice(format!("\"continue\":\"{next}\"").as_bytes());
    }
    out.extend_from_slice(b"},\"versions\":[");
    let before_each = found.iter().skip(1).chain(&older).map(Some).chain(std::iter::once(None));
    for (i, (version, before)) in found.iter().zip(before_each).enumerate() {
        if i > 0 {
            out.extend_from_slice(b",");
        }
        describe(api, object, (version, before), &mut out).await?;
        blocking::pause().await;
    }
    out.extend_from_slice(b"]}\n");
    Ok(out.freeze())
}

/// Deletions count nothing.
fn bytes_of(versions: &[KeyVersion]) -> usize {
    versions.iter().filter_map(|version| version.value.as_ref()).map(Bytes::len).sum()
}

/// Writes one version: revision, field manager, user, time and object.
///
/// One version is shown at a time; a conversion webhook is called once per version.
async fn describe(
    api: &Api,
    object: &Target<'_>,
    (version, before): (&KeyVersion, Option<&KeyVersion>),
    out: &mut BytesMut,
) -> Result<(), Status> {
    let mut entry = Map::new();
    entry.insert("resourceVersion", version.revision.to_string().into());
    let origin = version.origin.as_deref().and_then(origin::read);
    if let Some((user, time)) = origin {
        entry.insert("user", user.into());
        entry.insert("time", seconds(time).into());
    }
    let Some(value) = &version.value else {
        entry.insert("deleted", true.into());
        out.extend_from_slice(&json::encode(&entry.into()));
        return Ok(());
    };
    if let Some(writer) = writer(value, before.and_then(|before| before.value.as_ref())) {
        for key in ["manager", "operation", "subresource", "time"] {
            if let Some(text) = writer.get(key).filter(|_| key != "time" || origin.is_none()) {
                entry.insert(key, text.clone());
            }
        }
    }
    let head = json::encode(&entry.into());
    out.extend_from_slice(head.strip_suffix(b"}").unwrap_or(&head));
    out.extend_from_slice(b",\"object\":");
    out.extend_from_slice(&shown(api, object, value, version.revision).await?);
    out.extend_from_slice(b"}");
    Ok(())
}

/// The entry of the field manager that made a version: the newest of those that the version before did not have. An
/// entry that only lost fields to another manager kept its time.
///
/// A guess from the record: a write that changed no field of its manager leaves no new stamp.
fn writer(value: &Bytes, before: Option<&Bytes>) -> Option<Value> {
    let entries = |bytes: &Bytes| -> Option<Value> {
        Value::read(raw::lookup(bytes, &["metadata", "managedFields"])?).ok()
    };
    let (now, before) = (entries(value)?, before.and_then(entries).unwrap_or_default());
    let before = before.as_array().map(Vec::as_slice).unwrap_or_default();
    // Sets, because both versions may have thousands of managers.
    let (stamps, same): (HashSet<_>, HashSet<_>) =
        before.iter().map(|old| (stamp(old), json::encode(old))).unzip();
    let time = |entry: &Value| entry.get("time").and_then(Value::as_str).unwrap_or_default().to_owned();
    let rank =
        |entry: &&Value| (!stamps.contains(&stamp(entry)), !same.contains(&json::encode(entry)), time(entry));
    now.as_array()?.iter().max_by_key(rank).cloned()
}

/// The part of an entry that identifies a write.
fn stamp(entry: &Value) -> [Option<&str>; 4] {
    ["manager", "operation", "subresource", "time"].map(|key| entry.get(key).and_then(Value::as_str))
}

/// A version as a GET would have shown it.
async fn shown(api: &Api, object: &Target<'_>, value: &Bytes, revision: Revision) -> Result<Bytes, Status> {
    let resource = object.resource;
    let read = resource.collection.object(&object.key, value.clone(), revision);
    let read = read.ok_or_else(|| Status::internal("a stored version is not an object"))?;
    let converted = convert::shown_one(api, resource, read).await?;
    Ok(respond::encode::object(&resource.present(&converted), resource))
}

/// Answers the JSON patch between the versions at two revisions.
///
/// Both versions are held in memory, and the patch is as large as they differ.
async fn difference(api: &Api, request: &Request, object: &Target<'_>) -> Result<Bytes, Status> {
    let query = &request.query;
    let at = |key: &'static str| -> Result<Revision, Status> {
        parse_version(query.text(key))?
            .filter(|revision| *revision > Revision::ZERO)
            .ok_or_else(|| Status::bad_request(format!("the parameter {key} must be a resourceVersion")))
    };
    let (from, to) = (at("from")?, at("to")?);
    let (from, old) = version_at(api, object, from).await?;
    let (to, new) = version_at(api, object, to).await?;
    let mut out = BytesMut::new();
    out.extend_from_slice(
        format!("{{\"kind\":\"ObjectDifference\",\"apiVersion\":\"listwatch/v1\",\"from\":\"{from}\",\"to\":\"{to}\",\"patch\":")
            .as_bytes(),
    );
    match compare(&old, &new, usize::MAX) {
        Compared::Edits(edits) => patch_document(&edits, &mut out),
        Compared::Whole => {
            out.extend_from_slice(b"[{\"op\":\"replace\",\"path\":\"\",\"value\":");
            out.extend_from_slice(&new);
            out.extend_from_slice(b"}]");
        }
    }
    out.extend_from_slice(b"}\n");
    Ok(out.freeze())
}

/// The version that an object had at a revision, as a GET would have shown it.
async fn version_at(api: &Api, object: &Target<'_>, at: Revision) -> Result<(Revision, Bytes), Status> {
    let found = api.engine.get(&object.key, Some(at)).await.map_err(|error| storage_status(&error))?;
    let found = found.ok_or_else(|| object.not_found())?;
    Ok((found.revision, shown(api, object, &found.value, found.revision).await?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use listwatch_wire::json::json;

    use super::*;

    fn version(managers: usize, newest: &str) -> Bytes {
        let entry = |n: usize| json!({"manager": format!("m{n}"), "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}});
        let mut entries: Vec<Value> = (0..managers).map(entry).collect();
        entries.push(
            json!({"manager": newest, "operation": "Update", "time": "2026-01-01T00:00:01Z", "fieldsV1": {}}),
        );
        json::encode(&json!({"metadata": {"name": "a", "managedFields": entries}})).into()
    }

    /// Each entry was compared with each of the version before: six requests for the history of an object with 1,500
    /// field managers kept `/livez` waiting for 40 seconds.
    #[test]
    fn the_writer_of_a_version_is_found_among_thousands_of_managers() {
        let (now, before) = (version(4000, "new"), version(4000, "old"));
        let begin = Instant::now();
        let found = writer(&now, Some(&before)).unwrap();
        assert_eq!(found.get("manager").and_then(Value::as_str), Some("new"));
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}
