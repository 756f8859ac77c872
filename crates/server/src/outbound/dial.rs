//! Connecting to a target: TCP with keep-alive, TLS unless the target is plain, and HTTP/1.1, within one timeout.
//!
//! Errors have the words of Go's ([`super::words`]), since they appear in Status messages. Without keep-alive a tunnel to a
//! node that lost power would never end. Connections are made for [`super::WebhookClient`], which pools them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use super::closed::ClosedByEof;
use super::{WebhookAddress, WebhookConnection, words};

/// The default time to connect, as in Go's client.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects within the time that the target has for it.
///
/// # Errors
/// Why there is no connection.
pub(super) async fn connect(target: &WebhookAddress) -> Result<WebhookConnection, String> {
    let late = |_| words::unconnected(&io::ErrorKind::TimedOut.into(), &target.address, target.port);
    tokio::time::timeout(target.connect_timeout, dial(target)).await.map_err(late)?
}

/// Connects and does the TLS handshake.
async fn dial(target: &WebhookAddress) -> Result<WebhookConnection, String> {
    let WebhookAddress { address, port, .. } = target;
    let stream = tcp(address, *port).await;
    let stream = stream.map_err(|error| words::unconnected(&error, address, *port))?;
    let Some(config) = &target.tls else { return handshake(stream).await };
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
    let tls = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    handshake(ClosedByEof(tls.map_err(|error| words::unverified(&error))?)).await
}

/// Connects to the first address of a host that accepts.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "lookup found no address");
    for address in lookup_host((host, port)).await? {
        match tcp_to(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn tcp_to(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

/// HTTP/1.1 on a connection. The task that serves it ends when the peer closes, or when the sender has been dropped
/// more.
async fn handshake<S>(stream: S) -> Result<WebhookConnection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "an outgoing connection ended");
        }
    });
    Ok(sender)
}
