//! [`ScalePaths`]: where the numbers of the `scale` subresource are in objects of a resource.
//!
//! Built-in workloads have them in fixed fields, custom resources where their definition says (`specReplicasPath` and
//! so on). It is part of the strategy, below the verbs, so that `subresources/scale.rs` and the
//! HorizontalPodAutoscaler's requests work for any kind alike.

/// The fields behind a `scale` subresource, as paths of field names.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    /// The number of replicas wanted.
    pub(crate) spec: Vec<String>,
    /// The number of replicas there are.
    pub(crate) status: Vec<String>,
    /// The selector of the replicas: text, or a label selector.
    pub(crate) selector: Option<Vec<String>>,
}

impl ScalePaths {
    /// The paths of built-in workloads.
    pub(crate) fn builtin() -> Self {
        let path = |keys: [&str; 2]| keys.map(str::to_owned).to_vec();
        Self {
            spec: path(["spec", "replicas"]),
            status: path(["status", "replicas"]),
            selector: Some(path(["spec", "selector"])),
        }
    }
}
