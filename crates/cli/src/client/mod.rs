//! `listwatch list`, `watch` and `inform`: the library's pager, retrying watch and informer, on any Kubernetes API server.
//!
//! Each is as short as a program of your own would be: read them as examples. What they share is here: which
//! collection is meant ([`Target`]) and how an object is printed ([`Form`]).

pub(crate) mod inform;
pub(crate) mod list;
mod resolve;
pub(crate) mod watch;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use listwatch::Object;
use listwatch::kube::KubeSource;

/// Which objects, on which server.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The resource: plural, singular or short name, with .GROUP where several have it
    resource: String,

    /// The namespace; the kubeconfig's, if none is given
    #[arg(long, short, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,

    /// All namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,

    /// Only objects with these labels, as in `app=web,tier!=db`
    #[arg(long, short = 'l', value_name = "LABELS", default_value = "")]
    selector: String,

    /// Only objects with these fields, as in `spec.nodeName=a`
    #[arg(long, value_name = "FIELDS", default_value = "")]
    field_selector: String,

    /// The kubeconfig; otherwise $KUBECONFIG, ~/.kube/config, or the pod's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context in it
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// How objects are printed
    #[arg(long, short, value_enum, default_value_t = Form::Name)]
    pub(crate) output: Form,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Form {
    /// Namespace, name and resourceVersion
    Name,
    /// The whole object, one line each
    Json,
}

impl Form {
    pub(crate) fn print<K>(self, object: &Object<K>) -> String {
        match self {
            Self::Name => format!("{} {}", object.key(), object.revision()),
            Self::Json => String::from_utf8_lossy(object.json()).into_owned(),
        }
    }
}

impl Target {
    /// The collection, found by asking the server which kinds it has.
    pub(crate) async fn source(&self) -> anyhow::Result<KubeSource> {
        let config = self.config().await?;
        let default_namespace = config.default_namespace.clone();
        let client = listwatch::kube::client(config)?;
        let (kind, namespaced) = resolve::resolve(&client, &self.resource).await?;
        let labels = self.selector.parse().context("--selector")?;
        let fields = self.field_selector.parse().context("--field-selector")?;
        let source = KubeSource::new(client, kind).labels(labels).fields(fields);
        if self.all_namespaces || !namespaced {
            return Ok(source);
        }
        Ok(source.namespace(self.namespace.clone().unwrap_or(default_namespace)))
    }

    async fn config(&self) -> anyhow::Result<kube::Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = match &self.kubeconfig {
            Some(path) => {
                kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?
            }
            None if self.context.is_some() => kube::Config::from_kubeconfig(&options).await?,
            None => kube::Config::infer().await?,
        };
        Ok(config)
    }
}

/// Waits for an interrupt: the way people end what runs until it is ended.
pub(crate) async fn interrupted() {
    // If there is no way to hear of signals, the default action of the signal ends the program anyway.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
