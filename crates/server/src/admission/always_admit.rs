//! AlwaysAdmit: lets everything pass. Off by default, and deprecated in kube-apiserver, too.

use async_trait::async_trait;

use super::{Operation, Plugin};
use crate::registry::Resource;

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
