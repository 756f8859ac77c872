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
use super::configuration::uninitialized;
use super::default_ingress_class::DefaultIngressClass;
use super::default_storage_class::DefaultStorageClass;
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::deny_service_external_ips::DenyServiceExternalIPs;
use super::event_rate_limit::{EventLimit, EventRateLimit};
use super::extended_resource_toleration::ExtendedResourceToleration;
use super::image_policy_webhook::{ImagePolicyOptions, ImagePolicyWebhook};
use super::limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology;
use super::limit_ranger::LimitRanger;
use super::namespace_exists::NamespaceExists;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_restriction::NodeRestriction;
use super::owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement;
use super::param_access::ParamAccess;
use super::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use super::pod_node_selector::PodNodeSelector;
use super::pod_security::{PodSecurity, PodSecurityOptions};
use super::pod_toleration_restriction::PodTolerationRestriction;
use super::pod_topology_labels::PodTopologyLabels;
use super::priority::PriorityPlugin;
use super::resource_quota::ResourceQuota;
use super::rights::EscalationCheck;
use super::runtime_class::RuntimeClass;
use super::service_account::ServiceAccount;
use super::storage_object_in_use_protection::StorageObjectInUseProtection;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use super::{Chain, Plugin, WebhookLimits, event_rate_limit, policy, webhook};

/// A function and not a value, because webhooks and policies have state of their own: each server of a process (tests
/// run several) gets its own plugins.
type Make = fn(&PluginConfiguration<'_>) -> Arc<dyn Plugin>;

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
    off("AlwaysAdmit", |_| Arc::new(AlwaysAdmit)),
    absent("NamespaceAutoProvision"),
    on("NamespaceLifecycle", |_| Arc::new(NamespaceLifecycle)),
    off("NamespaceExists", |_| Arc::new(NamespaceExists)),
    off("LimitPodHardAntiAffinityTopology", |_| Arc::new(LimitPodHardAntiAffinityTopology)),
    on("LimitRanger", |_| Arc::new(LimitRanger::default())),
    // See the plugin for when it is idle.
    careful(
        "ServiceAccount",
        |_| Arc::new(ServiceAccount { always: false }),
        |_| Arc::new(ServiceAccount { always: true }),
    ),
    on("NodeRestriction", |_| Arc::new(NodeRestriction)),
    on("TaintNodesByCondition", |_| Arc::new(TaintNodesByCondition)),
    off("AlwaysPullImages", |_| Arc::new(AlwaysPullImages)),
    off("ImagePolicyWebhook", |own| own.image_policy()),
    on("PodSecurity", |own| Arc::new(PodSecurity::new(own.options.pod_security.clone()))),
    off("PodNodeSelector", |_| Arc::new(PodNodeSelector)),
    on("Priority", |_| Arc::new(PriorityPlugin)),
    on("DefaultTolerationSeconds", |_| Arc::new(DefaultTolerationSeconds)),
    off("PodTolerationRestriction", |_| Arc::new(PodTolerationRestriction)),
    off("EventRateLimit", |own| Arc::new(EventRateLimit::new(&own.options.event_limits))),
    off("ExtendedResourceToleration", |_| Arc::new(ExtendedResourceToleration)),
    on("DefaultStorageClass", |_| Arc::new(DefaultStorageClass::default())),
    on("StorageObjectInUseProtection", |_| Arc::new(StorageObjectInUseProtection)),
    absent("PodGroupProtection"),
    off("OwnerReferencesPermissionEnforcement", |_| Arc::new(OwnerReferencesPermissionEnforcement)),
    on("PersistentVolumeClaimResize", |_| Arc::new(PersistentVolumeClaimResize)),
    on("RuntimeClass", |_| Arc::new(RuntimeClass)),
    on("CertificateApproval", |_| Arc::new(CertificateApproval)),
    on("CertificateSigning", |_| Arc::new(CertificateSigning)),
    on("ClusterTrustBundleAttest", |_| Arc::new(ClusterTrustBundleAttest)),
    on("CertificateSubjectRestriction", |_| Arc::new(CertificateSubjectRestriction)),
    on("DefaultIngressClass", |_| Arc::new(DefaultIngressClass::default())),
    off("DenyServiceExternalIPs", |_| Arc::new(DenyServiceExternalIPs)),
    on("PodTopologyLabels", |_| Arc::new(PodTopologyLabels)),
    absent("NodeDeclaredFeatureValidator"),
    absent("PodResizeValidator"),
    on("MutatingAdmissionPolicy", |_| Arc::new(policy::MutatingPolicies::default())),
    on("MutatingAdmissionWebhook", |_| Arc::new(webhook::MutatingWebhooks::default())),
    on("ValidatingAdmissionPolicy", |_| Arc::new(policy::ValidatingPolicies::default())),
    on("ValidatingAdmissionWebhook", |_| Arc::new(webhook::ValidatingWebhooks::default())),
    on("ResourceQuota", |_| Arc::new(ResourceQuota::default())),
    off("AlwaysDeny", |_| Arc::new(AlwaysDeny)),
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
    /// The limits of EventRateLimit, which needs one.
    pub event_limits: Vec<EventLimit>,
    /// The webhook of ImagePolicyWebhook, which needs it.
    pub image_policy: Option<ImagePolicyOptions>,
    /// The Pod Security Standards of namespaces without labels, and exemptions from all of them.
    pub pod_security: PodSecurityOptions,
}

/// Plugins that cannot be used as the options say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// A name that is no plugin of kube-apiserver, or one that this server does not have: correct it.
    #[error("there is no admission plugin {0:?}")]
    UnknownPlugin(String),
    /// The configuration of a plugin is missing or cannot be used: correct `--admission-control-config-file`.
    #[error("{0}")]
    Configuration(String),
}

/// The parts of the options that plugins are made of.
struct PluginConfiguration<'a> {
    options: &'a AdmissionOptions,
    /// The webhook, if it is on.
    image_policy: Option<Arc<ImagePolicyWebhook>>,
}

impl PluginConfiguration<'_> {
    /// [`AdmissionOptions::check`] requires the configuration of a plugin that is on, so that nothing is let through for the lack of
    /// one.
    fn image_policy(&self) -> Arc<dyn Plugin> {
        match &self.image_policy {
            Some(plugin) => Arc::clone(plugin) as _,
            None => Arc::new(AlwaysDeny),
        }
    }
}

impl AdmissionOptions {
    /// Checks the names of the plugins, and that those that need a configuration have one.
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
    /// The first name that is not known, or a plugin that is on and lacks the configuration that it needs. A plugin that
    /// kube-apiserver has and this server does not may be disabled, but not enabled.
    pub fn check(&self) -> Result<(), AdmissionError> {
        let known = |name: &&String| PLUGINS.iter().any(|row| row.name == **name);
        let usable = |name: &&String| PLUGINS.iter().any(|row| row.name == **name && row.make.is_some());
        let wrong =
            self.enable.iter().find(|name| !usable(name)).or(self.disable.iter().find(|name| !known(name)));
        if let Some(name) = wrong {
            return Err(AdmissionError::UnknownPlugin(name.clone()));
        }
        let failed = |plugin: &str, why: &str| Err(AdmissionError::Configuration(uninitialized(plugin, why)));
        if self.is_on("EventRateLimit") && self.event_limits.is_empty() {
            return failed("EventRateLimit", &event_rate_limit::none().to_string());
        }
        if self.is_on("ImagePolicyWebhook") && self.image_policy.is_none() {
            return failed("ImagePolicyWebhook", "no config specified");
        }
        Ok(())
    }

    /// Returns true if a plugin that is off by default is on.
    fn is_on(&self, name: &str) -> bool {
        let names = |list: &[String]| list.iter().any(|other| other == name);
        names(&self.enable) && !names(&self.disable)
    }

    /// Makes what can fail of the plugins that are on.
    ///
    /// # Errors
    /// The kubeconfig of a webhook cannot be used.
    fn configuration(&self) -> Result<PluginConfiguration<'_>, AdmissionError> {
        const NAME: &str = "ImagePolicyWebhook";
        let webhook = self.image_policy.clone().filter(|_| self.is_on(NAME)).map(ImagePolicyWebhook::new);
        let webhook =
            webhook.transpose().map_err(|why| AdmissionError::Configuration(uninitialized(NAME, &why)))?;
        Ok(PluginConfiguration { options: self, image_policy: webhook.map(Arc::new) })
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
///
/// # Errors
/// A plugin that cannot be used as it is configured.
#[doc(alias = "AllOrderedPlugins")]
#[doc(alias = "DefaultOffAdmissionPlugins")]
pub(crate) fn chain(options: &AdmissionOptions) -> Result<Chain, AdmissionError> {
    let configuration = options.configuration()?;
    let enabled = PLUGINS.iter().filter_map(|row| options.maker(row));
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(ParamAccess), Arc::new(PodCertificateSigning)];
    plugins.extend(enabled.map(|make| make(&configuration)));
    plugins.push(Arc::new(EscalationCheck));
    Ok(Chain::new(plugins))
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
        let all = chain(&AdmissionOptions::default()).unwrap().len();
        assert_eq!(chain(&options(&[], &["Priority"])).unwrap().len(), all - 1);
        assert_eq!(
            options(&["Nonsense"], &[]).check(),
            Err(AdmissionError::UnknownPlugin("Nonsense".to_owned()))
        );
        assert_eq!(
            options(&[], &["Nonsense"]).check(),
            Err(AdmissionError::UnknownPlugin("Nonsense".to_owned()))
        );
        assert_eq!(options(&["Priority"], &["AlwaysDeny"]).check(), Ok(()));
        for (name, why) in [
            ("EventRateLimit", "limits: Invalid value: null: must not be empty"),
            ("ImagePolicyWebhook", "no config specified"),
        ] {
            let error = options(&[name], &[]).check().unwrap_err().to_string();
            assert_eq!(error, format!("couldn't init admission plugin \"{name}\": {why}"));
            assert_eq!(options(&[name], &[name]).check(), Ok(()));
        }
    }
}
