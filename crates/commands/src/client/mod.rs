//! `listwatch list`, `watch`, `retry-watch` and `inform`: the library's pager, retrying watch and informer, on any
//! Kubernetes API server; `history` and `diff`: the past versions that a listwatch server keeps.
//!
//! They are short enough to read as examples of the library. Their shared parts are here: the cluster ([`Cluster`]),
//! the collection ([`Selection`]) and how an object is printed ([`PrintForm`]).

pub(crate) mod answer;
mod changes;
mod cluster;
pub(crate) mod history;
pub(crate) mod inform;
mod kubeconfig;
pub(crate) mod list;
mod resolve;
mod table;
pub(crate) mod watch;

use std::io::Write;

use anyhow::Context;
use clap::{Args, ValueEnum};
use listwatch::Object;
use listwatch::kube::KubeSource;

use crate::terminal::{visible, visible_json};

pub(crate) use cluster::Cluster;
pub(crate) use resolve::ResolvedResource;

/// The objects meant: a resource, its namespace and selectors. Commands flatten it after their own flags, because a heading
/// holds for everything after it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Selection {
    /// Resource: plural, singular or short name, with .GROUP where several groups have it
    resource: String,

    /// Namespace; the context's, if none is given
    #[arg(long, short, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,

    /// All namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,

    /// Label selector, as in `app=web,tier!=db`
    #[arg(long, short = 'l', value_name = "LABELS", default_value = "", hide_default_value = true)]
    selector: String,

    /// Field selector, as in `spec.nodeName=a`
    #[arg(long, value_name = "FIELDS", default_value = "", hide_default_value = true)]
    field_selector: String,

    #[command(flatten)]
    cluster: Cluster,
}

/// A collection of a server.
pub(crate) struct ServerCollection {
    pub(crate) client: kube::Client,
    pub(crate) found: ResolvedResource,
    /// The namespace to look in; `None` for all of them and for cluster-scoped resources.
    pub(crate) namespace: Option<String>,
}

impl Selection {
    /// Finds the collection by asking the server which resources it has.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or has no such resource.
    pub(crate) async fn open(&self) -> anyhow::Result<ServerCollection> {
        let (client, default_namespace) = self.cluster.connect().await?;
        let found = resolve::resolve(&client, &self.resource).await?;
        let everywhere = self.all_namespaces || !found.namespaced;
        let namespace = (!everywhere).then(|| self.namespace.clone().unwrap_or(default_namespace));
        Ok(ServerCollection { client, found, namespace })
    }

    /// Returns the collection as something that can be listed and watched, and the type of its objects.
    ///
    /// # Errors
    ///
    /// As for [`Selection::open`], and selectors that cannot be parsed. They are parsed here so that a mistake is
    /// reported once and not by every retry.
    pub(crate) async fn source(&self) -> anyhow::Result<(KubeSource, TypeMeta)> {
        let ServerCollection { client, found, namespace } = self.open().await?;
        let kind = found.type_meta();
        let labels = self.selector.parse().context("--selector")?;
        let fields = self.field_selector.parse().context("--field-selector")?;
        let source = KubeSource::new(client, found.kind()).labels(labels).fields(fields);
        let source = source.max_list_bytes(answer::MAX_ANSWER as u64);
        let source = match namespace {
            Some(namespace) => source.namespace(namespace),
            None => source,
        };
        Ok((source, kind))
    }

    /// Returns the query parameters of the selectors.
    fn query(&self) -> Vec<(&'static str, &str)> {
        let all = [("labelSelector", self.selector.as_str()), ("fieldSelector", &self.field_selector)];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// The printed form of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrintForm {
    /// Namespace, name and resourceVersion
    Name,
    /// The whole object, one line each
    Json,
    /// The whole object as a YAML document
    Yaml,
}

impl PrintForm {
    /// Writes an object and a line break.
    pub(crate) fn write<K>(
        self,
        out: &mut impl Write,
        object: &Object<K>,
        kind: &TypeMeta,
    ) -> anyhow::Result<()> {
        match self {
            Self::Name => writeln!(out, "{} {}", visible(&object.key().to_string()), object.revision())?,
            Self::Json => {
                kind.write_json(out, object.json())?;
                out.write_all(b"\n")?;
            }
            Self::Yaml => {
                let mut json = Vec::with_capacity(object.json().len() + 64);
                kind.write_json(&mut json, object.json())?;
                let value: serde_json::Value = serde_json::from_slice(&json)?;
                writeln!(out, "---\n{}", serde_saphyr::to_string(&value)?.trim_end())?;
            }
        }
        Ok(())
    }
}

/// `apiVersion` and `kind`, which the items of a list do not carry.
/// One value serves all objects of a collection.
#[derive(Clone, Debug)]
pub(crate) struct TypeMeta {
    api_version: String,
    kind: String,
}

impl TypeMeta {
    /// Writes an encoded object with both fields, in front if they are missing. So it can be given to `kubectl apply`.
    pub(crate) fn write_json(&self, out: &mut impl Write, object: &[u8]) -> std::io::Result<()> {
        #[derive(serde::Deserialize)]
        struct Head {
            kind: Option<serde::de::IgnoredAny>,
        }
        let carries = serde_json::from_slice::<Head>(object).is_ok_and(|head| head.kind.is_some());
        match object.strip_prefix(b"{").filter(|_| !carries) {
            Some(rest) => {
                let comma = if rest.first() == Some(&b'}') { "" } else { "," };
                let (version, kind) = (visible(&self.api_version), visible(&self.kind));
                write!(out, r#"{{"apiVersion":"{version}","kind":"{kind}"{comma}"#)?;
                out.write_all(&visible_json(rest))
            }
            None => out.write_all(&visible_json(object)),
        }
    }
}

/// Waits for an interrupt: the way people end what runs until it is ended.
pub(crate) async fn interrupted() {
    // If signals cannot be handled, the default action of the signal ends the program anyway.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of a list have neither kind nor apiVersion: kubectl adds them, and so does this.
    #[test]
    fn an_object_is_printed_with_its_type_once() {
        let kind = TypeMeta { api_version: "v1".into(), kind: "Pod".into() };
        let written = |object: &str| {
            let mut out = Vec::new();
            kind.write_json(&mut out, object.as_bytes()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            written(r#"{"metadata":{"kind":1}}"#),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"kind":1}}"#
        );
        assert_eq!(written("{}"), r#"{"apiVersion":"v1","kind":"Pod"}"#);
        let typed = r#"{"kind":"Pod","apiVersion":"v1"}"#;
        assert_eq!(written(typed), typed);
    }
}
