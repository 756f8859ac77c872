//! Which kinds exist, and what can be done with them.
//!
//! A kind is data: a [`Resource`] describes one resource of one group and version, built in or custom, and the handlers
//! (`verbs/`) serve any of them alike. The [`Registry`] maps paths to resources. A [`strategy`] is how objects of one resource
//! are decoded, defaulted, prepared and validated; a [`view`] is a subresource that shows the object itself.

pub mod custom;
pub(crate) mod expressions;
pub(crate) mod extension;
#[cfg(test)]
mod linear_tests;
pub(crate) mod managed;
pub(crate) mod recent;
mod resource;
pub(crate) mod scale_paths;
mod served;
pub(crate) mod strategy;
pub(crate) mod target;
pub(crate) mod view;

pub use resource::{Presenter, Resource, Subresource};
pub use served::{Registry, Served};
