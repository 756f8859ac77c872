//! Endpoints that are no verbs of a resource: discovery, OpenAPI, health, metrics,
//! debug pages and the web console.

pub(crate) mod console;
pub(crate) mod debug;
pub(crate) mod discovery;
pub(crate) mod discovery_v2;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod openid;
pub(crate) mod version;
