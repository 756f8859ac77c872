//! Which kinds exist, and what can be done with them.
//!
//! A kind is data: a [`Resource`] describes one resource of one group and version, built in or custom, and the handlers
//! under `http/` serve any of them alike. The [`Registry`] maps paths to resources. [`mod@write`] holds the write verbs.

pub mod custom;
mod resource;
mod served;
pub mod write;

pub use resource::{Field, Presenter, Resource, Subresource};
pub use served::{Registry, Served};
