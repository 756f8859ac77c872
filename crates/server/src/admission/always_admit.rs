//! AlwaysAdmit: admits everything. Off by default, and deprecated in kube-apiserver as well.
//!
//! It exists so that `--enable-admission-plugins AlwaysAdmit` of an existing configuration is accepted. It handles no
//! operation, so the chain never calls it.

use async_trait::async_trait;

use super::{Operation, Plugin};
use crate::registry::Resource;

/// Admits everything. It is there because configurations of old clusters name it.
#[derive(Debug)]
pub(super) struct AlwaysAdmit;

#[async_trait]
impl Plugin for AlwaysAdmit {
    fn is_interested(&self, _resource: &Resource) -> bool {
        false
    }

    fn handles(&self, _operation: Operation, _subresource: &str) -> bool {
        false
    }
}
