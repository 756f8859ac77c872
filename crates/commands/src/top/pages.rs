//! [`Pages`]: everything that `top` reads over HTTP.
//!
//! Credentials of the kubeconfig go to the API server alone, never to other metrics pages.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::join_all;
use http::Uri;

use super::controllers::ControllerReading;
use super::reading::TopReading;
use crate::client::answer;

/// The time for one page: figures that are older are not live.
const PATIENCE: Duration = Duration::from_secs(5);

/// The API server and the metrics pages of controllers.
pub(super) struct Pages {
    server: kube::Client,
    controllers: Vec<MetricsPage>,
}

/// A metrics page of a controller.
struct MetricsPage {
    url: Uri,
    client: kube::Client,
    /// Host and port before the names of informers and queues; empty if there is one page only.
    prefix: String,
}

impl Pages {
    pub(super) fn new(server: kube::Client, urls: &[Uri]) -> anyhow::Result<Self> {
        let is_alone = urls.len() < 2;
        let controllers = urls.iter().map(|url| MetricsPage::new(url, is_alone)).collect::<Result<_, _>>()?;
        Ok(Self { server, controllers })
    }

    /// Reads all of them at the same time. A controller that does not answer is noted in the reading; without the server
    /// there is none.
    pub(super) async fn read(&self) -> anyhow::Result<TopReading> {
        let (server, controllers) = tokio::join!(self.read_server(), self.read_controllers());
        let mut reading = server?;
        reading.controllers = controllers;
        Ok(reading)
    }

    /// Reads the server. A kube-apiserver has no list of its watches, which is not an error.
    async fn read_server(&self) -> anyhow::Result<TopReading> {
        let metrics = answer::text(&self.server, "/metrics").await.context("cannot read /metrics")?;
        let watches = match answer::text(&self.server, "/debug/listwatch/watches").await {
            Ok(watches) => Some(watches),
            // No listwatch server: it counts its watches and does not list them.
            Err(error) if answer::status(&error).is_some_and(|status| status.code == 404) => None,
            Err(error) => return Err(error).context("cannot read /debug/listwatch/watches"),
        };
        TopReading::new(Instant::now(), &metrics, watches.as_deref())
    }

    /// Reads the pages of all controllers at the same time. One that does not answer becomes a problem on the screen.
    async fn read_controllers(&self) -> ControllerReading {
        let answers = join_all(self.controllers.iter().map(MetricsPage::read)).await;
        let mut reading = ControllerReading::default();
        for (page, answer) in self.controllers.iter().zip(answers) {
            match answer {
                Ok(text) => reading.add(&page.prefix, &text),
                Err(error) => reading.problems.push(crate::one_line(&error)),
            }
        }
        reading
    }
}

impl MetricsPage {
    /// Prepares the reading of a page. With several pages, rows are prefixed with the address of theirs.
    fn new(url: &Uri, is_alone: bool) -> anyhow::Result<Self> {
        let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else {
            bail!("--metrics {url}: expected a URL, as in http://127.0.0.1:8080/metrics")
        };
        let base =
            Uri::builder().scheme(scheme.clone()).authority(authority.clone()).path_and_query("/").build()?;
        let client = listwatch::kube::client(kube::Config::new(base))?;
        let prefix = if is_alone { String::new() } else { format!("{authority} ") };
        Ok(Self { url: url.clone(), client, prefix })
    }

    /// Reads the page, within a limit of time.
    async fn read(&self) -> anyhow::Result<String> {
        let path = self.url.path_and_query().map_or("/metrics", |path| path.as_str());
        let path = if path == "/" { "/metrics" } else { path };
        let answer = tokio::time::timeout(PATIENCE, answer::text(&self.client, path)).await;
        let answer = answer
            .with_context(|| format!("no response within {PATIENCE:?}"))
            .and_then(std::convert::identity);
        answer.with_context(|| format!("cannot read {}", self.url))
    }
}
