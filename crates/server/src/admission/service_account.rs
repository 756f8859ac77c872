//! ServiceAccount: Pods run as a service account that exists, mount its token and use its pull secrets.
//!
//! On by default in kube-apiserver, where kube-controller-manager makes the accounts and publishes the CA bundle that
//! the mounted token comes with. Here there need not be a controller manager: without one, as under envtest, no Pod
//! could be created or every Pod would wait for a volume. So the plugin is idle until a controller manager has
//! published the bundle in `kube-system`, where this server itself writes none. The flag `--enable-admission-plugins
//! ServiceAccount` switches it on at once, `--disable-admission-plugins` off for good.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use listwatch_kinds::meta::generated_name;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Map, Value, json};

use super::{Attributes, Operation, Plugin};
use crate::api::Api;
use crate::api::stored::fresh;
use crate::registry::Resource;
use crate::registry::target::Target;

/// The account of Pods that name none.
const DEFAULT: &str = "default";
/// The prefix of the volume's name; the rest is random, as in kube-apiserver.
const VOLUME: &str = "kube-api-access-";
/// The place where client libraries look for credentials.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Seconds that a mounted token holds, as in kube-apiserver.
const EXPIRATION: i64 = 3607;
/// The annotation of mirror Pods, which kubelets make from files: they may not use an account.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation of an account by which its Pods may use only the Secrets that it lists.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// The ConfigMap with the CA bundle, which kube-controller-manager publishes in every namespace.
const BUNDLE: &str = "kube-root-ca.crt";
/// The field manager of this server, which wrote the bundle of `kube-system` in early versions.
const OWN_MANAGER: &str = "listwatch";
/// The number of lookups of the default account of a namespace, and the time between two: it may be created a moment
/// after the namespace. As in kube-apiserver.
const LOOKS: usize = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(150);

/// Both phases on creation. Updates of `ephemeralcontainers` are validated, because such a container could use a
/// Secret that the account does not list.
#[derive(Debug)]
#[doc(alias = "serviceaccount.Plugin")]
pub(super) struct ServiceAccount {
    /// Acts without a controller manager too.
    pub(super) always: bool,
}

#[async_trait]
impl Plugin for ServiceAccount {
    fn is_interested(&self, resource: &Resource) -> bool {
        (&*resource.group, &*resource.plural) == ("", "pods")
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        match operation {
            Operation::Create => subresource.is_empty(),
            Operation::Update => subresource == "ephemeralcontainers",
            _ => false,
        }
    }

    fn is_idle(&self, api: &Api) -> bool {
        !self.always && !has_controller_manager(api)
    }

    async fn admit(&self, request: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
        if request.operation != Operation::Create || is_mirror(pod) {
            return Ok(());
        }
        if pod.at("spec").text("serviceAccountName").is_empty()
            && let Some(spec) = pod.inner_or_new("spec")
        {
            spec.put("serviceAccountName", DEFAULT);
            spec.put("serviceAccount", DEFAULT);
        }
        let account = account(request, pod).await?;
        if wants_token(&account, pod) {
            mount_token(pod);
        }
        add_pull_secrets(pod, &account);
        Ok(())
    }

    async fn validate(&self, request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let refuse = |why: String| Err(request.forbidden(pod, &why));
        if request.operation == Operation::Create && is_mirror(pod) {
            return check_mirror(pod).or_else(|why| refuse(why.to_owned()));
        }
        if pod.at("spec").text("serviceAccountName").is_empty() {
            let name = pod.at("metadata").text("name");
            return refuse(format!("no service account specified for pod {}/{name}", request.namespace));
        }
        let account = account(request, pod).await?;
        let enforced = account.at("metadata").at("annotations").text(ENFORCE);
        if !matches!(enforced, "true" | "True" | "TRUE" | "t" | "T" | "1") {
            return Ok(());
        }
        let only_ephemeral = request.operation == Operation::Update;
        foreign_secret(pod, &account, only_ephemeral).map_or(Ok(()), refuse)
    }
}

/// Returns true if another program has published the CA bundle.
fn has_controller_manager(api: &Api) -> bool {
    let Some(resource) = api.registry.find("", "v1", "configmaps") else { return false };
    let snapshot = resource.collection.snapshot();
    let Some(bundle) = snapshot.get(&resource.key(Some("kube-system"), BUNDLE)) else { return false };
    let bundle = api.cache.trees.read(bundle).unwrap_or_default();
    let Some(managers) = bundle.at("metadata").at("managedFields").as_array() else { return true };
    managers.iter().any(|entry| entry.text("manager") != OWN_MANAGER)
}

/// Mirror Pods are copies of static ones, which use no account of the cluster.
fn is_mirror(pod: &Value) -> bool {
    pod.at("metadata").at("annotations").has(MIRROR)
}

/// Checks that a mirror Pod refers to no ServiceAccount, Secret or token: the kubelet runs it without the API.
fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    let spec = pod.at("spec");
    if !spec.text("serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    let mounts = spec.list("volumes").iter().any(|volume| volume.has("secret"));
    if mounts
        || spec.count("imagePullSecrets") > 0
        || containers(spec).any(|(_, one)| secrets_of(one).next().is_some())
    {
        return Err("a mirror pod may not reference secrets");
    }
    let projected = |volume: &Value| {
        volume.at("projected").list("sources").iter().any(|source| source.has("serviceAccountToken"))
    };
    if spec.list("volumes").iter().any(projected) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// The account of a Pod. One that was made a moment ago counts.
///
/// # Errors
///
/// 403 if it does not exist in the store either; 5xx if the store fails.
async fn account(request: &Attributes<'_>, pod: &Value) -> Result<Value, Status> {
    let name = pod.at("spec").text("serviceAccountName");
    if let Some(found) = request.find(("", "v1", "serviceaccounts"), Some(request.namespace), name) {
        return Ok(found);
    }
    let missing = || {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            request.namespace
        );
        request.forbidden(pod, &why)
    };
    let resource = request.api.registry.find("", "v1", "serviceaccounts").ok_or_else(missing)?;
    let target = Target::new(&resource, Some(request.namespace), name);
    let looks = if name == DEFAULT { LOOKS } else { 1 };
    for look in 0..looks {
        if look > 0 {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        if let Some(found) = fresh(request.api, &target).await? {
            return Ok(found.value);
        }
    }
    Err(missing())
}

/// The Pod's own setting takes precedence over that of its account.
fn wants_token(account: &Value, pod: &Value) -> bool {
    let said = |object: &Value| object.at("automountServiceAccountToken").as_bool();
    said(pod.at("spec")).or_else(|| said(account)).unwrap_or(true)
}

/// Adds the projected token volume, and mounts it into every container that has no mount at that path. A volume that
/// was added before is reused.
fn mount_token(pod: &mut Value) {
    let volumes = pod.at("spec").list("volumes");
    let known = volumes.iter().map(|volume| volume.text("name")).find(|name| name.starts_with(VOLUME));
    let (name, new) = match known {
        Some(name) => (name.to_owned(), false),
        None => (generated_name(VOLUME, rand::random()), true),
    };
    let Some(spec) = pod.inner_or_new("spec") else { return };
    let mut needed = false;
    for key in ["initContainers", "containers"] {
        for container in spec.each(key) {
            if container.list("volumeMounts").iter().any(|mount| mount.text("mountPath") == MOUNT_PATH) {
                continue;
            }
            let mut mounts = container.list("volumeMounts").to_vec();
            mounts.push(json!({"name": name.as_str(), "readOnly": true, "mountPath": MOUNT_PATH}));
            container.put("volumeMounts", mounts);
            needed = true;
        }
    }
    if new && needed {
        let mut volumes = spec.list("volumes").to_vec();
        volumes.push(token_volume(&name));
        spec.put("volumes", volumes);
    }
}

/// Token, CA bundle and namespace, in the layout that client libraries look for in a Pod. All Pods share it.
static TOKEN_SOURCES: LazyLock<Value> = LazyLock::new(|| {
    json!({"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": EXPIRATION}},
        {"configMap": {"name": BUNDLE, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]})
});

/// The volume of a token.
fn token_volume(name: &str) -> Value {
    let mut volume = Map::new();
    volume.insert("name", name.into());
    volume.insert("projected", TOKEN_SOURCES.clone());
    Value::Object(volume)
}

/// Only for Pods without pull secrets of their own: the lists are not merged.
fn add_pull_secrets(pod: &mut Value, account: &Value) {
    let names = account.list("imagePullSecrets").iter().map(|secret| json!({"name": secret.text("name")}));
    let names: Vec<Value> = names.collect();
    if pod.at("spec").count("imagePullSecrets") == 0
        && !names.is_empty()
        && let Some(spec) = pod.inner_or_new("spec")
    {
        spec.put("imagePullSecrets", names);
    }
}

/// Containers, each with the name of its list in errors.
fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    let kinds = [
        ("initContainers", "init container"),
        ("containers", "container"),
        ("ephemeralContainers", "ephemeral container"),
    ];
    kinds.into_iter().flat_map(|(key, word)| spec.list(key).iter().map(move |container| (word, container)))
}

/// Secrets that the environment of a container is taken from: the variable, if it is one, and the name.
fn secrets_of(container: &Value) -> impl Iterator<Item = (Option<&str>, &str)> {
    let single = container.list("env").iter().filter_map(|variable| {
        let secret = variable.at("valueFrom").at("secretKeyRef");
        secret.is_object().then(|| (Some(variable.text("name")), secret.text("name")))
    });
    let whole = container.list("envFrom").iter().filter_map(|source| {
        let secret = source.at("secretRef");
        secret.is_object().then(|| (None, secret.text("name")))
    });
    single.chain(whole)
}

/// Returns the error for a Secret that the Pod uses and its account does not list, if there is one.
fn foreign_secret(pod: &Value, account: &Value, only_ephemeral: bool) -> Option<String> {
    let (spec, owner) = (pod.at("spec"), account.at("metadata").text("name"));
    let listed =
        |key: &str| -> HashSet<&str> { account.list(key).iter().map(|secret| secret.text("name")).collect() };
    let secrets = listed("secrets");
    let tail = format!("is not allowed because service account {owner} does not reference that");
    if !only_ephemeral {
        let mounted = spec.list("volumes").iter().filter(|volume| volume.has("secret"));
        let mut mounted = mounted.map(|volume| volume.at("secret").text("secretName"));
        if let Some(name) = mounted.find(|name| !secrets.contains(name)) {
            return Some(format!("volume with secret.secretName=\"{name}\" {tail} secret"));
        }
    }
    for (word, container) in containers(spec) {
        if only_ephemeral != (word == "ephemeral container") {
            continue;
        }
        if let Some((variable, name)) = secrets_of(container).find(|(_, name)| !secrets.contains(name)) {
            let source = variable.map_or("envFrom".to_owned(), |variable| format!("envVar {variable}"));
            let container = container.text("name");
            return Some(format!(
                "{word} {container} with {source} referencing secret.secretName=\"{name}\" {tail} secret"
            ));
        }
    }
    if only_ephemeral {
        return None;
    }
    let pull_secrets = listed("imagePullSecrets");
    let pulled = spec.list("imagePullSecrets").iter().map(|secret| secret.text("name")).enumerate();
    let (index, name) = pulled.into_iter().find(|(_, name)| !pull_secrets.contains(name))?;
    Some(format!("imagePullSecrets[{index}].name=\"{name}\" {tail} imagePullSecret"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_mounts_the_token_once() {
        let mut pod = json!({"spec": {"containers": [
            {"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]}});
        mount_token(&mut pod);
        let spec = pod.at("spec");
        let name = spec.list("volumes")[0].text("name").to_owned();
        assert!(name.starts_with(VOLUME) && name.len() == VOLUME.len() + 5);
        assert_eq!(spec.list("containers")[0].list("volumeMounts")[0].text("name"), name);
        assert_eq!(spec.list("containers")[1].count("volumeMounts"), 1);
        let before = pod.clone();
        mount_token(&mut pod);
        assert_eq!(pod, before);
    }

    #[test]
    fn the_word_of_the_pod_counts_before_that_of_its_account() {
        let (yes, no) = (json!(true), json!(false));
        for (of_pod, of_account, expected) in [
            (None, None, true),
            (None, Some(&no), false),
            (Some(&yes), Some(&no), true),
            (Some(&no), None, false),
        ] {
            let object = |said: Option<&Value>| match said {
                Some(said) => json!({"automountServiceAccountToken": said.clone()}),
                None => json!({}),
            };
            assert_eq!(wants_token(&object(of_account), &json!({"spec": object(of_pod)})), expected);
        }
    }

    #[test]
    fn an_account_that_enforces_names_every_secret() {
        let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "s"}]});
        let pod = |name: &str| {
            json!({"spec": {"containers": [{"name": "c", "env": [
            {"name": "V", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]}]}})
        };
        assert_eq!(foreign_secret(&pod("s"), &account, false), None);
        assert_eq!(
            foreign_secret(&pod("t"), &account, false).as_deref(),
            Some(
                "container c with envVar V referencing secret.secretName=\"t\" is not allowed because service account a does not reference that secret"
            )
        );
        assert_eq!(foreign_secret(&pod("t"), &account, true), None);
    }
}
