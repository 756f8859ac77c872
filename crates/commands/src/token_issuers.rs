//! Flags for credentials of other issuers, with kube-apiserver's names: OpenID Connect and the token webhook.
//!
//! One issuer can be given by flags, several by `--authentication-config`; they exclude each other, as in
//! kube-apiserver. The default prefix of user names (the issuer's URL and `#`, unless the claim is `email`) is
//! kube-apiserver's too: without it an issuer could name users of another. Authentication itself is
//! `listwatch_server::auth`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use listwatch_server::auth::{OidcIssuer, ReviewVersion, TokenWebhookOptions};

use crate::store::duration;

#[derive(Args, Debug)]
pub(crate) struct TokenIssuerArguments {
    /// URL of the OpenID Connect issuer whose tokens are accepted
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,

    /// Audience that its tokens must have
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,

    /// CAs of the issuer's certificate; by default those of the system
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_ca_file: Option<PathBuf>,

    /// Claim with the user name
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    oidc_username_claim: String,

    /// The prefix of user names: the issuer's URL and # unless the claim is email; - for none
    #[arg(long, value_name = "TEXT", requires = "oidc_issuer_url", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,

    /// Claim with the groups
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url")]
    oidc_groups_claim: Option<String>,

    /// The prefix of groups
    #[arg(long, value_name = "TEXT", requires = "oidc_issuer_url")]
    oidc_groups_prefix: Option<String>,

    /// Accepted signature algorithms
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "RS256")]
    oidc_signing_algs: Vec<String>,

    /// A claim that tokens must have, with its value; may be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_parser = claim, requires = "oidc_issuer_url")]
    oidc_required_claim: Vec<(String, String)>,

    /// Issuers in an AuthenticationConfiguration, instead of the flags
    #[arg(long, value_name = "FILE", conflicts_with = "oidc_issuer_url")]
    authentication_config: Option<PathBuf>,

    /// Kubeconfig of a webhook for tokens that no other authenticator accepts
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,

    /// Version of TokenReview in requests [v1, v1beta1]
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authentication_token_webhook_version: ReviewVersion,

    /// The time for which answers of the webhook are cached
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Duration,
}

impl TokenIssuerArguments {
    /// The OIDC issuers from the configuration file, or the one of the `--oidc-…` flags, which exclude each other as in
    /// kube-apiserver.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a configuration that cannot be used. Issuers are checked once more when the
    /// server starts.
    pub(crate) fn issuers(&self) -> anyhow::Result<Vec<OidcIssuer>> {
        if let Some(file) = &self.authentication_config {
            let issuers = OidcIssuer::parse_configuration(&read(file)?);
            return issuers.map_err(|problem| anyhow::anyhow!("{}: {problem}", file.display()));
        }
        let (Some(url), Some(client)) = (&self.oidc_issuer_url, &self.oidc_client_id) else {
            return Ok(Vec::new());
        };
        let issuer = OidcIssuer {
            ca: self.oidc_ca_file.as_ref().map(read).transpose()?.unwrap_or_default(),
            username_prefix: self.username_prefix(url),
            username_claim: self.oidc_username_claim.clone(),
            groups_claim: self.oidc_groups_claim.clone().unwrap_or_default(),
            groups_prefix: self.oidc_groups_prefix.clone().unwrap_or_default(),
            required_claims: self.oidc_required_claim.iter().cloned().collect(),
            algorithms: self.oidc_signing_algs.clone(),
            ..OidcIssuer::new(url, client)
        };
        issuer.check().map_err(anyhow::Error::msg)?;
        Ok(vec![issuer])
    }

    /// The prefix of usernames, with kube-apiserver's default: the issuer's URL and `#`, except for the claim `email`.
    fn username_prefix(&self, url: &str) -> String {
        match self.oidc_username_prefix.as_deref() {
            Some("-") => String::new(),
            None | Some("") if self.oidc_username_claim == "email" => String::new(),
            None | Some("") => format!("{url}#"),
            Some(prefix) => prefix.to_owned(),
        }
    }

    /// The options of the token webhook, or none without a configuration file.
    pub(crate) fn webhook(&self) -> Option<TokenWebhookOptions> {
        let file = self.authentication_token_webhook_config_file.clone()?;
        Some(TokenWebhookOptions {
            version: self.authentication_token_webhook_version,
            cache_ttl: self.authentication_token_webhook_cache_ttl,
            ..TokenWebhookOptions::new(file)
        })
    }
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The value may contain further equal signs.
fn claim(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').ok_or("must be CLAIM=VALUE")?;
    Ok((parts.0.to_owned(), parts.1.to_owned()))
}
