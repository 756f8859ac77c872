//! The server's own HTTP/1.1 beside hyper's, with the same handler, each in a separate process, in turns.
//!
//! `cargo xtask bench http`. Idle: resident memory per idle connection and per idle watch. Busy: CPU time of the server per
//! request, from clients in a closed loop.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use listwatch_server::bench_http::{Http1, serve};

/// Connections that are held idle.
const IDLE: usize = 4000;
/// Connections that ask, and how often each.
const BUSY: (usize, usize) = (8, 20_000);
/// The bytes of a response: about those of a small object.
const BODY: usize = 1000;
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("serve-own") => serve_here(Http1::Own),
        Some("serve-hyper") => serve_here(Http1::Hyper),
        _ => measure(),
    }
}

fn serve_here(which: Http1) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        serve(which, listener, Bytes::from(vec![b'x'; BODY])).await.unwrap();
    });
}

fn measure() {
    println!(
        "HTTP/1.1: {IDLE} idle connections; {} × {} requests of {BODY} bytes; {ROUNDS} rounds in turns",
        BUSY.0, BUSY.1
    );
    for _ in 0..ROUNDS {
        for which in ["own", "hyper"] {
            let connection = idle(which, "/");
            let watch = idle(which, "/watch");
            let request = busy(which);
            println!(
                "{which:6} idle connection {connection:5.2} KB, idle watch {watch:5.2} KB, request {request:5.2} CPU µs"
            );
        }
    }
}

/// Resident KB per connection that has had its first response.
fn idle(which: &str, path: &str) -> f64 {
    let server = Process::start(which);
    // What the first connections make the allocator take is not theirs.
    let warm: Vec<_> = (0..200).map(|_| open_request(server.address, path)).collect();
    let before = server.resident_kilobytes();
    let held: Vec<_> = (0..IDLE).map(|_| open_request(server.address, path)).collect();
    std::thread::sleep(Duration::from_millis(300));
    let after = server.resident_kilobytes();
    drop((warm, held));
    (after - before) / IDLE as f64
}

/// CPU µs of the server per request.
fn busy(which: &str) -> f64 {
    let server = Process::start(which);
    let address = server.address;
    let ask = move |count: usize| {
        let mut connection = open_request(address, "/");
        (1..count).for_each(|_| connection.ask("/"));
    };
    ask(1000);
    let before = server.cpu_micros();
    let clients: Vec<_> = (0..BUSY.0).map(|_| std::thread::spawn(move || ask(BUSY.1))).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    (server.cpu_micros() - before) / (BUSY.0 * BUSY.1) as f64
}

fn open_request(address: SocketAddr, path: &str) -> Connection {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut connection = Connection(BufReader::with_capacity(4096, stream));
    connection.ask(path);
    connection
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Sends a request as client-go would, and reads the response; of a watch, its first event.
    fn ask(&mut self, path: &str) {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:6443\r\nUser-Agent: kubectl/v1.37.0 (linux/amd64) kubernetes/abcdef0\r\n\
             Accept: application/json\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut length = None;
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        let bytes = length.unwrap_or_else(|| usize::from_str_radix(&self.line(), 16).unwrap() + 2);
        self.0.read_exact(&mut vec![0; bytes]).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        if self.0.read_line(&mut line).unwrap() == 0 {
            panic!("the server hung up");
        }
        line.trim_end().to_owned()
    }
}

/// A server in a process of its own.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(which: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(format!("serve-{which}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    fn resident_kilobytes(&self) -> f64 {
        let status = self.file("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The scheduler counts in nanoseconds, per thread.
    fn cpu_micros(&self) -> f64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let of = |path: std::path::PathBuf| -> f64 {
            let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
        };
        threads.map(|thread| of(thread.unwrap().path())).sum::<f64>() / 1000.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
