//! Admission: checks of a write against the rest of the cluster, between authorization and the store.

pub(crate) mod namespaces;
pub(crate) mod pod_classes;
