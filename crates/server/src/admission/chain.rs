//! The table of admission plugins, in the order they are called, and the choice of those that are enabled.
//!
//! The order is kube-apiserver's `AllOrderedPlugins` and matters: defaults before checks of them, policies and
//! webhooks after built-in plugins so that they see the result, ResourceQuota at the end so that nothing is charged for a
//! write that another plugin rejects. Plugins that kube-apiserver has and this server does not are in the table too,
//! so that they can be disabled by name without an error, but not enabled.
//!
//! To add a plugin: write its file, declare it in `admission/mod.rs`, add a row. Calling the plugins is `Chain` in `api/chain.rs`; the
//! checks of what a user may grant ([`super::rights`]), read through policies ([`super::param_access`]) and sign for Pods
//! ([`super::certificates`]) are always added.

use std::sync::Arc;

use super::always_admit::AlwaysAdmit;
use super::always_deny::AlwaysDeny;
use super::always_pull_images::AlwaysPullImages;
use super::certificates::{
    CertificateApproval, CertificateSigning, CertificateSubjectRestriction, PodCertificateSigning,
};
use super::cluster_trust_bundle_attest::ClusterTrustBundleAttest;
use super::default_ingress_class::DefaultIngressClass;
use super::default_storage_class::DefaultStorageClass;
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::deny_service_external_ips::DenyServiceExternalIPs;
use super::extended_resource_toleration::ExtendedResourceToleration;
use super::limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology;
use super::limit_ranger::LimitRanger;
use super::namespace_exists::NamespaceExists;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_restriction::NodeRestriction;
use super::owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement;
use super::param_access::ParamAccess;
use super::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use super::pod_node_selector::PodNodeSelector;
use super::pod_security::PodSecurity;
use super::pod_toleration_restriction::PodTolerationRestriction;
use super::pod_topology_labels::PodTopologyLabels;
use super::priority::PriorityPlugin;
use super::resource_quota::ResourceQuota;
use super::rights::EscalationCheck;
use super::runtime_class::RuntimeClass;
use super::service_account::ServiceAccount;
use super::storage_object_in_use_protection::StorageObjectInUseProtection;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use super::{Chain, Plugin, WebhookLimits, policy, webhook};

/// A function and not a value, because webhooks and policies have state of their own: each server of a process (tests
/// run several) gets its own plugins.
type Make = fn() -> Arc<dyn Plugin>;

/// A plugin by its name in kube-apiserver.
struct PluginRow {
    /// The name in `--enable-admission-plugins` and in kube-apiserver's documentation.
    name: &'static str,
    /// Taken from kube-apiserver, except where a row says otherwise.
    on_by_default: bool,
    /// `None` for plugins that kube-apiserver has and this server does not.
    make: Option<Make>,
    /// The plugin as `--enable-admission-plugins` makes it, if that differs.
    named: Option<Make>,
}

/// A plugin that kube-apiserver has on by default.
const fn on(name: &'static str, make: Make) -> PluginRow {
    PluginRow { name, on_by_default: true, make: Some(make), named: None }
}

/// A plugin that must be named to run.
const fn off(name: &'static str, make: Make) -> PluginRow {
    PluginRow { name, on_by_default: false, make: Some(make), named: None }
}

/// Part of kube-apiserver's list, without a plugin here.
const fn absent(name: &'static str) -> PluginRow {
    PluginRow { name, on_by_default: false, make: None, named: None }
}

/// On by default in a lenient form; the strict form is used if the plugin is enabled by name.
const fn careful(name: &'static str, make: Make, named: Make) -> PluginRow {
    PluginRow { name, on_by_default: true, make: Some(make), named: Some(named) }
}

/// Every plugin of kube-apiserver, in the order it calls them.
///
/// The position of a row is its place in the chain for both phases: mutating plugins run in this order, and after the
/// strategy the validating ones run in this order again.
const PLUGINS: &[PluginRow] = &[
    off("AlwaysAdmit", || Arc::new(AlwaysAdmit)),
    absent("NamespaceAutoProvision"),
    on("NamespaceLifecycle", || Arc::new(NamespaceLifecycle)),
    off("NamespaceExists", || Arc::new(NamespaceExists)),
    off("LimitPodHardAntiAffinityTopology", || Arc::new(LimitPodHardAntiAffinityTopology)),
    on("LimitRanger", || Arc::new(LimitRanger::default())),
    // See the plugin for when it is idle.
    careful(
        "ServiceAccount",
        || Arc::new(ServiceAccount { always: false }),
        || Arc::new(ServiceAccount { always: true }),
    ),
    on("NodeRestriction", || Arc::new(NodeRestriction)),
    on("TaintNodesByCondition", || Arc::new(TaintNodesByCondition)),
    off("AlwaysPullImages", || Arc::new(AlwaysPullImages)),
    absent("ImagePolicyWebhook"),
    on("PodSecurity", || Arc::new(PodSecurity)),
    off("PodNodeSelector", || Arc::new(PodNodeSelector)),
    on("Priority", || Arc::new(PriorityPlugin)),
    on("DefaultTolerationSeconds", || Arc::new(DefaultTolerationSeconds)),
    off("PodTolerationRestriction", || Arc::new(PodTolerationRestriction)),
    absent("EventRateLimit"),
    off("ExtendedResourceToleration", || Arc::new(ExtendedResourceToleration)),
    on("DefaultStorageClass", || Arc::new(DefaultStorageClass::default())),
    on("StorageObjectInUseProtection", || Arc::new(StorageObjectInUseProtection)),
    absent("PodGroupProtection"),
    off("OwnerReferencesPermissionEnforcement", || Arc::new(OwnerReferencesPermissionEnforcement)),
    on("PersistentVolumeClaimResize", || Arc::new(PersistentVolumeClaimResize)),
    on("RuntimeClass", || Arc::new(RuntimeClass)),
    on("CertificateApproval", || Arc::new(CertificateApproval)),
    on("CertificateSigning", || Arc::new(CertificateSigning)),
    on("ClusterTrustBundleAttest", || Arc::new(ClusterTrustBundleAttest)),
    on("CertificateSubjectRestriction", || Arc::new(CertificateSubjectRestriction)),
    on("DefaultIngressClass", || Arc::new(DefaultIngressClass::default())),
    off("DenyServiceExternalIPs", || Arc::new(DenyServiceExternalIPs)),
    on("PodTopologyLabels", || Arc::new(PodTopologyLabels)),
    absent("NodeDeclaredFeatureValidator"),
    absent("PodResizeValidator"),
    on("MutatingAdmissionPolicy", || Arc::new(policy::MutatingPolicies::default())),
    on("MutatingAdmissionWebhook", || Arc::new(webhook::MutatingWebhooks::default())),
    on("ValidatingAdmissionPolicy", || Arc::new(policy::ValidatingPolicies::default())),
    on("ValidatingAdmissionWebhook", || Arc::new(webhook::ValidatingWebhooks::default())),
    on("ResourceQuota", || Arc::new(ResourceQuota::default())),
    off("AlwaysDeny", || Arc::new(AlwaysDeny)),
];

/// The plugins that are switched on and off, by kube-apiserver's names.
///
/// The command line checks names with [`AdmissionOptions::check`] before the server starts, so a typing error is not
/// found out by a plugin that silently does nothing.
#[doc(alias = "EnablePlugins")]
#[doc(alias = "DisablePlugins")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// Plugins to use besides those that are on by default.
    pub enable: Vec<String>,
    /// Plugins not to use.
    pub disable: Vec<String>,
    /// Bounds on webhooks.
    pub webhooks: WebhookLimits,
}

/// A name that is not a plugin of kube-apiserver, or one that this server does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no admission plugin {0:?}")]
pub struct UnknownPlugin(pub String);

impl AdmissionOptions {
    /// Checks the names of the plugins.
    ///
    /// ```
    /// use listwatch_server::AdmissionOptions;
    ///
    /// let options = AdmissionOptions { enable: vec!["NoSuchPlugin".to_owned()], ..AdmissionOptions::default() };
    /// assert!(options.check().is_err());
    /// assert!(AdmissionOptions::default().check().is_ok());
    /// ```
    ///
    /// # Errors
    /// The first name that is not known. A plugin that kube-apiserver has and this server does not may be disabled,
    /// but not enabled.
    pub fn check(&self) -> Result<(), UnknownPlugin> {
        let known = |name: &&String| PLUGINS.iter().any(|row| row.name == **name);
        let usable = |name: &&String| PLUGINS.iter().any(|row| row.name == **name && row.make.is_some());
        let wrong =
            self.enable.iter().find(|name| !usable(name)).or(self.disable.iter().find(|name| !known(name)));
        wrong.map_or(Ok(()), |name| Err(UnknownPlugin(name.clone())))
    }

    /// Returns the constructor of a plugin; `None` if it is off. Disabling wins over enabling, as in kube-apiserver.
    fn maker(&self, row: &PluginRow) -> Option<Make> {
        let names = |list: &[String]| list.iter().any(|name| name == row.name);
        if names(&self.disable) {
            return None;
        }
        if names(&self.enable) {
            return row.named.or(row.make);
        }
        row.make.filter(|_| row.on_by_default)
    }
}

/// Returns the chain for these options. Names that are not known are ignored; see [`AdmissionOptions::check`].
/// Called once per server. The order of names in the options has no meaning.
#[doc(alias = "AllOrderedPlugins")]
#[doc(alias = "DefaultOffAdmissionPlugins")]
pub(crate) fn chain(options: &AdmissionOptions) -> Chain {
    let enabled = PLUGINS.iter().filter_map(|row| options.maker(row));
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(ParamAccess), Arc::new(PodCertificateSigning)];
    plugins.extend(enabled.map(|make| make()));
    plugins.push(Arc::new(EscalationCheck));
    Chain::new(plugins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_switched_by_the_names_of_kube_apiserver() {
        let options = |enable: &[&str], disable: &[&str]| AdmissionOptions {
            enable: enable.iter().map(|name| (*name).to_owned()).collect(),
            disable: disable.iter().map(|name| (*name).to_owned()).collect(),
            ..AdmissionOptions::default()
        };
        let all = chain(&AdmissionOptions::default()).len();
        assert_eq!(chain(&options(&[], &["Priority"])).len(), all - 1);
        assert_eq!(options(&["Nonsense"], &[]).check(), Err(UnknownPlugin("Nonsense".to_owned())));
        assert_eq!(options(&[], &["Nonsense"]).check(), Err(UnknownPlugin("Nonsense".to_owned())));
        assert_eq!(options(&["Priority"], &["AlwaysDeny"]).check(), Ok(()));
    }
}
