//! Flags of authorization, with kube-apiserver's names: modes and the webhook, or a file with all authorizers.
//!
//! The options are in `listwatch_server::auth`, which parses the file as well. Authentication is `secure.rs`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use listwatch_server::auth::{
    AccessWebhookOptions, AuthorizationMode, ReviewVersion, parse_authorization_config,
};

use crate::store::duration;

#[derive(Args, Debug)]
pub(crate) struct AuthorizationArguments {
    /// Authorizers, in order: Node for kubelets, RBAC for roles and bindings, Webhook, AlwaysAllow, AlwaysDeny
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "Node,RBAC", value_parser = MODES)]
    authorization_mode: Vec<String>,

    /// Authorizers in an AuthorizationConfiguration, instead of the flags; read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with_all = FLAGS)]
    authorization_config: Option<PathBuf>,

    /// Kubeconfig of the webhook of the mode Webhook
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,

    /// Version of SubjectAccessReview in requests [v1, v1beta1]
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authorization_webhook_version: ReviewVersion,

    /// The time for which the webhook's allowing answers are cached
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Duration,

    /// The time for which its other answers are cached
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

/// The modes that there are.
const MODES: [&str; 5] = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

/// The flags that a file replaces.
const FLAGS: [&str; 5] = [
    "authorization_mode",
    "authorization_webhook_config_file",
    "authorization_webhook_version",
    "authorization_webhook_cache_authorized_ttl",
    "authorization_webhook_cache_unauthorized_ttl",
];

impl AuthorizationArguments {
    /// The authorizers of the file or of the flags.
    ///
    /// # Errors
    ///
    /// A file that cannot be used, a mode that is there twice, and a webhook without a configuration or a configuration without it.
    pub(crate) fn authorizers(&self) -> anyhow::Result<Vec<AuthorizationMode>> {
        if let Some(file) = &self.authorization_config {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let modes = parse_authorization_config(&text);
            return modes.map_err(|problem| anyhow::anyhow!("{}: {problem}", file.display()));
        }
        let modes = &self.authorization_mode;
        let mut seen = modes.clone();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() != modes.len() {
            anyhow::bail!("authorization-mode {modes:?} has mode specified more than once");
        }
        let has_webhook = modes.iter().any(|mode| mode == "Webhook");
        if self.authorization_webhook_config_file.is_some() && !has_webhook {
            anyhow::bail!("cannot specify --authorization-webhook-config-file without mode Webhook");
        }
        modes.iter().map(|mode| self.mode(mode)).collect()
    }

    /// The file that the authorizers come from.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.authorization_config.clone()
    }

    fn mode(&self, name: &str) -> anyhow::Result<AuthorizationMode> {
        Ok(match name {
            "AlwaysAllow" => AuthorizationMode::AlwaysAllow,
            "AlwaysDeny" => AuthorizationMode::AlwaysDeny,
            "Node" => AuthorizationMode::Node,
            "RBAC" => AuthorizationMode::Rbac,
            "Webhook" => AuthorizationMode::Webhook(Box::new(self.webhook()?)),
            other => anyhow::bail!("authorization-mode {other:?} is not a valid mode"),
        })
    }

    fn webhook(&self) -> anyhow::Result<AccessWebhookOptions> {
        let file = self.authorization_webhook_config_file.clone();
        let file = file.context("authorization-mode Webhook's authorization config file not passed")?;
        Ok(AccessWebhookOptions {
            version: self.authorization_webhook_version,
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
            ..AccessWebhookOptions::new(file)
        })
    }
}
