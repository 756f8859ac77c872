//! A blocking client, small enough to run under a fuzzer: requests on one connection, a watch on one of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Long enough for a loaded machine, short enough to notice.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server without TLS.
#[derive(Debug)]
pub struct Http {
    stream: BufReader<TcpStream>,
    token: String,
}

impl Http {
    pub fn connect(address: SocketAddr, token: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream), token: token.to_owned() }
    }

    /// Sends a request and returns code and body of the response.
    pub fn call(&mut self, method: &str, path: &str, kind: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send(method, path, kind, &body);
        let (code, length) = self.head();
        let mut bytes = Vec::new();
        match length {
            Some(length) => {
                bytes.resize(length, 0);
                self.stream.read_exact(&mut bytes).unwrap();
            }
            None => {
                while let Some(chunk) = self.chunk() {
                    bytes.extend(chunk);
                }
            }
        }
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{method} {path}: {error}")))
    }

    /// Begins a watch; its events are read with [`Http::event`].
    pub fn watch(mut self, path: &str) -> Self {
        self.send("GET", path, "application/json", "");
        assert_eq!(self.head().0, 200, "{path}");
        self
    }

    /// The next event of a watch.
    pub fn event(&mut self, buffer: &mut Vec<u8>) -> Value {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).unwrap();
            }
            buffer.extend(self.chunk().expect("the watch goes on"));
        }
    }

    fn send(&mut self, method: &str, path: &str, kind: &str, body: &str) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nuser-agent: model\r\nauthorization: Bearer {}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
    }

    /// The code and the length of a response, which chunks do not have.
    fn head(&mut self) -> (u16, Option<usize>) {
        let status = self.line();
        let code = status
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("{status:?}"));
        let mut length = None;
        loop {
            let line = self.line().to_ascii_lowercase();
            if line.is_empty() {
                return (code, length);
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().ok();
            }
        }
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).unwrap();
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
