//! A `kube::Client` whose server is a function without any of listwatch's extensions.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;

/// Requests as `uri accept`, and the response to all of them.
#[derive(Clone, Default)]
pub(crate) struct Server {
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    pub(crate) code: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) chunks: Vec<Vec<u8>>,
    /// A response that stays open after its last piece.
    pub(crate) stay_open: bool,
}

impl Server {
    pub(crate) fn answering(body: impl Into<Vec<u8>>) -> Self {
        Self { code: 200, chunks: vec![body.into()], ..Self::default() }
    }

    pub(crate) fn service(
        &self,
    ) -> impl tower::Service<
        Request<Body>,
        Response = Response<
            StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>> + use<>>,
        >,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + use<> {
        let server = self.clone();
        tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let accept =
                    request.headers().get("accept").and_then(|v| v.to_str().ok()).unwrap_or_default();
                let encoding =
                    request.headers().get("accept-encoding").and_then(|v| v.to_str().ok()).unwrap_or("none");
                let is_ours = request.uri().path().starts_with("/listwatch/");
                let server = if is_ours { Server { code: 404, ..Server::default() } } else { server };
                server.seen.lock().unwrap().push(format!("{} {accept} {encoding}", request.uri()));
                let mut response = Response::builder().status(server.code);
                for (name, value) in &server.headers {
                    response = response.header(*name, value);
                }
                let frames = server.chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
                let frames = stream::iter(frames.collect::<Vec<_>>());
                let rest = stream::pending().take(usize::from(server.stay_open));
                Ok(response.body(StreamBody::new(frames.chain(rest))).unwrap())
            }
        })
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}
