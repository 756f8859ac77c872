//! [`KubeSource`]: the [`ListerWatcher`] of a Kubernetes API server, over a `kube::Client`.
//!
//! Objects are taken from the response as bytes and only their metadata is scanned; nothing is decoded here. The client
//! contributes authentication, TLS and proxies; kube's own `Api::list` and `Api::watch` are not used, because they
//! decode every object into its type.
//!
//! A watch requests deltas (`docs/delta-watch.md`) if the cache keeps objects exactly as the server sent them. A patch
//! that does not fit ends the watch, and the next two watches are of whole objects. Rules of resuming and relisting are
//! in [`reflector`](crate::reflector); the HTTP form is `request`, decoding `body`, `list_decoder` and `deltas`.

mod namespaces;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use listwatch_wire::json::raw;
use listwatch_wire::options::ListOptions;
use listwatch_wire::selector::{FieldSelector, LabelSelector};
use listwatch_wire::stream::Subscription;

use super::body::Chunks;
use super::deltas::Deltas;
use super::list_decoder::ListDecoder;
use super::request::{RequestForm, accept, http_request, list_options, send, watch_options};
use super::resource::ResourceKind;
use super::stream::SharedStream;
use crate::lister_watcher::{
    HeldObjects, ListRequest, ListerWatcher, SourceError, SourcePage, Sources, WatchRequest, WatchStream,
};
use crate::object::{Keep, ManagedFields, Object};

pub use namespaces::KubeNamespaces;

/// More than any namespace is.
const MAX_NAMESPACE: usize = 2 << 20;

/// The responses that are requested with gzip compression. Compression costs CPU time on both ends and saves bandwidth, so
/// it pays over slow or metered links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None: the cheapest on a network within a data centre.
    #[default]
    Off,
    /// The initial state, as a list or a stream: large, and a seventh of its size when compressed. Servers that stream it
    /// compress what follows on the same stream, too.
    Lists,
    /// Watches too: each event is compressed on its own, at several times the processor time per event.
    All,
}

/// A change of the options by the user, which wins over everything.
type Tweak = dyn Fn(&mut ListOptions) + Send + Sync;

/// A collection of a Kubernetes API server: all of it, or one namespace.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use listwatch::SharedInformer;
/// use listwatch::kube::KubeSource;
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let pods = KubeSource::of::<Pod>(client).namespace("kube-system").labels("k8s-app=kube-dns".parse()?);
/// let informer = SharedInformer::<Pod>::new(pods);
/// informer.start()?;
/// informer.wait_synced().await;
/// for pod in informer.snapshot().iter() {
///     println!("{} on {:?}", pod.key(), pod.get()?.spec.as_ref().and_then(|spec| spec.node_name.as_ref()));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "ListWatch")]
pub struct KubeSource {
    client: kube::Client,
    resource: ResourceKind,
    namespace: Option<String>,
    options: ListOptions,
    tweaks: Vec<Arc<Tweak>>,
    query: String,
    keep: Keep,
    compression: Compression,
    deltas: bool,
    max_list_bytes: u64,
    /// A connection that carries its watches together with those of other sources.
    stream: Option<SharedStream>,
    /// The number of watches that are opened without patches before the next with them.
    whole_watches: Arc<AtomicU32>,
}

/// The default of [`KubeSource::max_list_bytes`].
const MAX_LIST_BYTES: u64 = 4 << 30;
/// Reasons that are kept of objects of one page that cannot be used; further ones are counted. A few bytes that are not an object
/// cost a hundred.
const MAX_UNUSABLE: usize = 1000;

/// After a patch that did not fit, so many watches are of whole objects.
const WHOLE_WATCHES: u32 = 2;

impl fmt::Debug for KubeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeSource")
            .field("resource", &self.resource.resource)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl KubeSource {
    /// All objects of the kind, in all namespaces.
    #[must_use]
    pub fn new(client: kube::Client, resource: ResourceKind) -> Self {
        Self {
            client,
            resource,
            namespace: None,
            options: ListOptions::default(),
            tweaks: Vec::new(),
            query: String::new(),
            keep: Keep::default(),
            compression: Compression::Off,
            deltas: true,
            max_list_bytes: MAX_LIST_BYTES,
            stream: None,
            whole_watches: Arc::default(),
        }
    }

    /// All objects of a static type; see [`ResourceKind::of`].
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>(client: kube::Client) -> Self {
        Self::new(client, ResourceKind::of::<K>())
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only these namespaces: each is listed and watched on its own, into one cache.
    #[must_use]
    pub fn namespaces<N: Into<String>>(self, namespaces: impl IntoIterator<Item = N>) -> KubeNamespaces {
        let namespaces = namespaces.into_iter().map(Into::into).collect();
        KubeNamespaces { source: self, namespaces, may_be_empty: false, labels: None }
    }

    /// Only namespaces with such labels, each from when it has them until it loses them or is deleted. The server must let the
    /// client list and watch Namespaces.
    #[must_use]
    pub fn namespaces_labelled(self, selector: LabelSelector) -> KubeNamespaces {
        KubeNamespaces { source: self, namespaces: Vec::new(), may_be_empty: true, labels: Some(selector) }
    }

    /// Only objects with such labels.
    #[must_use]
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.options.label_selector = selector;
        self
    }

    /// Only objects with such fields; which fields can be selected depends on the kind.
    #[must_use]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.options.field_selector = selector;
        self
    }

    /// Changes the options of every list and watch, last before they are sent.
    #[must_use]
    pub fn tweak(mut self, tweak: impl Fn(&mut ListOptions) + Send + Sync + 'static) -> Self {
        self.tweaks.push(Arc::new(tweak));
        self
    }

    /// Adds an encoded `key=value` to every request, for options that this library does not have.
    #[must_use]
    pub fn query(mut self, pair: &str) -> Self {
        self.query.push('&');
        self.query.push_str(pair);
        self
    }

    /// Sets the parts of each object that are kept.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets which answers the server shall compress. Default [`Compression::Off`].
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Takes changes as patches from servers that offer them ([`listwatch_wire::delta`]). Default true. Informers that transform
    /// objects or keep only parts of them have no use for patches and get whole objects in any case.
    #[must_use]
    pub fn deltas(mut self, deltas: bool) -> Self {
        self.deltas = deltas;
        self
    }

    /// Sets the most bytes of one list or page of it, or of the initial events of a streaming list, decompressed; a
    /// longer one is an error. Default 4 GiB, more than the largest collections have: a server that never ends its
    /// answer does not use up the memory of the program.
    #[must_use]
    pub fn max_list_bytes(mut self, bytes: u64) -> Self {
        self.max_list_bytes = bytes;
        self
    }

    /// Watches over a connection that other sources share, where the server offers it.
    pub(crate) fn stream(mut self, stream: Option<SharedStream>) -> Self {
        self.stream = stream;
        self
    }

    /// Returns the collection that is read, without namespace and selectors.
    #[must_use]
    pub fn resource(&self) -> &ResourceKind {
        &self.resource
    }

    /// A request whose response is not of deltas.
    async fn send(&self, options: ListOptions) -> Result<Chunks, SourceError> {
        self.send_for(options, false).await
    }

    /// Applies the tweaks and sends. Only here do options become text.
    async fn send_for(&self, mut options: ListOptions, deltas: bool) -> Result<Chunks, SourceError> {
        self.tweaks.iter().for_each(|tweak| tweak(&mut options));
        let path = self.resource.resource.path(self.namespace.as_deref());
        let uri = format!("{path}?{}{}", options.to_query(), self.query);
        let compressed = match self.compression {
            Compression::Off => false,
            Compression::Lists => !options.watch || options.send_initial_events == Some(true),
            Compression::All => true,
        };
        let form = RequestForm { watch: options.watch, compressed, deltas };
        let request = http_request(uri, &self.resource, form)?;
        send(&self.client, request).await
    }

    /// Opens a watch: as a part of a shared stream if there is one, else on its own.
    async fn open(&self, options: ListOptions, deltas: bool) -> Result<Chunks, SourceError> {
        let plain = self.tweaks.is_empty() && self.query.is_empty() && self.compression == Compression::Off;
        if let Some(stream) = self.stream.as_ref().filter(|_| plain)
            && let Some(reader) = stream.subscribe(self.subscription(&options, deltas)).await?
        {
            return Ok(Chunks::of_subscription(reader));
        }
        self.send_for(options, deltas).await
    }

    /// The watch as a subscription of a shared stream.
    fn subscription(&self, options: &ListOptions, deltas: bool) -> Subscription {
        let resource = &self.resource.resource;
        let form = RequestForm { watch: true, compressed: false, deltas };
        Subscription {
            id: String::new(),
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.resource.to_string(),
            namespaces: self.namespace.iter().cloned().collect(),
            label_selector: options.label_selector.to_string(),
            field_selector: options.field_selector.to_string(),
            resource_version: options.resource_version.clone(),
            send_initial_events: options.send_initial_events,
            timeout_seconds: options.timeout_seconds,
            accept: accept(&self.resource, form).to_owned(),
        }
    }

    /// Refuses an object of another kind, which a proxy or a wrong path would deliver.
    fn object(&self, json: &[u8]) -> Result<Object, String> {
        // Items of a list of a built-in kind carry no kind of their own.
        let kind =
            raw::lookup(json, &["kind"]).and_then(|kind| kind.strip_prefix(b"\"")?.strip_suffix(b"\""));
        if let Some(kind) = kind
            && kind != self.resource.wire_kind().as_bytes()
        {
            let expected = self.resource.wire_kind();
            return Err(format!("expected a {expected}, got a {}", String::from_utf8_lossy(kind)));
        }
        Object::from_json(json, self.keep).map_err(|error| error.to_string())
    }

    fn too_long(&self) -> SourceError {
        SourceError::Malformed(format!("a list of more than {} bytes", self.max_list_bytes))
    }

    /// True if patches can be applied to what the cache keeps, and are not to be avoided for now.
    fn takes_deltas(&self) -> bool {
        let as_sent = self.keep.managed_fields == ManagedFields::Keep && !self.resource.metadata_only;
        let less = |left: u32| left.checked_sub(1);
        let avoided = self.whole_watches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.deltas && as_sent && !avoided
    }
}

#[async_trait::async_trait]
impl ListerWatcher for KubeSource {
    fn check(&self) -> Result<(), SourceError> {
        match &self.namespace {
            Some(namespace) if self.resource.cluster_scoped => Err(SourceError::Malformed(format!(
                "{} are not in namespaces, so none can be read from namespace {namespace:?}",
                self.resource.resource.resource
            ))),
            _ => Ok(()),
        }
    }

    fn scope(&self) -> String {
        let mut options = self.options.clone();
        self.tweaks.iter().for_each(|tweak| tweak(&mut options));
        let path = self.resource.resource.path(self.namespace.as_deref());
        let form = if self.resource.metadata_only { " metadata" } else { "" };
        let managed_fields = self.keep.managed_fields;
        format!("{path}?{}{}{form} managedFields={managed_fields:?}", options.to_query(), self.query)
    }

    /// The uid of the `kube-system` namespace, which identifies a cluster.
    async fn identity(&self) -> Result<Option<String>, SourceError> {
        let request = http_request(
            "/api/v1/namespaces/kube-system".to_owned(),
            &ResourceKind::namespaces(),
            RequestForm { watch: false, compressed: false, deltas: false },
        )?;
        let body = send(&self.client, request).await?.collect(MAX_NAMESPACE).await;
        let uid = raw::lookup(&body, &["metadata", "uid"])
            .and_then(|uid| serde_json::from_slice::<String>(uid).ok());
        uid.map(Some).ok_or_else(|| SourceError::Malformed("the kube-system namespace has no uid".to_owned()))
    }

    async fn list(&self, request: &ListRequest) -> Result<SourcePage, SourceError> {
        let mut chunks = self.send(list_options(&self.options, request)).await?;
        let mut decoder = ListDecoder::default();
        let mut page = SourcePage::default();
        let (mut left, mut unusable) = (self.max_list_bytes, 0);
        let malformed = |error: super::list_decoder::ListError| SourceError::Malformed(error.to_string());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            left = left.checked_sub(chunk.len() as u64).ok_or_else(|| self.too_long())?;
            let item = |json: &[u8]| match self.object(json) {
                Ok(object) => page.objects.push(object),
                Err(_) if page.unusable.len() >= MAX_UNUSABLE => unusable += 1,
                Err(reason) => page.unusable.push(reason),
            };
            decoder.push(&chunk, item).map_err(malformed)?;
        }
        if unusable > 0 {
            page.unusable.push(format!("{unusable} more objects"));
        }
        let head = decoder.finish().map_err(malformed)?;
        if !head.kind.ends_with("List") {
            return Err(SourceError::Malformed(format!("expected a list, got a {:?}", head.kind)));
        }
        let version = head.resource_version.parse();
        page.revision = version.map_err(|error| SourceError::Malformed(format!("list: {error}")))?;
        page.continue_token = Some(head.continue_token).filter(|token| !token.is_empty());
        Ok(page)
    }

    async fn watch(&self, request: &WatchRequest) -> Result<WatchStream, SourceError> {
        let chunks = self.open(watch_options(&self.options, request), false).await?;
        Ok(self.read(chunks, None, request.initial_events))
    }

    async fn watch_holding(
        &self,
        request: &WatchRequest,
        held: &HeldObjects,
    ) -> Result<WatchStream, SourceError> {
        let wanted = self.takes_deltas();
        let chunks = self.open(watch_options(&self.options, request), wanted).await?;
        let deltas = (wanted && chunks.deltas).then(|| Deltas::new(held.clone(), &self.resource));
        Ok(self.read(chunks, deltas, request.initial_events))
    }
}

impl<K: kube::Resource<DynamicType = ()>> From<kube::Api<K>> for KubeSource {
    /// The collection of the `Api`: all of it, or its namespace.
    fn from(api: kube::Api<K>) -> Self {
        let namespace = api.namespace().map(str::to_owned);
        Self { namespace, ..Self::of::<K>(api.into_client()) }
    }
}

impl<K: kube::Resource<DynamicType = ()>> From<kube::Api<K>> for Sources {
    fn from(api: kube::Api<K>) -> Self {
        KubeSource::from(api).into()
    }
}
