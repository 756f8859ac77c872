//! What happens to objects without anybody asking: the life of what others depend on.
//!
//! [`definitions`]: custom kinds come and go.

pub(crate) mod definitions;
