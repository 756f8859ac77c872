//! [`CollectedPage`]: the objects of a list, as the deletion of a collection returns them. `verbs/list/mod.rs` makes and writes it.

use std::sync::Arc;

use listwatch_wire::Revision;

use crate::cache::Object;

/// Objects of a list, with what the list says about itself.
#[derive(Clone, Debug)]
pub(crate) struct CollectedPage {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) revision: Revision,
    pub(crate) more: Option<More>,
}

/// The continue token of a page and the number of objects after it.
#[derive(Clone, Debug)]
pub(crate) struct More {
    pub(crate) token: String,
    pub(crate) remaining: Option<u64>,
}
