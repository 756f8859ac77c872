//! What form of an answer a client accepts. Pure.

/// How an answer is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

/// What an answer shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of it.
    Whole,
    /// Rows and columns for people.
    Table,
    /// Only the metadata.
    Metadata,
}

/// The agreed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) encoding: Encoding,
    pub(crate) shape: Shape,
    /// Spread over lines; JSON only.
    pub(crate) pretty: bool,
}

/// What is asked for: the kind of metadata-only answer differs between one object and a list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Object,
    List,
    Stream,
    /// Not about objects: no transformation is on offer.
    Plain,
}

impl Form {
    pub(crate) const JSON: Self = Self { encoding: Encoding::Json, shape: Shape::Whole, pretty: false };

    pub(crate) fn content_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
        }
    }
}

/// The media types on offer, as error messages name them.
pub(crate) const OFFERED: &[&str] = &["application/json", "application/yaml"];

/// The first form on offer that the `Accept` header allows, in the client's order of preference. `None` means 406.
pub(crate) fn negotiate(accept: Option<&str>, subject: Subject) -> Option<Form> {
    let accept = accept.map(str::trim).filter(|a| !a.is_empty());
    let Some(accept) = accept else { return Some(Form::JSON) };
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses.iter().find_map(|clause| clause.form(subject))
}

/// One alternative of an `Accept` header.
#[derive(Debug, Default)]
struct Clause<'a> {
    media_type: &'a str,
    quality: f32,
    transform: Option<&'a str>,
    group: &'a str,
    version: &'a str,
    pretty: bool,
}

impl<'a> Clause<'a> {
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
                "pretty" => clause.pretty = value == "1",
                _ => {}
            }
        }
        Some(clause)
    }

    fn form(&self, subject: Subject) -> Option<Form> {
        let encoding = match self.media_type {
            m if m.eq_ignore_ascii_case("application/json") || m == "*/*" => Encoding::Json,
            // A stream of YAML documents is not a thing.
            m if m.eq_ignore_ascii_case("application/yaml") && subject != Subject::Stream => Encoding::Yaml,
            _ => return None,
        };
        let meta = self.group == "meta.k8s.io" && self.version == "v1";
        let shape = match (self.transform, subject) {
            (None, _) => Shape::Whole,
            (Some("Table"), s) if meta && s != Subject::Plain => Shape::Table,
            (Some("PartialObjectMetadata"), Subject::Object | Subject::Stream) if meta => Shape::Metadata,
            (Some("PartialObjectMetadataList"), Subject::List) if meta => Shape::Metadata,
            _ => return None,
        };
        Some(Form { encoding, shape, pretty: self.pretty })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str, subject: Subject) -> String {
        match negotiate(Some(accept), subject) {
            None => "406".to_owned(),
            Some(form) => format!("{:?} {:?}", form.encoding, form.shape),
        }
    }

    #[test]
    fn the_clients_order_decides() {
        assert_eq!(form("application/json;q=0.5,application/yaml;q=0.9", Subject::Object), "Yaml Whole");
        assert_eq!(form("text/html;q=0.9,*/*;q=0.1", Subject::Object), "Json Whole");
        assert_eq!(form("application/*", Subject::Object), "406");
        assert_eq!(form("", Subject::Object), "Json Whole");
        assert_eq!(form("application/yaml", Subject::Stream), "406");
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json", Subject::List), "Json Whole");
    }

    #[test]
    fn transformations_fit_their_subject() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl, Subject::List), "Json Table");
        let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(form(one, Subject::List), "406");
        assert_eq!(form(one, Subject::Stream), "Json Metadata");
        let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        assert_eq!(
            (form(list, Subject::List).as_str(), form(list, Subject::Object).as_str()),
            ("Json Metadata", "406")
        );
    }
}
