//! The list-watch protocol of Kubernetes: the types that a server and its clients share.
//!
//! **It is** the wire format: names, versions, selectors, request options, statuses and watch events. Everything takes bytes or
//! values and returns bytes or values.
//!
//! **It is not** a transport or a registry: there is no IO, no async, no clock, and no knowledge of any particular kind.
//! Patches and server-side apply, which only a server computes, are in `listwatch_merge`.
//!
//! # Modules, in reading order
//!
//! 1. [`Revision`], [`ObjectKey`], [`gvk`]: identifiers.
//! 2. [`status`]: the response to a failed request, byte for byte.
//! 3. [`names`], [`selector`], [`options`]: the parameters of a request.
//! 4. [`json`]: the crate `listwatch_json`, re-exported because statuses and events carry its values.
//! 5. [`event`]: the watch stream, both directions; [`delta`]: its events as patches; [`stream`]: many watches in one.
//!
//! # Example
//!
//! ```
//! use listwatch_wire::{event, json, selector::LabelSelector};
//!
//! // A write is parsed strictly, changed as a tree, and encoded in one canonical way.
//! let body = br#"{"metadata":{"name":"a","labels":{"app":"db"}},"kind":"ConfigMap","apiVersion":"v1"}"#;
//! let mut object = json::parse(body)?.value;
//! object["metadata"]["labels"]["app"] = json::json!("web");
//! let stored = json::encode_stored(&object);
//!
//! // A read looks at the bytes where it must, and builds no tree.
//! let selector: LabelSelector = "app in (web, cache)".parse()?;
//! let app = json::raw::lookup(&stored, &["metadata", "labels", "app"]).and_then(json::raw::scalar);
//! assert!(selector.matches(|key| app.filter(|_| key == "app")));
//!
//! // An event is framed around the same bytes.
//! let mut stream = Vec::new();
//! event::frame(event::EventType::Added, &stored, &mut stream);
//! let mut decoder = event::Decoder::default();
//! decoder.push(stream);
//! let received = decoder.next_event()?.unwrap();
//! assert_eq!(received.object, stored);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod key;
mod revision;

pub mod delta;
pub mod event;
pub mod gvk;
pub mod names;
pub mod options;
pub mod selector;
pub mod status;
pub mod stream;
pub mod webhook_url;

pub use listwatch_json::{self as json, go, skip_scalars};

pub use key::ObjectKey;
pub use revision::{ParseRevisionError, Revision};
pub use status::Status;
