//! The parameters of connections: PodLogOptions, PodExecOptions, PodAttachOptions, PodPortForwardOptions.
//!
//! They are parsed from the query as in kube-apiserver, passed to admission as an object, and encoded as the query of the
//! kubelet's API, which has other names.

use std::num::IntErrorKind;

use jiff::Timestamp;
use listwatch_kinds::field::{Errors, Path};
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::go::quote;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::Query;
use listwatch_wire::status::FieldError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that are not escaped in a query.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Parameters that are switches, with their names in the query of a kubelet.
const STREAMS: [(&str, &str); 4] =
    [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];

/// Writes parameters as a query, sorted by name as Go does.
pub(super) fn query(mut parameters: Vec<(&str, String)>) -> String {
    parameters.sort_by_key(|(name, _)| *name);
    let one = |(name, value): &(&str, String)| format!("{name}={}", utf8_percent_encode(value, UNESCAPED));
    parameters.iter().map(one).collect::<Vec<_>>().join("&")
}

/// The parameters of a log.
#[derive(Debug)]
pub(super) struct LogOptions<'a> {
    query: &'a Query<'static>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
}

impl<'a> LogOptions<'a> {
    /// Reads and checks the parameters of a log of a Pod of this name.
    ///
    /// # Errors
    /// 400 for something that is not a number or time, 422 for numbers and combinations that make no sense.
    #[doc(alias = "ValidatePodLogOptions")]
    pub(super) fn read(query: &'a Query<'static>, pod: &str) -> Result<Self, Status> {
        let options = Self {
            query,
            limit_bytes: number(query, "limitBytes")?,
            since_seconds: number(query, "sinceSeconds")?,
            since_time: time(query, "sinceTime")?,
            tail_lines: number(query, "tailLines")?,
        };
        let errors = options.errors();
        if errors.is_empty() { Ok(options) } else { Err(Status::invalid("", "PodLogOptions", pod, &errors)) }
    }

    fn errors(&self) -> Vec<FieldError> {
        let mut errors = Errors::new();
        errors.non_negative(&Path::root("tailLines"), self.tail_lines);
        errors.positive(&Path::root("limitBytes"), self.limit_bytes);
        if self.since_seconds.is_some() && self.since_time.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            // Go's text for a path without a name.
            errors.forbidden(&Path::root("[]"), detail);
        } else {
            errors.positive(&Path::root("sinceSeconds"), self.since_seconds);
        }
        // The choice of a stream is behind a feature gate that is off in 1.37.
        if self.query.first("stream").is_some() {
            errors.forbidden(&Path::root("stream"), "may not be specified");
        }
        errors.into_vec()
    }

    /// The container that is asked for; empty if none is.
    pub(super) fn container(&self) -> &str {
        self.query.text("container")
    }

    /// True if the certificate of the kubelet does not matter.
    pub(super) fn is_insecure(&self) -> bool {
        self.query.flag("insecureSkipTLSVerifyBackend")
    }

    /// The query for the kubelet.
    pub(super) fn kubelet_query(&self) -> String {
        let flags = ["follow", "previous", "timestamps"].into_iter().filter(|name| self.query.flag(name));
        let flags = flags.map(|name| (name, Some("true".to_owned())));
        let text = |number: i64| number.to_string();
        let others = [
            ("sinceSeconds", self.since_seconds.map(text)),
            ("sinceTime", self.since_time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())),
            ("tailLines", self.tail_lines.map(text)),
            ("limitBytes", self.limit_bytes.map(text)),
        ];
        query(flags.chain(others).filter_map(|(name, value)| Some((name, value?))).collect())
    }
}

/// A number.
fn number(query: &Query<'_>, key: &str) -> Result<Option<i64>, Status> {
    let Some(text) = query.first(key) else { return Ok(None) };
    let wrong = |error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    };
    text.parse().map(Some).map_err(wrong)
}

/// A time of RFC 3339. Nothing is the beginning of Go's time.
fn time(query: &Query<'_>, key: &str) -> Result<Option<Timestamp>, Status> {
    /// The zero time of Go, which counts as absent.
    const ZERO: &str = "0001-01-01T00:00:00Z";
    let Some(text) = query.first(key) else { return Ok(None) };
    let wrong = |_| {
        let text = quote(text);
        Status::bad_request(format!(
            "parsing time {text} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text} as \"2006\""
        ))
    };
    let text = if matches!(text, "" | "null") { ZERO } else { text };
    text.parse().map(Some).map_err(wrong)
}

/// The parameters of exec, attach and port-forward as admission sees them.
///
/// # Errors
/// 400 for ports that are not numbers.
pub(super) fn command_options(kind: &str, query: &Query<'_>) -> Result<Value, Status> {
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    if kind == "PodPortForwardOptions" {
        let ports = ports(query)?;
        if !ports.is_empty() {
            options.put("ports", ports.into_iter().map(Value::from).collect::<Vec<_>>());
        }
        return Ok(options);
    }
    for (name, _) in STREAMS {
        if let Some(flag) = query.optional_flag(name) {
            options.put(name, flag);
        }
    }
    if let Some(container) = query.first("container") {
        options.put("container", container);
    }
    let command: Vec<Value> = query.all("command").map(Value::from).collect();
    if kind == "PodExecOptions" && !command.is_empty() {
        options.put("command", command);
    }
    Ok(options)
}

/// The query of exec, attach and port-forward for the kubelet.
///
/// # Errors
/// 400 for ports that are not numbers.
#[doc(alias = "streamParams")]
pub(super) fn command_query(subresource: &str, sent: &Query<'_>) -> Result<String, Status> {
    if subresource == "portforward" {
        let ports: Vec<String> = ports(sent)?.iter().map(i64::to_string).collect();
        let ports = Some(("port", ports.join(","))).filter(|(_, ports)| !ports.is_empty());
        return Ok(query(ports.into_iter().collect()));
    }
    let streams = STREAMS.into_iter().filter(|(name, _)| sent.flag(name));
    let mut parameters: Vec<(&str, String)> = streams.map(|(_, name)| (name, "1".to_owned())).collect();
    if subresource == "exec" {
        parameters.extend(sent.all("command").map(|word| ("command", word.to_owned())));
    }
    Ok(query(parameters))
}

/// The ports to forward.
fn ports(query: &Query<'_>) -> Result<Vec<i64>, Status> {
    let read = |text: &str| {
        let wrong = |_| {
            let text = quote(text);
            let why = format!("cannot convert to []int32: strconv.ParseUint: parsing {text}: invalid syntax");
            Status::bad_request(why)
        };
        text.parse::<u32>().map(i64::from).map_err(wrong)
    };
    query.all("ports").map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(text: &str) -> Query<'static> {
        Query::parse(text).into_owned()
    }

    #[test]
    fn options_of_logs_are_checked_first() {
        for (query, expected) in [
            ("tailLines=5&limitBytes=1&sinceSeconds=1", Ok("limitBytes=1&sinceSeconds=1&tailLines=5")),
            (
                "follow=true&previous=0&timestamps=&sinceTime=2020-01-01T01:00:00%2B01:00",
                Ok("follow=true&sinceTime=2020-01-01T00%3A00%3A00Z&timestamps=true"),
            ),
            ("sinceTime=", Ok("sinceTime=0001-01-01T00%3A00%3A00Z")),
            ("tailLines=x", Err(400)),
            ("tailLines=", Err(400)),
            ("sinceTime=yesterday", Err(400)),
            ("tailLines=-1", Err(422)),
            ("limitBytes=0", Err(422)),
            ("sinceSeconds=0", Err(422)),
            ("sinceSeconds=5&sinceTime=2020-01-01T00:00:00Z", Err(422)),
            ("stream=Stdout", Err(422)),
        ] {
            let query = owned(query);
            let read = LogOptions::read(&query, "p").map(|options| options.kubelet_query());
            assert_eq!(read.as_deref().map_err(|status| status.code), expected, "{query:?}");
        }
    }

    #[test]
    fn kubelets_have_names_of_their_own_for_parameters() {
        let query = |subresource, query: &str| command_query(subresource, &owned(query));
        let exec = "command=ls&command=-l%20a&stdin=true&stdout=1&tty=false&container=c";
        assert_eq!(query("exec", exec).unwrap(), "command=ls&command=-l%20a&input=1&output=1");
        assert_eq!(query("attach", "stderr=1&tty=1&command=x").unwrap(), "error=1&tty=1");
        assert_eq!(query("portforward", "ports=80&ports=443").unwrap(), "port=80%2C443");
        assert_eq!(query("portforward", "").unwrap(), "");
        assert_eq!(query("portforward", "ports=http").unwrap_err().code, 400);
        let shown = command_options("PodExecOptions", &owned(exec)).unwrap();
        assert_eq!(
            shown,
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "stdout": true, "tty": false,
                "container": "c", "command": ["ls", "-l a"]})
        );
    }
}
