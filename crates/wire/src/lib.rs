//! What a list-watch server and its clients agree on.
//!
//! **It is** the wire: names, versions, selectors, request options, statuses, watch events, and the
//! pure functions that change an object (patches, server-side apply). Everything takes bytes or values and returns
//! bytes or values.
//!
//! **It is not** a transport or a registry: there is no IO, no async, no clock, and no knowledge of any particular
//! kind. Whoever knows the kinds hands in a [`patch::Schema`].
//!
//! # Modules, in reading order
//!
//! 1. [`Revision`], [`ObjectKey`], [`gvk`]: what things are called.
//! 2. [`status`]: how a request fails, byte for byte.
//! 3. [`names`], [`selector`], [`options`], [`continue_token`]: what a request may ask.
//! 4. [`json`]: a tree whose copies share, strict parsing, canonical encoding, and walking raw bytes without a tree.
//! 5. [`event`]: the watch stream, both directions.
//! 6. [`patch`]: JSON patch, merge patch, strategic merge patch.
//! 7. [`apply`]: server-side apply, and who owns which field.
//!
//! # A tour
//!
//! ```
//! use listwatch_wire::{event, json, patch, selector::LabelSelector};
//!
//! // A write is parsed strictly, changed as a tree, and encoded in one canonical way.
//! let body = br#"{"metadata":{"name":"a","labels":{"app":"db"}},"kind":"ConfigMap","apiVersion":"v1"}"#;
//! let mut object = json::parse(body)?.value;
//! patch::merge_patch(&mut object, listwatch_wire::json::json!({"metadata": {"labels": {"app": "web"}}}));
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
mod skip_scalars;

pub mod apply;
pub mod continue_token;
pub mod event;
pub mod go;
pub mod gvk;
pub mod json;
pub mod names;
pub mod options;
pub mod patch;
pub mod selector;
pub mod status;

pub use key::ObjectKey;
pub use revision::{ParseRevisionError, Revision};
pub use status::Status;
