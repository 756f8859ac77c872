//! [`ChannelTunnel`]: translates between the channels of `v5.channel.k8s.io` and the streams of SPDY.
//!
//! A message of the client begins with the number of its channel: standard input or terminal size. A message that begins
//! with 255 closes a channel. Output and errors of the command are returned in the same form, and at the end a
//! Status in channel 3: success, an exit code, or the reason why the command could not be run.
//!
//! The two directions run concurrently, so that a command that does not read its input can still write. Messages between them
//! pass through a channel of bounded length.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::Query;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::spdy::{FrameWriter, SpdyEvent, SpdyReader};
use super::{PROTOCOL_VERSION, is_spdy};
use crate::api::{Api, OpenConnection};
use crate::http::body::{Duplex, STALL};
use crate::http::tunnel::{TunnelBody, TunnelEnd};
use crate::http::websocket::pieces::{PieceReader, TunnelInput};
use crate::http::websocket::{BINARY, CLOSE, NORMAL, PONG, write_frame};
use crate::outbound::{OutboundBody, WebhookAddress};

/// The protocols inside of SPDY that are offered to kubelets, the best first.
pub(super) const PROTOCOLS: [&str; 4] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io"];
/// The channels of kubectl: the first byte of each message. They are numbered as in `remotecommand.k8s.io`.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// The Status that a command ends with, from the kubelet.
const ERROR: u8 = 3;
/// Sizes of the terminal, as JSON, from the client.
const RESIZE: u8 = 4;
/// The first byte of a message that closes a channel.
const CLOSE_CHANNEL: u8 = 255;
/// Bytes of the error stream that are kept. It carries one Status.
const ERROR_BYTES: usize = 64 << 10;
/// Bytes of a kubelet's refusal that the client's error message has.
const REFUSAL_BYTES: usize = 4 << 10;

/// The streams that a command is run with.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedStreams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl WantedStreams {
    /// By the query. A flag that is absent is false, as in kube-apiserver.
    pub(super) fn read(query: &Query<'_>) -> Self {
        let [stdin, stdout, stderr, tty] = ["stdin", "stdout", "stderr", "tty"].map(|name| query.flag(name));
        Self { stdin, stdout, stderr, tty }
    }

    /// Each channel with the name of its stream, in the order in which streams are opened. A terminal has no standard error.
    fn streams(self) -> impl Iterator<Item = (u8, &'static str)> {
        let all = [
            (ERROR, "error", true),
            (STDIN, "stdin", self.stdin),
            (STDOUT, "stdout", self.stdout),
            (STDERR, "stderr", self.stderr && !self.tty),
            (RESIZE, "resize", self.tty),
        ];
        all.into_iter().filter(|(_, _, wanted)| *wanted).map(|(channel, name, _)| (channel, name))
    }

    /// The channel in which an empty message is sent first, which clients take for the sign that they are connected.
    fn greeting(self) -> u8 {
        match self {
            Self { stdout: true, .. } => STDOUT,
            Self { stderr: true, .. } => STDERR,
            _ => ERROR,
        }
    }
}

/// A connection of a client whose channels are streams of SPDY at a kubelet.
pub(super) struct ChannelTunnel {
    pub(super) api: Arc<Api>,
    pub(super) place: WebhookAddress,
    pub(super) request: Request<OutboundBody>,
    pub(super) wanted: WantedStreams,
    pub(super) held: OpenConnection,
}

impl TunnelBody for ChannelTunnel {
    fn run<'a>(self: Box<Self>, client: &'a mut dyn Duplex, begun: BytesMut) -> TunnelEnd<'a> {
        Box::pin(async move {
            let Self { api, place, request, wanted, held } = *self;
            write_message(client, wanted.greeting(), &[]).await?;
            let outcome = match timeout(STALL, upgraded(&api, &place, request)).await {
                Ok(Ok((far, is_status))) => {
                    CommandStreams::new(wanted, is_status).pass(client, begun, far).await?
                }
                Ok(Err(why)) => Some(Status::internal(why).to_json()),
                Err(_) => Some(Status::internal("the kubelet did not answer in time").to_json()),
            };
            drop(held);
            // Without an outcome the client has disconnected.
            let Some(status) = outcome else { return Ok(()) };
            let farewell = async {
                write_message(client, ERROR, &status).await?;
                write_frame(client, CLOSE, &NORMAL.to_be_bytes()).await
            };
            timeout(STALL, farewell).await?
        })
    }
}

/// The upgraded connection to the kubelet, and whether its error stream carries a Status.
async fn upgraded(
    api: &Api,
    place: &WebhookAddress,
    request: Request<OutboundBody>,
) -> Result<(Box<dyn Duplex>, bool), String> {
    let sent = api.webhooks.send_alone(place, request).await;
    let (mut answer, _kept) = sent.map_err(|error| error.to_string())?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !is_spdy(answer.headers()) {
        return Err(format!("unable to upgrade connection: {}", refusal(answer.into_body()).await));
    }
    let version = answer.headers().get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    let is_status = version.is_some_and(|version| PROTOCOLS.iter().take(2).any(|known| *known == version));
    let far = hyper::upgrade::on(&mut answer).await.map_err(|error| error.to_string())?;
    Ok((Box::new(TokioIo::new(far)), is_status))
}

/// The words of a kubelet that does not upgrade.
async fn refusal(mut body: Incoming) -> String {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        read.extend_from_slice(&data);
        if read.len() >= REFUSAL_BYTES {
            read.truncate(REFUSAL_BYTES);
            break;
        }
    }
    let document = Value::read(&read).unwrap_or_default();
    let text = String::from_utf8_lossy(&read);
    let mut words = [document.text("message"), document.text("error"), &*text].map(str::trim).into_iter();
    words.find(|words| !words.is_empty()).unwrap_or("empty server response").to_owned()
}

/// A message to the kubelet that the direction from it causes.
enum ToKubelet {
    Pong(u32),
    CloseStdin,
}

/// The streams of one command.
struct CommandStreams {
    /// Each with its channel, its number and whether it is open.
    open: Vec<(u8, u32, bool)>,
    /// The frames that open them.
    opening: Vec<u8>,
    is_status: bool,
}

impl CommandStreams {
    fn new(wanted: WantedStreams, is_status: bool) -> Self {
        let (mut writer, mut opening) = (FrameWriter::default(), Vec::new());
        let open = wanted
            .streams()
            .map(|(channel, name)| (channel, writer.open(&mut opening, "streamtype", name), true))
            .collect();
        Self { open, opening, is_status }
    }

    /// Passes data both ways until the command has ended. Returns the Status for the error channel, or nothing if the client
    /// has gone.
    async fn pass(
        mut self,
        client: &mut dyn Duplex,
        begun: BytesMut,
        far: Box<dyn Duplex>,
    ) -> io::Result<Option<Vec<u8>>> {
        let (from_client, mut to_client) = tokio::io::split(client);
        let (from_kubelet, mut to_kubelet) = tokio::io::split(far);
        timeout(STALL, to_kubelet.write_all(&self.opening)).await??;
        let (tell_kubelet, mut for_kubelet) = mpsc::channel(8);
        let (tell_client, mut for_client) = mpsc::channel(1);
        let number = |wanted: u8| {
            self.open.iter().find(|(channel, ..)| *channel == wanted).map(|(_, number, _)| *number)
        };
        let numbers = (number(STDIN), number(RESIZE));
        let inward = inward(from_client, begun, to_kubelet, numbers, &mut for_kubelet, tell_client);
        let kubelet = SpdyReader::new(from_kubelet);
        let outward = self.outward(kubelet, &mut to_client, &mut for_client, tell_kubelet);
        tokio::select! {
            ended = inward => ended.map(|()| None),
            status = outward => status.map(Some),
        }
    }

    /// Passes output on, until all streams of it have ended.
    async fn outward(
        &mut self,
        mut kubelet: SpdyReader<impl AsyncRead + Unpin>,
        client: &mut (impl AsyncWrite + Unpin),
        pings: &mut mpsc::Receiver<Vec<u8>>,
        answers: mpsc::Sender<ToKubelet>,
    ) -> io::Result<Vec<u8>> {
        let mut error = Vec::new();
        while self.is_running() {
            let event = tokio::select! {
                event = kubelet.next() => event,
                Some(payload) = pings.recv() => {
                    write_frame(client, PONG, &payload).await?;
                    continue;
                }
            };
            let (stream, data, last) = match event {
                Ok(SpdyEvent::Data { stream, data, last }) => (stream, data, last),
                Ok(SpdyEvent::Reset(stream)) => (stream, Vec::new(), true),
                Ok(SpdyEvent::Ping(id)) => {
                    drop(answers.try_send(ToKubelet::Pong(id)));
                    continue;
                }
                Ok(SpdyEvent::End) => break,
                Err(why) => return Ok(Status::internal(why).to_json()),
            };
            let channel = self.received(stream, last);
            match channel {
                Some(ERROR) if error.len() < ERROR_BYTES => error.extend(data),
                Some(channel @ (STDOUT | STDERR)) if !data.is_empty() => {
                    write_message(client, channel, &data).await?;
                }
                Some(STDIN) if last => drop(answers.try_send(ToKubelet::CloseStdin)),
                _ => {}
            }
        }
        Ok(self.status(&error))
    }

    /// True while output or the error stream has not ended.
    fn is_running(&self) -> bool {
        self.open.iter().any(|(channel, _, open)| *open && matches!(*channel, STDOUT | STDERR | ERROR))
    }

    /// The channel of a stream, which may have ended.
    fn received(&mut self, stream: u32, last: bool) -> Option<u8> {
        let (channel, _, open) = self.open.iter_mut().find(|(_, number, _)| *number == stream)?;
        *open &= !last;
        Some(*channel)
    }

    /// The Status for the client, from what the kubelet has written into the error stream.
    fn status(&self, error: &[u8]) -> Vec<u8> {
        const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;
        if error.is_empty() {
            return SUCCESS.to_vec();
        }
        if !self.is_status {
            let text = String::from_utf8_lossy(error);
            return Status::internal(format!("error executing remote command: {text}")).to_json();
        }
        let document = Value::read(error).unwrap_or_default();
        match (document.text("status"), document.text("reason")) {
            ("Success", _) => SUCCESS.to_vec(),
            ("Failure", "NonZeroExitCode") => error.to_vec(),
            ("Failure", _) => Status::internal(document.text("message")).to_json(),
            _ => Status::internal("error stream protocol error: unknown error").to_json(),
        }
    }
}

/// Passes input and terminal sizes on, until the client has gone.
async fn inward(
    mut client: impl AsyncRead + Unpin,
    begun: BytesMut,
    mut kubelet: impl AsyncWrite + Unpin,
    (mut stdin, resize): (Option<u32>, Option<u32>),
    answers: &mut mpsc::Receiver<ToKubelet>,
    pings: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let (mut reader, mut channel) = (PieceReader::new(begun), None);
    let mut out = Vec::new();
    kubelet.flush().await?;
    loop {
        out.clear();
        tokio::select! {
            input = reader.next(&mut client) => match input? {
                TunnelInput::Piece { data, begins } => match of_channel(&mut channel, &data, begins) {
                    (CLOSE_CHANNEL, [STDIN, ..]) => end(&mut out, &mut stdin),
                    (STDIN, data) => write_data(&mut out, stdin, data),
                    (RESIZE, data) => write_data(&mut out, resize, data),
                    _ => {}
                },
                TunnelInput::Ping(payload) => drop(pings.try_send(payload)),
                TunnelInput::Close | TunnelInput::End | TunnelInput::Broken => return Ok(()),
            },
            Some(answer) = answers.recv() => match answer {
                ToKubelet::Pong(id) => FrameWriter::pong(&mut out, id),
                ToKubelet::CloseStdin => end(&mut out, &mut stdin),
            },
        }
        if !out.is_empty() {
            kubelet.write_all(&out).await?;
            kubelet.flush().await?;
        }
    }
}

/// Writes data to a stream, if it is open.
fn write_data(out: &mut Vec<u8>, stream: Option<u32>, data: &[u8]) {
    if let (Some(stream), [_, ..]) = (stream, data) {
        FrameWriter::data(out, stream, data, false);
    }
}

/// The channel of a piece and the bytes for it. The first byte of a message is its channel, which is kept for its other pieces.
fn of_channel<'a>(channel: &mut Option<u8>, data: &'a [u8], begins: bool) -> (u8, &'a [u8]) {
    match (*channel, data.split_first()) {
        (Some(channel), _) if !begins => (channel, data),
        (_, Some((first, rest))) => {
            *channel = Some(*first);
            (*first, rest)
        }
        (_, None) => (CLOSE_CHANNEL, &[]),
    }
}

/// Ends a stream once.
fn end(out: &mut Vec<u8>, stream: &mut Option<u32>) {
    if let Some(stream) = stream.take() {
        FrameWriter::data(out, stream, &[], true);
    }
}

/// Writes a message of a channel.
async fn write_message<S>(client: &mut S, channel: u8, data: &[u8]) -> io::Result<()>
where
    S: AsyncWrite + Unpin + ?Sized,
{
    let mut message = Vec::with_capacity(data.len() + 1);
    message.push(channel);
    message.extend_from_slice(data);
    write_frame(client, BINARY, &message).await
}
