//! Reads an AuthorizationConfiguration again when it changes.
//!
//! A file that cannot be used changes nothing and is logged. Authorizers other than webhooks cannot be dropped while the server
//! runs, as in kube-apiserver.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::auth::{Authorization, AuthorizationMode, parse_authorization_config};

/// The interval at which the file is read. It is small, and a change by rename or through a symbolic link is found, too.
const INTERVAL: Duration = Duration::from_secs(10);

/// Follows the file until the server stops. `initial` are the authorizers of its first content.
pub(crate) async fn follow_file(
    authorization: Authorization,
    path: PathBuf,
    initial: Vec<AuthorizationMode>,
    stop: CancellationToken,
) {
    let required = types(&initial);
    let (mut last, mut current) = (None, initial);
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        let text = tokio::fs::read_to_string(&path).await.map_err(|error| error.to_string());
        if last.as_ref() == Some(&text) {
            continue;
        }
        match text.clone().and_then(|text| load(&text, &required)) {
            Ok(modes) if modes == current => {}
            Ok(modes) => match authorization.replace(&modes) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "reloaded authz config");
                    current = modes;
                }
                Err(error) => tracing::error!(error, "reloading authorization config"),
            },
            Err(error) => tracing::error!(error, "reloading authorization config"),
        }
        last = Some(text);
    }
}

/// The types that must stay.
fn types(modes: &[AuthorizationMode]) -> BTreeSet<&'static str> {
    let kept = modes.iter().filter(|mode| !matches!(mode, AuthorizationMode::Webhook(_)));
    kept.map(AuthorizationMode::type_name).collect()
}

/// Parses a file, which must have the authorizers that are required.
fn load(text: &str, required: &BTreeSet<&str>) -> Result<Vec<AuthorizationMode>, String> {
    let modes = parse_authorization_config(text)?;
    let found = types(&modes);
    let missing: Vec<&str> = required.iter().copied().filter(|kind| !found.contains(kind)).collect();
    match missing.is_empty() {
        true => Ok(modes),
        false => Err(format!("missing required types: [{}]", missing.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorizers_cannot_be_dropped() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]";
        assert!(load(text, &BTreeSet::from(["RBAC"])).is_ok());
        let error = load(text, &BTreeSet::from(["Node", "RBAC"])).unwrap_err();
        assert_eq!(error, "missing required types: [Node]");
    }
}
