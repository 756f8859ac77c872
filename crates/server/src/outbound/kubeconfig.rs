//! The kubeconfig of a webhook that options name: address, CA and client credentials of its current context.
//!
//! Only what a webhook needs is read. Errors never quote the file, since a parser's message may contain a key.
//! `insecure-skip-tls-verify` is refused: a man in the middle could authenticate users and allow requests. The result is a
//! [`Remote`].

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{ClientIdentity, Remote};
use crate::files;

/// Unknown fields are ignored, unlike in other configuration files: kubeconfigs carry extensions of many tools.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct WebhookKubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    contexts: Vec<NamedContext>,
    current_context: String,
}

/// An address under the name that contexts use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: String,
    cluster: KubeconfigCluster,
}

/// Data in the file counts more than a path to it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct KubeconfigCluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
}

/// Credentials under the name that contexts use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: String,
    user: Credentials,
}

/// A client certificate with its key, or a bearer token. Others, such as commands to run, are not supported.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Credentials {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
}

/// A cluster and a user under one name.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

/// The service that the current context of a kubeconfig means. Other files are looked for beside it.
///
/// # Errors
/// A problem with the kubeconfig, without any secret in it.
pub(super) fn remote(path: &Path) -> Result<Remote, String> {
    let text = file(path)?;
    // The message of a parser may quote the line, and the line may be a key.
    let config: WebhookKubeconfig =
        files::parse_yaml(&text).map_err(|_| format!("{} is not a kubeconfig", path.display()))?;
    let beside = path.parent().unwrap_or(Path::new("."));
    let context = config.contexts.iter().find(|context| context.name == config.current_context);
    let context = &context.ok_or("the kubeconfig has no current context")?.context;
    let cluster = config.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let cluster = &cluster.ok_or("the kubeconfig does not have the cluster of its context")?.cluster;
    if cluster.insecure_skip_tls_verify {
        return Err("insecure-skip-tls-verify would let anybody answer for the webhook".to_owned());
    }
    let ca = part(
        beside,
        cluster.certificate_authority.as_deref(),
        cluster.certificate_authority_data.as_deref(),
    )?;
    let user = config.users.iter().find(|user| user.name == context.user).map(|user| &user.user);
    let identity = user.map_or_else(|| Ok(ClientIdentity::default()), |user| identity(beside, user))?;
    Remote::new(&cluster.server, &ca.unwrap_or_default(), &identity)
}

/// The credentials of a user, with the files that they name.
fn identity(beside: &Path, user: &Credentials) -> Result<ClientIdentity, String> {
    let chain = part(beside, user.client_certificate.as_deref(), user.client_certificate_data.as_deref())?;
    let key = part(beside, user.client_key.as_deref(), user.client_key_data.as_deref())?;
    Ok(ClientIdentity { certificate: chain.zip(key), token: user.token.clone() })
}

/// A part that is a file, or is there in base64, which counts more.
fn part(beside: &Path, path: Option<&Path>, data: Option<&str>) -> Result<Option<String>, String> {
    match (data, path) {
        (Some(data), _) => {
            let bytes = STANDARD.decode(data).map_err(|_| "the kubeconfig has data that is no base64")?;
            String::from_utf8(bytes)
                .map(Some)
                .map_err(|_| "the kubeconfig has data that is no PEM".to_owned())
        }
        (None, Some(path)) => file(&beside.join(path)).map(Some),
        (None, None) => Ok(None),
    }
}

/// Reads a file; the error names it and nothing of what is in it.
fn file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
