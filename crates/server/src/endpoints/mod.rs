//! Endpoints outside of resources: discovery, features, OpenAPI, health, metrics, OpenID, status and flags, debug pages
//! and the web console.
//!
//! `chain/route.rs` chooses one by its path, after authentication and authorization as a non-resource URL; the
//! console is served before both, since its files are public. Each returns a whole document, made on request from the
//! registry, the cache or counters. Nothing here changes state.

pub(crate) mod console;
pub(crate) mod debug;
pub(crate) mod discovery;
pub(crate) mod discovery_v2;
pub(crate) mod features;
pub(crate) mod health;
pub(crate) mod metrics;
mod metrics_protobuf;
pub(crate) mod openapi;
pub(crate) mod openid;
pub(crate) mod version;
pub(crate) mod zpages;
