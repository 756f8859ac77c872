//! [`CompiledConfig`]: FlowSchemas and PriorityLevelConfigurations as they are used to classify requests.
//!
//! Compiled again when an object has changed, never changed in place. The queues of a level outlive it
//! ([`PriorityLevelState::after`]); the meaning of one object is `config.rs`, and the seats of a level are `shares.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderValue;

use super::{Fairness, FlowHeaders, PriorityLevelState};
use crate::cache::{Collection, CollectionSnapshot, Filter};
use crate::fairness::config::{CATCH_ALL, EXEMPT, FlowSchema, PriorityLevel};
use crate::fairness::{bootstrap, shares};

/// The schemas and the levels they refer to.
#[derive(Debug)]
pub(super) struct CompiledConfig {
    /// The snapshots of the schemas and of the levels that it was compiled from.
    pub(super) from: (Arc<CollectionSnapshot>, Arc<CollectionSnapshot>),
    /// In the order of precedence.
    pub(super) schemas: Vec<CompiledSchema>,
    pub(super) levels: HashMap<String, Arc<PriorityLevelState>>,
}

/// A schema whose level exists, with what a request that it takes needs.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) schema: FlowSchema,
    pub(super) name: Arc<str>,
    pub(super) level: Arc<PriorityLevelState>,
    pub(super) headers: FlowHeaders,
}

impl CompiledConfig {
    /// Compiles the objects of both collections. Levels with the same queue settings are kept, with the requests that
    /// wait in them.
    pub(super) fn new(
        fairness: &Fairness,
        from: (Arc<CollectionSnapshot>, Arc<CollectionSnapshot>),
        before: Option<&Self>,
    ) -> Self {
        let mut configs: Vec<PriorityLevel> = read(&fairness.levels, &from.1);
        for name in [EXEMPT, CATCH_ALL] {
            if !configs.iter().any(|level| level.metadata.name == name) {
                configs.push(PriorityLevel::named(name));
            }
        }
        let shares: Vec<_> = configs.iter().map(PriorityLevel::share).collect();
        let bounds = shares::bounds(fairness.total, &shares);
        let levels: HashMap<String, Arc<PriorityLevelState>> = configs
            .into_iter()
            .zip(bounds)
            .map(|(config, bounds)| {
                let old = before.and_then(|before| before.levels.get(&config.metadata.name));
                (config.metadata.name.clone(), PriorityLevelState::after(old, config, bounds))
            })
            .collect();
        let mut schemas: Vec<FlowSchema> = read(&fairness.schemas, &from.0);
        schemas.extend(standing());
        schemas.sort_by(|a, b| {
            let key = |schema: &FlowSchema| (schema.spec.matching_precedence, schema.metadata.name.clone());
            key(a).cmp(&key(b))
        });
        // A flow schema whose priority level does not exist matches nothing.
        let with_level = |schema: FlowSchema| {
            let level = levels.get(&schema.spec.priority_level_configuration.name)?;
            let value = |uid: &str| HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""));
            let headers =
                FlowHeaders { schema: value(&schema.metadata.uid), level: value(&level.config.metadata.uid) };
            let name = schema.metadata.name.as_str().into();
            Some(CompiledSchema { schema, name, level: Arc::clone(level), headers })
        };
        Self { from, schemas: schemas.into_iter().filter_map(with_level).collect(), levels }
    }
}

/// The schemas that hold behind all others without any object, so that a server whose objects were deleted can be
/// repaired.
fn standing() -> Vec<FlowSchema> {
    let mandatory = bootstrap::flow_schemas();
    let mandatory = mandatory.iter().filter_map(|object| object.to_type::<FlowSchema>().ok());
    let mut standing: Vec<FlowSchema> =
        mandatory.filter(|schema| matches!(schema.metadata.name.as_str(), EXEMPT | CATCH_ALL)).collect();
    for schema in &mut standing {
        schema.spec.matching_precedence = i32::MAX;
    }
    // `exempt` first, because `catch-all` matches all users.
    standing.sort_by_key(|schema| schema.metadata.name != EXEMPT);
    if let Some(first) = standing.first_mut() {
        first.spec.matching_precedence -= 1;
    }
    standing
}

/// Reads the objects of a collection. One that cannot be read is logged and ignored: a broken object must not stop
/// the server from serving.
fn read<T: serde::de::DeserializeOwned>(collection: &Collection, snapshot: &CollectionSnapshot) -> Vec<T> {
    let walk = collection.walk(&Filter::default(), None);
    let objects = snapshot.range(&walk).filter_map(|object| match serde_json::from_slice(object.stored()) {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::warn!(key = %object.key(), %error, "cannot be read, ignored");
            None
        }
    });
    objects.collect()
}
