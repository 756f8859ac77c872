//! OpenAPI documents of extension API servers, downloaded in the background, one at a time per server.
//!
//! Availability (`api_services.rs`) does not wait for them. A v3 document is fetched when the server's index names another
//! hash; the v2 document is requested once a minute with the ETag of the known one, and only the part about the group and
//! version is kept. A document that cannot be fetched or parsed, or is too large, leaves the last valid one in place.
//! [`crate::registry::extension`] has them, `endpoints/openapi.rs` serves them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, HOST, HeaderValue, IF_NONE_MATCH};
use http::{Method, Request, Response, StatusCode};
use listwatch_kinds::openapi;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::Value;
use sha2::{Digest, Sha512};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::api::Api;
use crate::auth::User;
use crate::outbound::{WebhookAddress, identity_headers};
use crate::registry::extension::{ExtensionOpenApi, ExtensionServer};

/// Time that an extension API server has to answer, as in kube-apiserver's checks of availability.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two questions for the v2 document, as in kube-apiserver.
const V2_EVERY: Duration = Duration::from_secs(60);
/// v2 documents that are downloaded and parsed at a time: as trees they take ten times their bytes.
const V2_AT_A_TIME: usize = 2;

/// Downloads the documents of extension API servers. The v2 documents are large, so only some are fetched at a time.
#[derive(Debug)]
pub(super) struct ExtensionDocuments {
    api: Arc<Api>,
    v2_places: Semaphore,
}

impl ExtensionDocuments {
    pub(super) fn new(api: Arc<Api>) -> Self {
        Self { api, v2_places: Semaphore::new(V2_AT_A_TIME) }
    }

    /// Brings the documents of a server up to date, unless that is under way.
    pub(super) async fn refresh(&self, remote: &ExtensionServer, address: &WebhookAddress) {
        let Ok(_alone) = remote.refreshing.try_lock() else { return };
        let mut new = ExtensionOpenApi::clone(&remote.openapi());
        if let Ok(v3) = self.v3(remote, address, &new).await {
            new.v3 = v3;
        }
        remote.set_openapi(new.clone());
        if new.v2_due.is_some_and(|due| due > Instant::now()) {
            return;
        }
        if let Err(why) = self.v2(remote, address, &mut new).await {
            tracing::info!(name = remote.name, why, "an extension API server has no OpenAPI v2 document");
        }
        new.v2_due = Some(Instant::now() + V2_EVERY);
        remote.set_openapi(new);
    }

    /// The v3 document of its group and version and the hash of it; `None` if it publishes none.
    async fn v3(
        &self,
        remote: &ExtensionServer,
        address: &WebhookAddress,
        known: &ExtensionOpenApi,
    ) -> Result<Option<(String, Bytes)>, String> {
        let answer = get(&self.api, address, "/openapi/v3", None).await?;
        let index = Value::read(answer.body()).unwrap_or_default();
        let name = format!("apis/{}/{}", remote.group, remote.version);
        let url = index.at("paths").at(&name).text("serverRelativeURL");
        let hash = url.split_once("hash=").map(|(_, hash)| hash).filter(|_| url.starts_with('/'));
        let Some(hash) = hash.filter(|_| answer.status() == StatusCode::OK) else { return Ok(None) };
        if known.v3.as_ref().is_some_and(|(known, _)| known == hash) {
            return Ok(known.v3.clone());
        }
        let (status, document) = {
            let answer = get(&self.api, address, url, None).await?;
            (answer.status(), answer.into_body())
        };
        Ok((status == StatusCode::OK).then(|| (hash.to_owned(), document)))
    }

    /// Asks for the v2 document, and keeps the part about the server's group and version.
    async fn v2(
        &self,
        remote: &ExtensionServer,
        address: &WebhookAddress,
        new: &mut ExtensionOpenApi,
    ) -> Result<(), String> {
        let _place = self.v2_places.acquire().await.map_err(|closed| closed.to_string())?;
        let answer = get(&self.api, address, "/openapi/v2", new.v2_tag.as_ref()).await?;
        match answer.status() {
            StatusCode::NOT_MODIFIED => return Ok(()),
            StatusCode::OK => {}
            other => return Err(format!("status {other}")),
        }
        let limit = self.api.options.admission.webhooks.openapi_bytes;
        if answer.body().len() > limit {
            return Err(format!("it is larger than {limit} bytes"));
        }
        let tag = answer.headers().get(ETAG).cloned();
        let (group, version) = (Arc::clone(&remote.group), Arc::clone(&remote.version));
        let parse = move || openapi::extension_v2(answer.body(), &group, &version);
        let part = tokio::task::spawn_blocking(parse).await.ok().flatten();
        let part = part.ok_or("it describes nothing of the group and version")?;
        let hash: String = Sha512::digest(&part).iter().map(|byte| format!("{byte:02X}")).collect();
        new.v2 = Some((hash, part.into()));
        new.v2_tag = tag;
        Ok(())
    }
}

/// Gets a path of an extension API server, as the aggregator.
pub(super) async fn get(
    api: &Api,
    address: &WebhookAddress,
    path: &str,
    known: Option<&HeaderValue>,
) -> Result<Response<Bytes>, String> {
    let mut request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(HOST, address.authority())
        .header(ACCEPT, "application/json")
        .body(Bytes::new().into())
        .map_err(|error| error.to_string())?;
    if let Some(tag) = known {
        request.headers_mut().insert(IF_NONE_MATCH, tag.clone());
    }
    let user = User {
        name: "system:kube-aggregator".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    };
    identity_headers(request.headers_mut(), &user.name, &user.uid, &user.groups, &user.extra)
        .map_err(|unfit| unfit.to_string())?;
    let answer = tokio::time::timeout(PATIENCE, api.webhooks.fetch(address, request)).await;
    answer.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
}
