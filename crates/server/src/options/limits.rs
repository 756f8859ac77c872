//! Bounds: what a request, a connection or a watch may take, and what the cache keeps.
//!
//! Each has a name, a unit, a default and the reason for it. There is no "unlimited": a bound that is never reached in
//! normal operation still limits the cost of a mistake or an attack.

use std::time::Duration;

/// Bounds on connections and on requests before they are authenticated, which any client can open.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections at one time. Beyond it new ones wait in the listen queue rather than take memory. Default 50,000, more
    /// than the clients of a cluster of 5,000 nodes have.
    pub connections: usize,
    /// Bytes of a request head. Default 64 KiB: Go's default is 1 MiB, real clients stay below 8 KiB, and a proxy may
    /// add long tokens.
    pub head_bytes: usize,
    /// Header lines of a request. Default 100: clients send about ten, proxies add a few.
    pub head_lines: usize,
    /// Time for the TLS handshake, and again for a request head once its first byte came. Default 32 s, as
    /// kube-apiserver's `ReadHeaderTimeout`: holds off clients that send one byte at a time.
    pub head_timeout: Duration,
    /// The longest time a connection may be idle between requests. Default 90 s, as in kube-apiserver; client-go
    /// reuses connections well before.
    pub idle_timeout: Duration,
    /// The time a request body may take to arrive. Default 60 s, the time of a whole request.
    pub body_timeout: Duration,
    /// Concurrent streams of one HTTP/2 connection. Default 1,000, above kube-apiserver's 100: client-go holds all
    /// its watches on one connection, and a watch costs little here.
    pub http2_streams: u32,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 50_000,
            head_bytes: 64 << 10,
            head_lines: 100,
            head_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
            body_timeout: Duration::from_secs(60),
            http2_streams: 1000,
        }
    }
}

/// Bounds on requests: sizes, times and how many at once.
#[doc(alias = "MaxRequestBodyBytes")]
#[doc(alias = "MaxRequestsInFlight")]
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bytes of a request body (413 above it). Default 3 MiB, as in kube-apiserver: twice the largest object, for the
    /// overhead of patches and indentation.
    pub body_bytes: usize,
    /// Bytes of all request bodies that are being read, wait or are worked on. Default 256 MiB. More wait to be read:
    /// a body is read before its request has a seat, so that seats bound nothing here.
    pub bodies_bytes: usize,
    /// The part of it that one user may have, so that there is room for others. Default 48 MiB, sixteen of the largest
    /// bodies.
    pub user_bodies_bytes: usize,
    /// The time after which a body that is still arriving is given up, with 429, if a request waits for memory whose user would have
    /// less. Default 1 s: memory goes to whoever sends.
    pub slow_body: Duration,
    /// The time after which it is given up if any request waits for memory. Default 10 s.
    pub very_slow_body: Duration,
    /// Bytes of answers that all users together may leave unread, beyond which each may only leave a little. Default 256 MiB.
    pub answers_bytes: usize,
    /// Bytes of answers that one user may leave unread before its further requests wait: what a client does not read
    /// is held for it. Default 64 MiB.
    pub user_answers_bytes: usize,
    /// Bytes of pages of object histories that are being made or not read yet, 8 MiB each. Default 128 MiB. More requests wait.
    pub histories_bytes: usize,
    /// The part of it that one user has at most. Default 32 MiB, four pages.
    pub user_histories_bytes: usize,
    /// Bytes of a stored object; larger ones are refused. Default 1.5 MiB, etcd's default limit of a request, which
    /// clients of kube-apiserver rely on: everything that handles objects handles ones of this size.
    pub object_bytes: usize,
    /// Bytes of a body or object above which it is worked on by blocking threads, because an async worker serves no
    /// other request in that time. Default 16 KiB: below it the work takes less time than the switch.
    pub heavy_above: usize,
    /// The longest time for an ordinary request (504 after it). Default 60 s, kube-apiserver's `--request-timeout`.
    pub timeout: Duration,
    /// Requests that take longer are logged. Default 1 s, far above what any request needs on a healthy machine.
    pub slow: Duration,
    /// The longest wait of a read for a resourceVersion that has not come yet (504 "Too large resource version" after
    /// it). Default 3 s, as in kube-apiserver: a replica that is further behind should report it.
    pub version_wait: Duration,
    /// Seats of ordinary requests, which priority levels share: `--max-requests-inflight` and
    /// `--max-mutating-requests-inflight` of kube-apiserver together. Default 600, the sum of its 400 and 200. More
    /// requests wait, or are answered 429.
    pub in_flight: usize,
    /// Percent of the CPU time that the requests of one user may use while another user is active. Default 20: on two processors
    /// that is 0.4 ms of work in a millisecond, the most that another user's request waits for, and far above client-go's own
    /// limits of 50 or 100 requests a second. Requests beyond it wait for milliseconds; 100 disables the limit.
    pub user_processor_percent: u32,
    /// Answers above this are compressed for clients that allow it. Default 128 KiB, as in kube-apiserver: below it
    /// the gain is not worth the time.
    pub gzip_above: usize,
    /// Bytes of all compressors together, about 256 KiB each. Default 32 MiB: a client that does not read keeps its
    /// compressor. Responses beyond the bound are sent uncompressed.
    pub gzip_bytes: usize,
    /// Bytes of a protobuf list that are kept while its length, which precedes it, is computed. Default 4 MiB, above
    /// the lists of most clusters: longer lists are encoded twice.
    pub protobuf_bytes: usize,
    /// The bytes that all protobuf lists together may keep, so that hundreds of clients that do not read hold no more than this.
    /// Default 64 MiB. A list beyond the bound is encoded twice.
    pub protobuf_lists_bytes: usize,
    /// The size of one piece of a streamed response. Default 64 KiB: big enough to fill TLS records, small enough to
    /// stay in the CPU's second-level cache.
    pub piece_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes: 3 << 20,
            bodies_bytes: 256 << 20,
            user_bodies_bytes: 48 << 20,
            slow_body: Duration::from_secs(1),
            very_slow_body: Duration::from_secs(10),
            answers_bytes: 256 << 20,
            user_answers_bytes: 64 << 20,
            histories_bytes: 128 << 20,
            user_histories_bytes: 32 << 20,
            object_bytes: 3 << 19,
            heavy_above: 16 << 10,
            timeout: Duration::from_secs(60),
            slow: Duration::from_secs(1),
            version_wait: Duration::from_secs(3),
            in_flight: 600,
            user_processor_percent: 20,
            gzip_above: 128 << 10,
            gzip_bytes: 32 << 20,
            protobuf_bytes: 4 << 20,
            protobuf_lists_bytes: 64 << 20,
            piece_bytes: 64 << 10,
        }
    }
}

/// Bounds on what the cache holds besides the current objects, which it holds in any case.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Bytes of recent events kept in memory for watchers. Default 16 MiB, minutes of a busy cluster. Older ones are
    /// read from the engine, so that a smaller value costs time and loses nothing.
    pub log_bytes: usize,
    /// Snapshots kept for continue tokens. Default 64. An older token is served from the engine.
    pub pinned_snapshots: usize,
    /// The longest time such a snapshot is kept: it holds on to every object that has changed since. Default 5 min,
    /// as long as kube-apiserver keeps history in etcd; clients ask for the next page within seconds.
    pub pinned_for: Duration,
    /// Bytes of stored objects whose parsed trees are kept: of recent writes, for their readers and the next write, and
    /// of objects that decide about others. Default 768 KiB. A tree takes about three times as much memory.
    pub recent_bytes: usize,
    /// Objects per page when an old state is read from the engine. Default 500, client-go's page.
    pub engine_page: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            log_bytes: 16 << 20,
            pinned_snapshots: 64,
            pinned_for: Duration::from_secs(300),
            recent_bytes: 768 << 10,
            engine_page: 500,
        }
    }
}

/// Timeouts and bounds of watches. None of them cuts off a watcher for being slow: it is only limited in what it
/// holds.
///
/// ```
/// use std::time::Duration;
/// use listwatch_server::{Options, WatchLimits};
///
/// // For a test of a client that must survive the end of its watches.
/// let watch = WatchLimits { min_timeout: Duration::from_secs(1), ..WatchLimits::default() };
/// let options = Options { watch, ..Options::default() };
/// assert!(options.watch.bookmark_every > options.watch.min_timeout);
/// ```
#[doc(alias = "MinRequestTimeout")]
#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// A watch without `timeoutSeconds` ends after a random time between this and twice this, so that clients spread.
    /// Default 30 min, kube-apiserver's `--min-request-timeout`.
    pub min_timeout: Duration,
    /// The interval of bookmarks, for watches that request them. Default 60 s, as in kube-apiserver: reflectors treat a
    /// longer silence as a dead connection.
    pub bookmark_every: Duration,
    /// The time before the deadline of a watch at which its last bookmark is sent. Default 2 s, so that it arrives
    /// before the end and the next watch begins there.
    pub bookmark_before_end: Duration,
    /// The interval at which a watch is authorized again: it ends when its user's rights were withdrawn or its token
    /// no longer holds. Default 60 s. kube-apiserver never looks again; `None` does as it does.
    pub recheck_every: Option<Duration>,
    /// Bytes of objects that a watcher takes at a time. Default 256 KiB. A client that does not read holds that much.
    pub batch_bytes: usize,
    /// Bytes of the long selectors of all open watches, those above 1 KiB. Default 16 MiB. A selector is kept in a form
    /// that takes up about ten times its text for as long as the watch is open, and is held against every change. More
    /// are answered 429.
    pub selector_bytes: usize,
    /// The part of it that one user has at most. Default 2 MiB, thirty of the longest selectors that fit into a request.
    pub user_selector_bytes: usize,
    /// Events a watcher takes at a time, together with `batch_bytes`. Default 256, so that small events do not hold
    /// up the others for long.
    pub batch_events: usize,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self {
            min_timeout: Duration::from_secs(1800),
            bookmark_every: Duration::from_secs(60),
            recheck_every: Some(Duration::from_secs(60)),
            bookmark_before_end: Duration::from_secs(2),
            batch_bytes: 256 << 10,
            selector_bytes: 16 << 20,
            user_selector_bytes: 2 << 20,
            batch_events: 256,
        }
    }
}

/// Bounds of streams that carry many watches. What holds for one watch holds for each of them ([`WatchLimits`]).
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// Watches in one stream. Default 256. A subscription counts once per namespace that it names. Programs watch a few
    /// dozen kinds; a program with more opens another stream.
    pub watches: usize,
    /// Bytes of a message of the client. Default 128 KiB, enough to begin as many watches as a stream carries.
    pub message_bytes: usize,
    /// Messages that wait until the stream gets to them. Default 16. More are not read from a WebSocket, and refused
    /// from others.
    pub waiting_messages: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { watches: 256, message_bytes: 128 << 10, waiting_messages: 16 }
    }
}
