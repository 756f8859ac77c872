//! Content negotiation: encoding and shape of a response, from the `Accept` header. Pure.
//!
//! The rules are those of kube-apiserver's `negotiation` package: clauses by quality ([`super::accept`]), the first
//! acceptable one wins, `as=Table` and `as=PartialObjectMetadata` with `g` and `v` choose a transformation, and an empty
//! header means JSON. Built-in kinds have routes, which check the media type before that. `;delta=` is an extension
//! of this server for watches.
//!
//! It runs in the verb rather than in [`super::info`], because only the verb knows if its subject is an object, a
//! list or a stream and has a protobuf form. The bytes are made by [`crate::respond`]. Request bodies are not
//! negotiated here: see `pipeline/body.rs`.

use http::header::{ACCEPT, USER_AGENT};
use listwatch_wire::{Status, delta};

use crate::http::request::Request;
use crate::registry::Resource;
use crate::request::accept::{self, AcceptClause};

/// The media type of one protobuf document.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch in protobuf.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The version of the server's own kinds, which a client may insist on.
const SERVER_VERSION: &str = "v1";

/// The encoding of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    /// All, in the order in which a wildcard chooses.
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// The value of the `Content-Type` header, without parameters.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// The transformation of an object in a response: none, a Table for kubectl, or metadata only for controllers that
/// need no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseShape {
    /// The object as it is.
    Whole,
    /// Rows and columns for people.
    Table(MetaVersion),
    /// Only the metadata.
    Metadata(MetaVersion),
    /// The metadata of a list where there is one object, or the reverse. An error, but not before the object is found;
    /// the end of a watch, at its first event.
    Unfit,
}

/// The version of `meta.k8s.io` that such a response names. They differ in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// `None` for another group or version: the clause then offers nothing.
    fn of(group: &str, version: &str) -> Option<Self> {
        match (group, version) {
            ("meta.k8s.io", "v1") => Some(Self::V1),
            ("meta.k8s.io", "v1beta1") => Some(Self::V1Beta1),
            _ => None,
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }

    /// The first bytes of metadata-only objects.
    pub(crate) fn partial_prefix(self) -> &'static [u8] {
        match self {
            Self::V1 => b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",",
            Self::V1Beta1 => b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1beta1\",",
        }
    }
}

/// The negotiated form of a response: encoding, transformation, indentation. Copied along with the response, decided
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseForm {
    pub(crate) encoding: Encoding,
    pub(crate) shape: ResponseShape,
    /// Spread over lines; JSON only.
    pub(crate) pretty: bool,
    /// Changes as patches; watches of whole objects as JSON only.
    pub(crate) delta: bool,
}

/// The subject of a response, which decides the transformations on offer: metadata of one object and of a list are
/// different kinds, and a stream has delimiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseSubject {
    Object,
    /// An object through a subresource for which kube-apiserver makes no tables.
    Untabled,
    List,
    Stream,
    /// The log of a container: text, where it is there.
    Log,
    /// Not about objects: no transformation is on offer.
    Plain,
}

impl ResponseForm {
    /// Compact JSON of whole objects: the form without an `Accept` header, and that of errors nothing else can
    /// express.
    pub(crate) const JSON: Self =
        Self { encoding: Encoding::Json, shape: ResponseShape::Whole, pretty: false, delta: false };

    /// The media type of a document in this form.
    pub(crate) fn content_type(self) -> &'static str {
        self.encoding.media_type()
    }

    /// The media type of a watch in this form, for its `Content-Type`.
    pub(crate) fn stream_type(self) -> &'static str {
        match self.encoding {
            Encoding::Protobuf => PROTOBUF_STREAM,
            Encoding::Json if self.delta => delta::MEDIA_TYPE,
            _ => self.content_type(),
        }
    }
}

/// Kinds by the way in which kube-apiserver serves them, which decides on the forms of their responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Built-in kinds. Their routes hold the bare media type against a list first.
    Routed,
    /// Custom kinds: without routes, and without a protobuf form.
    Custom,
    /// Kinds with a type of their own and without a route: the documents of the group of a custom kind.
    Typed,
}

impl Serving {
    /// The way in which a resource is served.
    pub(crate) fn of(resource: &Resource) -> Self {
        if resource.is_custom() { Self::Custom } else { Self::Routed }
    }
}

/// The media types of documents, as error messages name them.
const DOCUMENTS: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];
/// The media types of watches.
const STREAMS: [&str; 2] = ["application/json;stream=watch", PROTOBUF_STREAM];

impl ResponseSubject {
    /// The subject of a request for one object or a subresource of the same kind.
    pub(crate) fn of_object(subresource: Option<&str>) -> Self {
        match subresource {
            Some("approval" | "ephemeralcontainers" | "finalize" | "resize") => Self::Untabled,
            _ => Self::Object,
        }
    }

    /// The media types that a route offers: one route serves lists and watches.
    fn produced(self) -> Vec<&'static str> {
        let text = (self == Self::Log).then_some("text/plain");
        let streams = matches!(self, Self::List | Self::Stream).then_some(STREAMS);
        text.into_iter().chain(DOCUMENTS).chain(streams.into_iter().flatten()).collect()
    }
}

/// The first form on offer that the `Accept` header allows, in the client's order of preference. `None` means 406.
/// Only what is `typed` has a protobuf form as a whole; metadata always has one.
fn negotiate(accept: Option<&str>, subject: ResponseSubject, typed: bool) -> Option<ResponseForm> {
    let Some(accept) = accept else { return Some(ResponseForm::JSON) };
    accept::clauses(accept).iter().find_map(|clause| clause.form(subject, typed))
}

/// The form for the headers that programs send with most requests, which need not be read clause by clause. Routes produce both,
/// for every subject.
fn usual(accept: Option<&str>, typed: bool) -> Option<ResponseForm> {
    match accept {
        None | Some("application/json" | "application/json, */*") => Some(ResponseForm::JSON),
        Some(
            "application/vnd.kubernetes.protobuf" | "application/vnd.kubernetes.protobuf,application/json",
        ) if typed => Some(ResponseForm { encoding: Encoding::Protobuf, ..ResponseForm::JSON }),
        _ => None,
    }
}

impl AcceptClause<'_> {
    /// The first form of this clause that is on offer for the subject.
    fn form(&self, subject: ResponseSubject, typed: bool) -> Option<ResponseForm> {
        let shape = self.shape(subject)?;
        if !matches!(self.server_version, "" | SERVER_VERSION) {
            return None;
        }
        let offered = |encoding: &Encoding| match (encoding, shape) {
            (Encoding::Protobuf, ResponseShape::Whole | ResponseShape::Unfit) => typed,
            // protobuf has no form for a Table, whose cells are of any type.
            (Encoding::Protobuf, ResponseShape::Table(_)) => false,
            _ => true,
        };
        let streams = |encoding: &Encoding| match self.stream {
            "" => true,
            stream => stream == "watch" && *encoding != Encoding::Yaml,
        };
        let mut encodings = Encoding::ALL.into_iter().filter(|encoding| self.allows(encoding.media_type()));
        let encoding = encodings.find(|encoding| offered(encoding) && streams(encoding))?;
        let delta = self.delta
            && (encoding, shape, subject) == (Encoding::Json, ResponseShape::Whole, ResponseSubject::Stream);
        Some(ResponseForm { encoding, shape, pretty: self.pretty, delta })
    }

    /// The transformation, if the subject has it.
    fn shape(&self, subject: ResponseSubject) -> Option<ResponseShape> {
        use ResponseSubject::{List, Log, Object, Plain, Stream, Untabled};
        let Some(transform) = self.transform else { return Some(ResponseShape::Whole) };
        let meta = MetaVersion::of(transform.group, transform.version)?;
        match (transform.kind, subject) {
            (_, Plain) | ("Table", Untabled) => None,
            ("Table", _) => Some(ResponseShape::Table(meta)),
            ("PartialObjectMetadata", Object | Untabled | Log | Stream)
            | ("PartialObjectMetadataList", List) => Some(ResponseShape::Metadata(meta)),
            ("PartialObjectMetadata", List)
            | ("PartialObjectMetadataList", Object | Untabled | Log | Stream) => Some(ResponseShape::Unfit),
            _ => None,
        }
    }
}

/// Returns the form of the response to a request, including indentation.
///
/// # Errors
/// 406 with the media types on offer.
pub(crate) fn negotiated(
    request: &Request,
    subject: ResponseSubject,
    serving: Serving,
) -> Result<ResponseForm, Status> {
    let (accept, typed) = (accepted(request), serving != Serving::Custom);
    if let Some(form) = usual(accept, typed) {
        return Ok(ResponseForm { pretty: wants_pretty(request), ..form });
    }
    if serving == Serving::Routed {
        routed(request, &subject.produced())?;
    }
    let form = negotiate(accept, subject, typed).ok_or_else(|| Status::not_acceptable(&DOCUMENTS))?;
    // A stream of YAML documents is not a thing.
    if (subject, form.encoding) == (ResponseSubject::Stream, Encoding::Yaml) {
        return Err(Status::not_acceptable(&STREAMS));
    }
    Ok(ResponseForm { pretty: form.pretty || wants_pretty(request), ..form })
}

/// Returns true for the 406 of a watch whose client accepts documents, but no stream. kube-apiserver finds out after it has
/// read the options.
pub(crate) fn is_stream_refusal(status: &Status) -> bool {
    // The message of a 406 for the type of a document begins differently.
    status.code == 406
        && status
            .message
            .starts_with("only the following media types are accepted: application/json;stream=watch")
}

/// Returns true if the client accepts something that the routes of objects and lists produce, in whichever form.
pub(crate) fn is_routed(request: &Request) -> bool {
    routed(request, &ResponseSubject::List.produced()).is_ok()
}

/// Checks that a route produces something that the client accepts.
///
/// # Errors
/// 406 with the media types of the route.
pub(crate) fn routed(request: &Request, produced: &[&str]) -> Result<(), Status> {
    match accepted(request) {
        Some(accept) if !accept::is_produced(accept, produced) => Err(Status::no_representation(produced)),
        _ => Ok(()),
    }
}

fn accepted(request: &Request) -> Option<&str> {
    request.header(ACCEPT).filter(|accept| !accept.is_empty())
}

/// The form of a Status. It is negotiated too, but a client that accepts nothing we have still gets JSON, over several
/// lines as kube-apiserver writes it then.
pub(crate) fn status_form(request: &Request) -> ResponseForm {
    match negotiate(accepted(request), ResponseSubject::Plain, true) {
        Some(form) => ResponseForm { pretty: form.pretty || wants_pretty(request), ..form },
        None => ResponseForm { pretty: true, ..ResponseForm::JSON },
    }
}

/// Returns true if JSON should be indented: the query asks for it, or the client is a browser, curl or wget.
pub(crate) fn wants_pretty(request: &Request) -> bool {
    let query = &request.query;
    if let Some(value) = query.first("pretty") {
        return matches!(value, "true" | "1");
    }
    let agent = request.header(USER_AGENT).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
}

#[cfg(test)]
mod tests;
