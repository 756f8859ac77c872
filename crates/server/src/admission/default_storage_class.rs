//! DefaultStorageClass: sets the default StorageClass on new PersistentVolumeClaims that name none.
//!
//! An empty `storageClassName` is a name (no dynamic provisioning) and stays. Of several default classes the newest
//! is taken, then the first by name, as in kube-apiserver; [`newest`] is shared with DefaultIngressClass. Claims that
//! were created before a default existed are assigned by a controller, not here.

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;

use super::config_source::ConfigSource;
use super::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::registry::Resource;

const CLASSES: (&str, &str, &str) = ("storage.k8s.io", "v1", "storageclasses");
const DEFAULTS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotation that named a class before the field existed. ResourceQuota counts by it as well.
const LEGACY_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Mutating, on creations. A claim pays for a list of all StorageClasses only if it names none.
#[derive(Debug)]
pub(super) struct DefaultStorageClass(ConfigSource);

impl Default for DefaultStorageClass {
    fn default() -> Self {
        Self(ConfigSource::new(CLASSES))
    }
}

#[async_trait]
impl Plugin for DefaultStorageClass {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "persistentvolumeclaims")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        operation == Operation::Create && subresource.is_empty()
    }

    fn is_idle(&self, api: &Api) -> bool {
        self.0.is_empty(api)
    }

    async fn admit(&self, request: &Attributes<'_>, claim: &mut Value) -> Result<(), Status> {
        let named = claim.at("spec").has("storageClassName")
            || claim.at("metadata").at("annotations").has(LEGACY_CLASS);
        if named {
            return Ok(());
        }
        let classes = request.list(CLASSES, None);
        if let (Some(class), Some(spec)) = (default_class(&classes), claim.inner_or_new("spec")) {
            spec.put("storageClassName", class);
        }
        Ok(())
    }
}

/// Returns the name of the default StorageClass.
pub(crate) fn default_class(classes: &[Value]) -> Option<&str> {
    newest(classes, &DEFAULTS)
}

/// Returns the name of the class that is marked as default: of several the newest, then the first by name.
///
/// Creation times are compared as texts, which is right because all are stored in UTC and of one length.
pub(super) fn newest<'c>(classes: &'c [Value], marks: &[&str]) -> Option<&'c str> {
    let is_default = |class: &&Value| {
        let annotations = class.at("metadata").at("annotations");
        marks.iter().any(|mark| annotations.text(mark) == "true")
    };
    let mut defaults: Vec<&Value> = classes.iter().filter(is_default).collect();
    defaults.sort_by(|a, b| {
        let (a, b) = (a.at("metadata"), b.at("metadata"));
        let age = b.text("creationTimestamp").cmp(a.text("creationTimestamp"));
        age.then_with(|| a.text("name").cmp(b.text("name")))
    });
    defaults.first().map(|class| class.at("metadata").text("name"))
}
