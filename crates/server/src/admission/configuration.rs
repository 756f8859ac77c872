//! AdmissionConfiguration (`--admission-control-config-file`): the configuration of admission plugins, inline or in files of
//! their own.
//!
//! Formats and messages are kube-apiserver's. A configuration for a plugin that takes none here is an error: ignored, it would
//! leave out what the administrator meant to enforce. Each plugin reads its own part.

use std::path::Path;

use listwatch_kinds::tree::Tree;
use listwatch_wire::go::quote;
use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, aggregate};

use super::AdmissionOptions;
use super::event_rate_limit::event_limits;
use super::image_policy_webhook::ImagePolicyOptions;
use super::pod_security::PodSecurityOptions;
use crate::files;

/// The group and versions of the file.
const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1", "apiserver.k8s.io/v1alpha1"];

impl AdmissionOptions {
    /// Reads the configuration of plugins from a file and the files that it names.
    ///
    /// # Errors
    /// A file that cannot be read or used, in kube-apiserver's words.
    pub fn configure(&mut self, path: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let path = quote(&path.display().to_string());
            format!("unable to read admission control configuration from {path} [{error}]")
        })?;
        let tree = tree_of(&text)?;
        if tree.has("imagePolicy") && !tree.has("kind") {
            // The file may be the configuration of that plugin itself.
            return self.configure_plugin("ImagePolicyWebhook", &tree);
        }
        check_kind(&tree, &VERSIONS, "AdmissionConfiguration")?;
        let beside = path.parent().unwrap_or(Path::new("."));
        for plugin in tree.list("plugins") {
            let name = plugin.text("name");
            let own = match (plugin.at("configuration"), plugin.text("path")) {
                (Value::Null, "") => continue,
                (Value::Null, path) => {
                    let path = beside.join(path);
                    let text = std::fs::read_to_string(&path)
                        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                    tree_of(&text)?
                }
                (inline, _) => inline.clone(),
            };
            self.configure_plugin(name, &own).map_err(|why| uninitialized(name, &why))?;
        }
        Ok(())
    }

    fn configure_plugin(&mut self, name: &str, own: &Value) -> Result<(), String> {
        match name {
            "EventRateLimit" => self.event_limits = event_limits(own)?,
            "ImagePolicyWebhook" => self.image_policy = Some(ImagePolicyOptions::read(own)?),
            "PodSecurity" => self.pod_security = PodSecurityOptions::read(own)?,
            _ => return Err("this plugin takes no configuration here".to_owned()),
        }
        Ok(())
    }
}

/// kube-apiserver's message about a plugin that cannot be used as it is configured.
pub(super) fn uninitialized(plugin: &str, why: &str) -> String {
    format!("couldn't init admission plugin {}: {why}", quote(plugin))
}

fn tree_of(text: &str) -> Result<Value, String> {
    files::yaml_tree(text).map_err(|error| error.to_string())
}

/// Requires the kind of a configuration in one of its versions.
///
/// # Errors
/// Another kind or version.
pub(super) fn check_kind(tree: &Value, versions: &[&str], kind: &str) -> Result<(), String> {
    let (found, version) = (tree.text("kind"), tree.text("apiVersion"));
    if found == kind && versions.contains(&version) {
        return Ok(());
    }
    Err(format!("no kind {} is registered for version {}", quote(found), quote(version)))
}

/// Requires that an object has no other fields than these.
///
/// # Errors
/// The fields that it has besides.
pub(super) fn check_fields(tree: &Value, path: &str, known: &[&str]) -> Result<(), String> {
    let keys = tree.as_object().into_iter().flat_map(|map| map.keys());
    let strange: Vec<String> = keys
        .filter(|key| !known.contains(&key.as_str()))
        .map(|key| format!("unknown field {}", quote(&format!("{path}{key}"))))
        .collect();
    match strange.is_empty() {
        true => Ok(()),
        false => Err(format!("strict decoding error: {}", strange.join(", "))),
    }
}

/// The errors of a configuration as one text.
///
/// # Errors
/// That text, if there is an error.
pub(super) fn all_of(errors: &[FieldError]) -> Result<(), String> {
    if errors.is_empty() { Ok(()) } else { Err(aggregate(errors.iter().map(ToString::to_string))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(text: &str) -> Result<AdmissionOptions, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("admission.yaml");
        std::fs::write(&file, text).unwrap();
        let own = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: baseline}";
        std::fs::write(directory.path().join("own.yaml"), own).unwrap();
        let mut options = AdmissionOptions::default();
        options.configure(&file).map(|()| options)
    }

    #[test]
    fn a_plugin_is_configured_inline_or_in_a_file_beside() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
        let inline = "- name: EventRateLimit\n  configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 5, burst: 10}]}\n";
        let options =
            configured(&format!("{head}{inline}- {{name: PodSecurity, path: own.yaml}}\n")).unwrap();
        assert_eq!(options.event_limits.len(), 1);
        assert_ne!(options.pod_security, PodSecurityOptions::default());
        for (text, expected) in [
            ("kind: Pod\napiVersion: v1", r#"no kind "Pod" is registered for version "v1""#),
            (
                &format!("{head}- {{name: Priority, path: own.yaml}}"),
                r#"couldn't init admission plugin "Priority""#,
            ),
            (&format!("{head}- {{name: PodSecurity, path: none.yaml}}"), "cannot read"),
            (
                &format!("{head}- {{name: EventRateLimit, path: own.yaml}}"),
                r#"couldn't init admission plugin "EventRateLimit": no kind "PodSecurityConfiguration" is registered"#,
            ),
        ] {
            let error = configured(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
