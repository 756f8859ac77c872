//! Content negotiation: encoding and shape of a response, from the `Accept` header. Pure.
//!
//! The rules are those of kube-apiserver's `negotiation` package: clauses by quality, the first acceptable one wins,
//! `as=Table` and `as=PartialObjectMetadata` with `g` and `v` choose a transformation, and an empty header means
//! JSON. `;delta=` is an extension of this server for watches.
//!
//! It runs in the verb rather than in [`super::info`], because only the verb knows if its subject is an object, a
//! list or a stream and has a protobuf form. The bytes are made by [`crate::respond`]. Request bodies are not
//! negotiated here: see `pipeline/body.rs`.

use http::header::{ACCEPT, USER_AGENT};
use listwatch_wire::{Status, delta};

use crate::http::request::Request;

/// The media type of one protobuf document.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch in protobuf.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The encoding of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
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
}

/// The version of `meta.k8s.io` that such an answer names. They differ in nothing else.
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
    List,
    Stream,
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
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => PROTOBUF,
        }
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

impl ResponseSubject {
    /// The media types on offer, as error messages name them.
    pub(crate) fn offered(self) -> &'static [&'static str] {
        match self {
            Self::Stream => &["application/json;stream=watch", PROTOBUF_STREAM],
            _ => &["application/json", "application/yaml", PROTOBUF],
        }
    }
}

/// The first form on offer that the `Accept` header allows, in the client's order of preference. `None` means 406.
/// Only what is `typed` has a protobuf form as a whole; metadata always has one.
pub(crate) fn negotiate(accept: Option<&str>, subject: ResponseSubject, typed: bool) -> Option<ResponseForm> {
    let accept = accept.map(str::trim).filter(|a| !a.is_empty());
    let Some(accept) = accept else { return Some(ResponseForm::JSON) };
    let mut clauses: Vec<AcceptClause<'_>> = accept.split(',').filter_map(AcceptClause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses.iter().find_map(|clause| clause.form(subject, typed))
}

/// One alternative of an `Accept` header.
#[derive(Debug, Default)]
struct AcceptClause<'a> {
    media_type: &'a str,
    /// One unless `q` says otherwise. Zero is not treated as a refusal, as in kube-apiserver.
    quality: f32,
    transform: Option<&'a str>,
    group: &'a str,
    version: &'a str,
    pretty: bool,
    delta: bool,
}

impl<'a> AcceptClause<'a> {
    /// Parameters that are not known are ignored, so that newer clients are understood.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self { media_type: parts.next()?, quality: 1.0, ..Self::default() };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim_matches('"');
            match key.trim() {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                "as" => clause.transform = Some(value),
                "g" => clause.group = value,
                "v" => clause.version = value,
                "delta" => clause.delta = value == delta::PARAMETER,
                "pretty" => clause.pretty = value == "1",
                _ => {}
            }
        }
        Some(clause)
    }

    /// The form of this clause, if it is on offer for the subject.
    fn form(&self, subject: ResponseSubject, typed: bool) -> Option<ResponseForm> {
        let encoding = match self.media_type {
            m if m.eq_ignore_ascii_case("application/json") || m == "*/*" => Encoding::Json,
            // A stream of YAML documents is not a thing.
            m if m.eq_ignore_ascii_case("application/yaml") && subject != ResponseSubject::Stream => {
                Encoding::Yaml
            }
            m if m.eq_ignore_ascii_case(PROTOBUF) => Encoding::Protobuf,
            _ => return None,
        };
        let meta = MetaVersion::of(self.group, self.version);
        let shape = match (self.transform, subject, meta) {
            (None, ..) => ResponseShape::Whole,
            (Some("Table"), s, Some(meta)) if s != ResponseSubject::Plain => ResponseShape::Table(meta),
            (
                Some("PartialObjectMetadata"),
                ResponseSubject::Object | ResponseSubject::Stream,
                Some(meta),
            )
            | (Some("PartialObjectMetadataList"), ResponseSubject::List, Some(meta)) => {
                ResponseShape::Metadata(meta)
            }
            _ => return None,
        };
        let offered = match (encoding, shape) {
            (Encoding::Protobuf, ResponseShape::Whole) => typed,
            // Cells are of any type, which no message can say; messages of the old version are not spoken.
            (Encoding::Protobuf, ResponseShape::Table(_) | ResponseShape::Metadata(MetaVersion::V1Beta1)) => {
                false
            }
            _ => true,
        };
        let delta = self.delta
            && (encoding, shape, subject) == (Encoding::Json, ResponseShape::Whole, ResponseSubject::Stream);
        offered.then_some(ResponseForm { encoding, shape, pretty: self.pretty, delta })
    }
}

/// Returns the form of the response to a request, including indentation. `typed` is true for built-in kinds, which
/// have a protobuf form.
///
/// # Errors
/// 406 with the media types on offer.
pub(crate) fn negotiated(
    request: &Request,
    subject: ResponseSubject,
    typed: bool,
) -> Result<ResponseForm, Status> {
    let form = negotiate(request.header(ACCEPT), subject, typed)
        .ok_or_else(|| Status::not_acceptable(subject.offered()))?;
    Ok(ResponseForm { pretty: form.pretty || wants_pretty(request), ..form })
}

/// The form of a Status. It is negotiated too, but a client that accepts nothing we have still gets JSON.
pub(crate) fn status_form(request: &Request) -> ResponseForm {
    let accept = request.header(http::header::ACCEPT);
    let form = negotiate(accept, ResponseSubject::Object, true).unwrap_or(ResponseForm::JSON);
    ResponseForm { shape: ResponseShape::Whole, pretty: form.pretty || wants_pretty(request), ..form }
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
mod tests {
    use super::*;

    fn form(accept: &str, subject: ResponseSubject) -> String {
        form_of(accept, subject, true)
    }

    fn form_of(accept: &str, subject: ResponseSubject, typed: bool) -> String {
        match negotiate(Some(accept), subject, typed) {
            None => "406".to_owned(),
            Some(form) => format!("{:?} {:?}", form.encoding, form.shape),
        }
    }

    #[test]
    fn the_clients_order_decides() {
        assert_eq!(
            form("application/json;q=0.5,application/yaml;q=0.9", ResponseSubject::Object),
            "Yaml Whole"
        );
        assert_eq!(form("text/html;q=0.9,*/*;q=0.1", ResponseSubject::Object), "Json Whole");
        assert_eq!(form("application/*", ResponseSubject::Object), "406");
        assert_eq!(form("", ResponseSubject::Object), "Json Whole");
        assert_eq!(form("application/yaml", ResponseSubject::Stream), "406");
    }

    #[test]
    fn protobuf_is_for_known_types_and_for_metadata() {
        let typed_client = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(form_of(typed_client, ResponseSubject::List, true), "Protobuf Whole");
        assert_eq!(form_of(typed_client, ResponseSubject::List, false), "Json Whole");
        assert_eq!(form_of("application/vnd.kubernetes.protobuf", ResponseSubject::Stream, false), "406");
        assert_eq!(
            form_of("application/vnd.kubernetes.protobuf;stream=watch", ResponseSubject::Stream, true),
            "Protobuf Whole"
        );
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        assert_eq!(form_of(table, ResponseSubject::List, true), "406");
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(form_of(metadata, ResponseSubject::Object, false), "Protobuf Metadata(V1)");
    }

    #[test]
    fn deltas_are_for_watches_of_whole_objects() {
        let wants = |accept: &str, subject| {
            negotiate(Some(accept), subject, true).map(|form| (form.delta, form.stream_type()))
        };
        let plain = Some((false, "application/json"));
        assert_eq!(wants(delta::ACCEPT, ResponseSubject::Stream), Some((true, delta::MEDIA_TYPE)));
        assert_eq!(wants(delta::ACCEPT, ResponseSubject::List), plain);
        assert_eq!(
            wants("application/json;stream=watch;delta=other,application/json", ResponseSubject::Stream),
            plain
        );
        assert_eq!(wants("application/json", ResponseSubject::Stream), plain);
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1;delta=json-patch";
        assert_eq!(wants(table, ResponseSubject::Stream), plain);
    }

    #[test]
    fn transformations_fit_their_subject() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl, ResponseSubject::List), "Json Table(V1)");
        let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(form(one, ResponseSubject::List), "406");
        assert_eq!(form(one, ResponseSubject::Stream), "Json Metadata(V1)");
        let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(old, ResponseSubject::List), "Json Table(V1Beta1)");
        assert_eq!(form(&old.replace("v1beta1", "v2"), ResponseSubject::List), "Json Whole");
        let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        assert_eq!(
            (form(list, ResponseSubject::List).as_str(), form(list, ResponseSubject::Object).as_str()),
            ("Json Metadata(V1)", "406")
        );
    }
}
