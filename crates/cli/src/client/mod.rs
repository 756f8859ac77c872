//! `listwatch list`, `watch`, `retry-watch` and `inform`: the library's pager, retrying watch and informer, on any
//! Kubernetes API server.
//!
//! Each is as short as a program of your own would be: read them as examples. What they share is here: the cluster
//! ([`Cluster`]), the collection ([`Selection`]) and how an object is printed ([`Form`]).

mod changes;
pub(crate) mod inform;
pub(crate) mod list;
mod resolve;
mod table;
pub(crate) mod watch;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use listwatch::Object;
use listwatch::kube::KubeSource;

pub(crate) use resolve::Found;

/// The API server to talk to, chosen as kubectl does.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Cluster {
    /// Kubeconfig file; otherwise $KUBECONFIG, ~/.kube/config, or the Pod's own service account
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

impl Cluster {
    /// Returns a client, and the namespace of its context.
    pub(crate) async fn connect(&self) -> anyhow::Result<(kube::Client, String)> {
        let config = self.config().await?;
        let namespace = config.default_namespace.clone();
        Ok((listwatch::kube::client(config)?, namespace))
    }

    async fn config(&self) -> anyhow::Result<kube::Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.kubeconfig {
            Some(path) => {
                kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?
            }
            None if self.context.is_some() => kube::Config::from_kubeconfig(&options).await?,
            None => kube::Config::infer().await.context(
                "no cluster: give --kubeconfig FILE or set KUBECONFIG (listwatch serve prints one)",
            )?,
        };
        Ok(config)
    }
}

/// The objects meant: a resource, its namespace and selectors.
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
    #[arg(long, short = 'l', value_name = "LABELS", default_value = "")]
    selector: String,

    /// Field selector, as in `spec.nodeName=a`
    #[arg(long, value_name = "FIELDS", default_value = "")]
    field_selector: String,

    #[command(flatten)]
    cluster: Cluster,
}

/// A collection of a server.
pub(crate) struct Collection {
    pub(crate) client: kube::Client,
    pub(crate) found: Found,
    /// The namespace to look in; `None` for all of them and for cluster-scoped resources.
    pub(crate) namespace: Option<String>,
}

impl Selection {
    /// Finds the collection by asking the server which resources it has.
    pub(crate) async fn open(&self) -> anyhow::Result<Collection> {
        let (client, default_namespace) = self.cluster.connect().await?;
        let found = resolve::resolve(&client, &self.resource).await?;
        let everywhere = self.all_namespaces || !found.namespaced;
        let namespace = (!everywhere).then(|| self.namespace.clone().unwrap_or(default_namespace));
        Ok(Collection { client, found, namespace })
    }

    /// Returns the collection as something that can be listed and watched.
    pub(crate) async fn source(&self) -> anyhow::Result<KubeSource> {
        let Collection { client, found, namespace } = self.open().await?;
        let labels = self.selector.parse().context("--selector")?;
        let fields = self.field_selector.parse().context("--field-selector")?;
        let source = KubeSource::new(client, found.kind()).labels(labels).fields(fields);
        Ok(match namespace {
            Some(namespace) => source.namespace(namespace),
            None => source,
        })
    }

    /// Returns the query parameters of the selectors.
    fn query(&self) -> Vec<(&'static str, &str)> {
        let all = [("labelSelector", self.selector.as_str()), ("fieldSelector", &self.field_selector)];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// The printed form of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Namespace, name and resourceVersion
    Name,
    /// The whole object, one line each
    Json,
    /// The whole object as a YAML document
    Yaml,
}

impl Form {
    pub(crate) fn print<K>(self, object: &Object<K>) -> anyhow::Result<String> {
        Ok(match self {
            Self::Name => format!("{} {}", object.key(), object.revision()),
            Self::Json => String::from_utf8_lossy(object.json()).into_owned(),
            Self::Yaml => {
                let value: serde_json::Value = serde_json::from_slice(object.json())?;
                format!("---\n{}", serde_saphyr::to_string(&value)?.trim_end())
            }
        })
    }
}

/// Waits for an interrupt: the way people end what runs until it is ended.
pub(crate) async fn interrupted() {
    // If there is no way to hear of signals, the default action of the signal ends the program anyway.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
