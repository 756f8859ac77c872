//! [`Connection`]: a minimal HTTP/1.1 client over TLS, so that a thousand of them cost less than the server they
//! measure.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::process::Server;

pub(crate) struct Connection {
    pub(crate) stream: BufReader<TlsStream<TcpStream>>,
    token: Arc<str>,
}

/// A response: its code and how it is delimited.
struct Head {
    code: u16,
    /// `None` if it comes in chunks.
    length: Option<usize>,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Self {
        Self::with_window(server, None).await
    }

    /// Opens a connection with the token of another user.
    pub(crate) async fn open_as(server: &Server, token: &str) -> Self {
        Self { token: token.into(), ..Self::open(server).await }
    }

    /// A connection with a small receive buffer.
    pub(crate) async fn with_window(server: &Server, bytes: Option<u32>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let tcp = socket.connect(server.address).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let name = ServerName::from(server.address.ip());
        let tls = TlsConnector::from(Arc::clone(&server.tls)).connect(name, tcp).await.unwrap();
        Self { stream: BufReader::new(tls), token: Arc::clone(&server.token) }
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) {
        self.send_with(method, path, "", body).await;
    }

    async fn send_with(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let kind = if method == "PATCH" { "strategic-merge-patch+json" } else { "json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/{kind}\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).await.unwrap();
        self.stream.get_mut().flush().await.unwrap();
    }

    /// Opens a watch with more headers.
    pub(crate) async fn watch_with(&mut self, path: &str, headers: &str) {
        self.send_with("GET", path, headers, "").await;
        assert_eq!(self.head().await.code, 200, "{path}");
    }

    /// Sends a request and reads its response in a form; returns its code.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str, form: &str) -> u16 {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\naccept: application/{form}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).await.unwrap();
        self.stream.get_mut().flush().await.unwrap();
        self.answer(|_| {}).await
    }

    /// Opens a watch: what can be read afterwards are its events.
    pub(crate) async fn watch(&mut self, path: &str) {
        self.send("GET", path, "").await;
        assert_eq!(self.head().await.code, 200, "{path}");
    }

    /// Sends a request that must succeed and returns its body.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.send(method, path, body).await;
        let mut answer = Vec::new();
        let code = self.answer(|piece| answer.extend_from_slice(piece)).await;
        assert!((200..300).contains(&code), "{method} {path}: {code} {}", String::from_utf8_lossy(&answer));
        answer
    }

    pub(crate) async fn json(&mut self, path: &str) -> Value {
        serde_json::from_slice(&self.call("GET", path, "").await).unwrap()
    }

    /// The number of bytes in the response to a GET; none of them are kept.
    pub(crate) async fn size(&mut self, path: &str) -> usize {
        self.send("GET", path, "").await;
        let mut size = 0;
        assert_eq!(self.answer(|piece| size += piece.len()).await, 200, "{path}");
        size
    }

    async fn answer(&mut self, mut take: impl FnMut(&[u8])) -> u16 {
        let head = self.head().await;
        let mut piece = Vec::new();
        match head.length {
            Some(length) => self.piece(length, &mut piece, &mut take).await,
            None => {
                while let size @ 1.. = usize::from_str_radix(self.line().await.trim(), 16).unwrap() {
                    self.piece(size, &mut piece, &mut take).await;
                    self.line().await;
                }
                self.line().await;
            }
        }
        head.code
    }

    async fn piece(&mut self, size: usize, piece: &mut Vec<u8>, take: &mut impl FnMut(&[u8])) {
        piece.resize(size, 0);
        self.stream.read_exact(piece).await.unwrap();
        take(piece);
    }

    async fn head(&mut self) -> Head {
        let first = self.line().await;
        let mut head = Head { code: first.split(' ').nth(1).unwrap().parse().unwrap(), length: None };
        loop {
            let line = self.line().await.to_ascii_lowercase();
            if line.trim().is_empty() {
                return head;
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                head.length = Some(length.trim().parse().unwrap());
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stream.read_line(&mut line).await.unwrap() > 0, "the server hung up");
        line
    }
}

/// The path of the ConfigMaps of a namespace.
pub(crate) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap with these data.
pub(crate) fn config_map(name: &str, data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench"}}, "data": data})
        .to_string()
}
