//! [`EncryptionConfig`]: kube-apiserver's EncryptionConfiguration: which resources are encrypted, and with which
//! keys.
//!
//! The providers `aesgcm` and `identity` are supported; others are errors rather than ignored, since a resource would
//! be stored in plain text. Errors never contain a secret. The first part also covers the server's own keys under
//! `/bootstrap/`, which kube-apiserver keeps in files. Applying it is [`super::engine`].

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::encryption::transform::{EncryptionKey, ValueTransform};
use crate::files;

/// An EncryptionConfiguration: the resources that are encrypted, and their keys. The first entry that names a
/// resource applies.
#[derive(Debug)]
pub struct EncryptionConfig {
    /// Rules for resources, and their keys, in the order of the file.
    parts: Vec<(Vec<String>, ValueTransform)>,
}

/// The file as written. Unknown fields are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    api_version: String,
    kind: String,
    resources: Vec<ConfigPart>,
}

/// Resources and the providers of their keys. The first provider writes, all of them read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigPart {
    resources: Vec<String>,
    /// Each a map with one key, as kube-apiserver writes them. `identity` has no value.
    providers: Vec<BTreeMap<String, Option<Provider>>>,
}

/// The keys of a provider; the first one writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Provider {
    keys: Vec<KeyText>,
}

/// A key as written, in base64.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyText {
    name: String,
    secret: String,
}

impl std::fmt::Debug for KeyText {
    /// Without the secret, which has no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyText").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EncryptionConfig {
    /// Reads an EncryptionConfiguration in YAML. Of the providers, `aesgcm` and `identity` are supported.
    ///
    /// ```
    /// use listwatch_server::encryption::EncryptionConfig;
    ///
    /// let problem = EncryptionConfig::parse("kind: Something").unwrap_err();
    /// assert_eq!(problem, "expected an apiserver.config.k8s.io/v1 EncryptionConfiguration");
    /// ```
    ///
    /// # Errors
    /// The problem with the configuration; never a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        // An error of the parser would show the text. Nulls count: `identity:` is a provider.
        let tree = files::yaml_tree(text).ok();
        let file: Option<File> = tree.and_then(|tree| tree.to_type().ok());
        let file = file.ok_or_else(|| "not an EncryptionConfiguration".to_owned())?;
        if file.kind != "EncryptionConfiguration" || file.api_version != "apiserver.config.k8s.io/v1" {
            return Err("expected an apiserver.config.k8s.io/v1 EncryptionConfiguration".to_owned());
        }
        if file.resources.is_empty() {
            return Err("it names no resources".to_owned());
        }
        let parts = file.resources.into_iter().map(|part| {
            let transform = transform(&part.providers)?;
            if part.resources.is_empty() {
                Err("a part names no resources".to_owned())
            } else {
                Ok((part.resources, transform))
            }
        });
        Ok(Self { parts: parts.collect::<Result<_, String>>()? })
    }

    /// The transformation of the value of a storage key; `None` if it is stored as it is.
    pub(super) fn transform(&self, key: &str) -> Option<&ValueTransform> {
        if key.starts_with("/bootstrap/") {
            return self.parts.first().map(|(_, transform)| transform);
        }
        let (resource, _) = key.strip_prefix("/registry/")?.split_once('/')?;
        let fits = |rule: &String| rule_fits(rule, resource);
        self.parts.iter().find(|(rules, _)| rules.iter().any(fits)).map(|(_, transform)| transform)
    }
}

/// `secrets`, `things.example.com`, `*.example.com`, `*.` for the core group, or `*.*`.
fn rule_fits(rule: &str, resource: &str) -> bool {
    let group = resource.split_once('.').map_or("", |(_, group)| group);
    match rule.strip_prefix("*.") {
        Some("*") => true,
        Some(wanted) => wanted == group,
        None => rule == resource,
    }
}

/// Makes the transformation of a list of providers. The first provider decides if new values are encrypted.
fn transform(providers: &[BTreeMap<String, Option<Provider>>]) -> Result<ValueTransform, String> {
    let mut keys = Vec::new();
    let mut plain_first = None;
    for (name, provider) in providers.iter().flatten() {
        match name.as_str() {
            "identity" => {
                plain_first.get_or_insert(true);
            }
            "aesgcm" => {
                plain_first.get_or_insert(false);
                let given = provider.iter().flat_map(|provider| &provider.keys);
                let before = keys.len();
                keys.extend(given.map(key).collect::<Result<Vec<_>, _>>()?);
                if keys.len() == before {
                    return Err("aesgcm needs at least one key".to_owned());
                }
            }
            other => return Err(format!("the provider {other:?} is not supported; aesgcm and identity are")),
        }
    }
    let plain_first = plain_first.ok_or_else(|| "a part names no providers".to_owned())?;
    Ok(ValueTransform::new(keys, plain_first))
}

/// Decodes the secret of a key.
///
/// # Errors
///
/// The name of the key and its error, never the secret.
fn key(text: &KeyText) -> Result<EncryptionKey, String> {
    let name = &text.name;
    let secret =
        STANDARD.decode(text.secret.trim()).map_err(|_| format!("the key {name:?} is not base64"))?;
    EncryptionKey::new(name, &secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(part: &str) -> Result<EncryptionConfig, String> {
        EncryptionConfig::parse(&format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n{part}"
        ))
    }

    const KEYS: &str = "  providers:\n  - aesgcm:\n      keys:\n      - name: k1\n        secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n  - identity: {}\n";

    #[test]
    fn resources_are_named_as_in_kube_apiserver() {
        let config =
            config(&format!("- resources: [secrets, '*.apps', things.example.com]\n{KEYS}")).unwrap();
        let encrypted = |key: &str| config.transform(key).is_some();
        assert!(
            encrypted("/registry/secrets/default/a") && encrypted("/registry/deployments.apps/default/a")
        );
        assert!(encrypted("/registry/things.example.com/a") && encrypted("/bootstrap/ca.key"));
        assert!(!encrypted("/registry/configmaps/default/a") && !encrypted("/registry/jobs.batch/a/b"));
    }

    #[test]
    fn invalid_configurations_are_refused_without_showing_secrets() {
        for part in [
            "",
            "- resources: [secrets]\n  providers: []\n",
            &format!("- resources: []\n{KEYS}"),
            "- resources: [secrets]\n  providers:\n  - kms: {}\n",
            "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: []}\n",
            "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: k, secret: cGxhbnRlZA==}]}\n",
            "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: k, secret: planted!}]}\n",
        ] {
            let error = config(part).unwrap_err();
            assert!(!error.contains("planted") && !error.contains("cGxhbnRlZA"), "{error}");
        }
    }
}
