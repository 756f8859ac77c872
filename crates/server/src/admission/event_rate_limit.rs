//! EventRateLimit: rejects Events beyond a rate, of the server, a namespace, a user, or a source and object. Off by default.
//!
//! The limits are those of a configuration file. Each is a token bucket per key; the least recently used buckets are dropped
//! beyond the size of the limit's cache. Dry runs are not counted, and of Events only those of the core group are, as in
//! kube-apiserver.

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, StatusReason, aggregate};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::configuration::{all_of, check_fields, check_kind};
use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// The buckets of a limit that names no number.
const DEFAULT_CACHE_SIZE: usize = 4096;

/// The parties that share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLimitType {
    /// All of them.
    Server,
    /// The Events of one namespace.
    Namespace,
    /// The Events of one user.
    User,
    /// The Events of one component about one object.
    SourceAndObject,
}

impl EventLimitType {
    const ALL: [(&str, Self); 4] = [
        ("Namespace", Self::Namespace),
        ("Server", Self::Server),
        ("SourceAndObject", Self::SourceAndObject),
        ("User", Self::User),
    ];

    /// The key of an Event under a limit of this type.
    fn key(self, namespace: &str, user: &str, event: &Value) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => namespace.to_owned(),
            Self::User => user.to_owned(),
            Self::SourceAndObject => {
                let (source, about) = (event.at("source"), event.at("involvedObject"));
                let object = ["kind", "namespace", "name", "uid", "apiVersion"].map(|key| about.text(key));
                [source.text("component"), source.text("host")].into_iter().chain(object).collect()
            }
        }
    }
}

impl fmt::Display for EventLimitType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, kind)| kind == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

/// A limit on Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimit {
    /// The Events that it is about.
    pub kind: EventLimitType,
    /// Events per second.
    pub qps: u32,
    /// Events at once.
    pub burst: u32,
    /// The most keys whose buckets are kept.
    pub cache_size: usize,
}

/// Reads the limits of a Configuration of `eventratelimit.admission.k8s.io`.
///
/// # Errors
/// All problems with it, in kube-apiserver's words.
pub(super) fn event_limits(tree: &Value) -> Result<Vec<EventLimit>, String> {
    check_kind(tree, &["eventratelimit.admission.k8s.io/v1alpha1"], "Configuration")?;
    let mut errors = Vec::new();
    if tree.list("limits").is_empty() {
        errors.push(none());
    }
    let mut limits = Vec::new();
    for (index, limit) in tree.list("limits").iter().enumerate() {
        check_fields(limit, &format!("limits[{index}]."), &["type", "qps", "burst", "cacheSize"])?;
        limits.extend(event_limit(limit, &format!("limits[{index}]"), &mut errors));
    }
    all_of(&errors).map(|()| limits)
}

/// The error of a plugin that is on without any limit.
pub(super) fn none() -> FieldError {
    FieldError::invalid("limits", Value::Null, "must not be empty")
}

fn event_limit(limit: &Value, path: &str, errors: &mut Vec<FieldError>) -> Option<EventLimit> {
    let kind = EventLimitType::ALL.iter().find(|(name, _)| *name == limit.text("type"));
    if kind.is_none() {
        let names = EventLimitType::ALL.map(|(name, _)| name);
        errors.push(FieldError::not_supported(format!("{path}.type"), limit.text("type"), &names));
    }
    let number = |field: &str| limit.at(field).as_i64().unwrap_or_default();
    let mut positive = |field: &str| {
        let read = u32::try_from(number(field)).ok().filter(|read| *read > 0);
        if read.is_none() {
            errors.push(FieldError::invalid(format!("{path}.{field}"), number(field), "must be positive"));
        }
        read
    };
    let (burst, qps) = (positive("burst"), positive("qps"));
    let size = usize::try_from(number("cacheSize")).ok();
    if size.is_none() && limit.text("type") != "Server" {
        let (path, size) = (format!("{path}.cacheSize"), number("cacheSize"));
        errors.push(FieldError::invalid(path, size, "must not be negative"));
    }
    let cache_size = size.filter(|size| *size > 0).unwrap_or(DEFAULT_CACHE_SIZE);
    Some(EventLimit { kind: kind?.1, qps: qps?, burst: burst?, cache_size })
}

/// A token bucket. Pure.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket.
    fn new(limit: &EventLimit, now: Instant) -> Self {
        Self { tokens: f64::from(limit.burst), at: now }
    }

    /// Takes a token, if there is one at this time.
    fn take(&mut self, limit: &EventLimit, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(limit.qps);
        self.tokens = (self.tokens + gained).min(f64::from(limit.burst));
        self.at = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

/// A limit and its buckets. Keys are kept as digests, because parts of an Event may be long.
#[derive(Debug)]
struct Enforcer {
    limit: EventLimit,
    buckets: Mutex<HashMap<[u8; 32], TokenBucket>>,
}

impl Enforcer {
    /// Takes a token of the key. A key that is new when the cache is full takes the place of the least recently used.
    fn accept(&self, key: &str, now: Instant) -> bool {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut buckets = self.buckets.lock();
        if !buckets.contains_key(&digest) && buckets.len() >= self.limit.cache_size {
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(key, _)| *key);
            if let Some(key) = oldest {
                buckets.remove(&key);
            }
        }
        let bucket = buckets.entry(digest).or_insert_with(|| TokenBucket::new(&self.limit, now));
        bucket.take(&self.limit, now)
    }
}

/// Validating, on creations and updates.
#[derive(Debug)]
pub(super) struct EventRateLimit(Vec<Enforcer>);

impl EventRateLimit {
    pub(super) fn new(limits: &[EventLimit]) -> Self {
        let enforcer = |limit: &EventLimit| Enforcer { limit: *limit, buckets: Mutex::default() };
        Self(limits.iter().map(enforcer).collect())
    }

    /// Asks every limit, also after one was reached.
    ///
    /// # Errors
    /// The limits that are reached.
    fn accept(&self, namespace: &str, user: &str, event: &Value, now: Instant) -> Result<(), String> {
        let reached = self.0.iter().filter_map(|enforcer| {
            let kind = enforcer.limit.kind;
            let key = kind.key(namespace, user, event);
            (!enforcer.accept(&key, now)).then(|| format!("limit reached on type {kind} for key {key}"))
        });
        let reached: Vec<String> = reached.collect();
        if reached.is_empty() { Ok(()) } else { Err(aggregate(reached)) }
    }
}

#[async_trait]
impl Plugin for EventRateLimit {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "events")
    }

    fn handles(&self, operation: Operation, _subresource: &str) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn validate(&self, request: &Attributes<'_>, event: &Value) -> Result<(), Status> {
        if request.is_dry_run() {
            return Ok(());
        }
        let accepted = self.accept(request.namespace, &request.user.name, event, Instant::now());
        let refused = |why| format!("Too many requests: {why}");
        accepted.map_err(|why| Status::failure(429, StatusReason::TooManyRequests, refused(why)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use listwatch_wire::json::json;

    use super::*;

    fn limit(kind: EventLimitType, cache_size: usize) -> EventLimit {
        EventLimit { kind, qps: 1, burst: 2, cache_size }
    }

    fn event(name: &str) -> Value {
        json!({"source": {"component": "c", "host": "h"}, "involvedObject": {"kind": "Pod", "name": name, "uid": "1"}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_allowed_and_then_the_rate() {
        let plugin = EventRateLimit::new(&[limit(EventLimitType::Namespace, 10)]);
        let ask = |namespace: &str| plugin.accept(namespace, "u", &event("a"), Instant::now());
        assert!(ask("n").is_ok() && ask("n").is_ok());
        assert_eq!(ask("n").unwrap_err(), "limit reached on type Namespace for key n");
        assert!(ask("m").is_ok(), "another namespace");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(ask("n").is_ok() && ask("n").is_err());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(
            ask("n").is_ok() && ask("n").is_ok() && ask("n").is_err(),
            "no more than a burst is saved up"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn every_limit_has_its_key_and_is_told() {
        let kinds = EventLimitType::ALL.map(|(_, kind)| limit(kind, 10));
        let plugin = EventRateLimit::new(&kinds);
        let ask = || plugin.accept("n", "u", &event("a"), Instant::now());
        assert!(ask().is_ok() && ask().is_ok());
        assert_eq!(
            ask().unwrap_err(),
            "[limit reached on type Namespace for key n, limit reached on type Server for key , limit reached on type SourceAndObject for key chPoda1, limit reached on type User for key u]"
        );
    }

    /// Users choose the names of objects: buckets must not grow without bound.
    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_bucket_is_dropped() {
        let plugin = EventRateLimit::new(&[limit(EventLimitType::SourceAndObject, 2)]);
        let ask = |name: &str| plugin.accept("n", "u", &event(name), Instant::now());
        for name in ["a", "a", "b", "c", "d"] {
            assert!(ask(name).is_ok());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(plugin.0[0].buckets.lock().len(), 2);
        assert!(ask("a").is_ok(), "its bucket is new");
    }

    #[test]
    fn a_configuration_is_validated_as_in_kube_apiserver() {
        let of = |limits: Value| {
            event_limits(
                &json!({"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits}),
            )
        };
        let fine = of(
            json!([{"type": "User", "qps": 5, "burst": 10, "cacheSize": 7}, {"type": "Server", "qps": 1, "burst": 1}]),
        );
        let fine = fine.unwrap();
        assert_eq!((fine[0].cache_size, fine[1].cache_size), (7, DEFAULT_CACHE_SIZE));
        assert_eq!(of(json!([])).unwrap_err(), "limits: Invalid value: null: must not be empty");
        assert_eq!(
            of(json!([{"type": "Foo", "burst": -1, "cacheSize": -1}])).unwrap_err(),
            r#"[limits[0].type: Unsupported value: "Foo": supported values: "Namespace", "Server", "SourceAndObject", "User", limits[0].burst: Invalid value: -1: must be positive, limits[0].qps: Invalid value: 0: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]"#
        );
    }
}
