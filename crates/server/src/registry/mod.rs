//! The resources that are served, and the strategy of each.
//!
//! A kind is data: a [`Resource`] describes one resource of one group and version, built in or custom, and the handlers
//! (`verbs/`) serve any of them alike. The [`Registry`] maps paths to resources. A [`strategy`] decodes, defaults,
//! prepares and validates the objects of one resource; a [`view`] is a subresource that shows the object itself.
//! [`custom`] makes resources from CustomResourceDefinitions, [`expressions`] compiles the CEL of policies,
//! [`extension`] holds the groups of extension API servers.
//!
//! Nothing here handles a request or writes to the store. Before it is `request/info.rs`, which looks a resource up;
//! after it `cache/`, which holds the objects. To add a built-in kind, add a row to `listwatch_kinds`, not code here.

pub mod custom;
pub(crate) mod expressions;
pub(crate) mod extension;
#[cfg(test)]
mod linear_tests;
pub(crate) mod managed;
mod recently_valid;
mod resource;
pub(crate) mod scale_paths;
mod served;
pub(crate) mod strategy;
pub(crate) mod target;
pub(crate) mod view;

pub use resource::{Presenter, Resource, SubresourceInfo};
pub(crate) use served::is_builtin;
pub use served::{Registry, Served};
