//! What a list-watch server and its clients agree on.
//!
//! **It is** the wire: names, versions, selectors, request options, statuses, watch events, objects as bytes, and the
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
//! 4. [`json`]: strict parsing, canonical encoding, and walking raw bytes without a tree.
//! 5. [`object`]: an object as bytes plus the few fields a cache needs.
//! 6. [`event`]: the watch stream, both directions.
//! 7. [`patch`]: JSON patch, merge patch, strategic merge patch.
//! 8. [`apply`]: server-side apply, and who owns which field.
//!
//! # A tour
//!
//! ```
//! use bytes::Bytes;
//! use listwatch_wire::{Revision, event, object::RawObject, selector::LabelSelector};
//!
//! // What the store holds, and what a client sees: the revision of the write is put in without parsing.
//! let stored = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":{"app":"web"},"name":"a"}}"#;
//! let bytes = listwatch_wire::object::splice_resource_version(stored, Revision(7))?;
//! let object = RawObject::new(Bytes::from(bytes))?;
//! assert_eq!((object.name(), object.resource_version()), ("a", "7"));
//!
//! // A selector looks at the labels found by that one scan.
//! let selector: LabelSelector = "app in (web, db)".parse()?;
//! assert!(selector.matches(|key| object.label(key)));
//!
//! // The event is framed around the same bytes.
//! let mut stream = Vec::new();
//! event::frame(event::EventType::Added, object.bytes(), &mut stream);
//! let mut decoder = event::Decoder::default();
//! decoder.push(stream);
//! let received = decoder.next_event()?.unwrap();
//! assert_eq!(received.object, object.bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod key;
mod revision;

pub mod apply;
pub mod continue_token;
pub mod event;
pub mod go;
pub mod gvk;
pub mod json;
pub mod names;
pub mod object;
pub mod options;
pub mod patch;
pub mod selector;
pub mod status;

pub use key::ObjectKey;
pub use revision::{ParseRevisionError, Revision};
pub use status::Status;
