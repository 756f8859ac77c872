//! [`CollectedPage`]: the objects of a list in memory, as the deletion of a collection returns them.
//!
//! It is in this module because an [`super::AnswerBody`] may hold one, while `verbs/list/mod.rs` makes and writes it:
//! dependencies between modules go one way.

use std::sync::Arc;

use listwatch_wire::Revision;

use crate::cache::CachedObject;

/// Objects of a list with the revision that the list shows and, if there are more, the continue token.
#[derive(Clone, Debug)]
pub(crate) struct CollectedPage {
    pub(crate) objects: Vec<Arc<CachedObject>>,
    pub(crate) revision: Revision,
    pub(crate) more: Option<More>,
}

/// The continue token of a page and the number of objects after it. The number is `None` with a selector: it would
/// need a full read.
#[derive(Clone, Debug)]
pub(crate) struct More {
    pub(crate) token: String,
    pub(crate) remaining: Option<u64>,
}
