//! DefaultIngressClass: sets the default IngressClass on new Ingresses that name none.
//!
//! The legacy annotation counts as a name. Of several default classes the newest is taken, as for storage classes
//! ([`super::default_storage_class`]). Classes are read from the watch cache; a write of a class is answered only
//! once the cache has it, so the next Ingress sees it.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::config_source::ConfigSource;
use super::default_storage_class::newest;
use super::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::registry::Resource;

const CLASSES: (&str, &str, &str) = ("networking.k8s.io", "v1", "ingressclasses");
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The annotation that named a class before the field existed. Controllers still accept it.
const LEGACY_CLASS: &str = "kubernetes.io/ingress.class";

/// Mutating, on creations. Without any IngressClass it is idle, and a write does not pay for it.
#[derive(Debug)]
pub(super) struct DefaultIngressClass(ConfigSource);

impl Default for DefaultIngressClass {
    fn default() -> Self {
        Self(ConfigSource::new(CLASSES))
    }
}

#[async_trait]
impl Plugin for DefaultIngressClass {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("networking.k8s.io", "ingresses")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Create && subresource.is_empty()
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.is_empty(api)
    }

    async fn admit(&self, request: &Attributes<'_>, ingress: &mut Value) -> Result<(), Status> {
        let named = ingress.at("spec").has("ingressClassName")
            || ingress.at("metadata").at("annotations").has(LEGACY_CLASS);
        if named {
            return Ok(());
        }
        let classes = request.list(CLASSES, None);
        if let (Some(class), Some(spec)) = (newest(&classes, &[DEFAULT]), ingress.inner_or_new("spec")) {
            spec.put("ingressClassName", class);
        }
        Ok(())
    }
}
