//! `/statusz` and `/flagz`: the state of the process and its flags, for debugging.
//!
//! Text without an `Accept` header, and the kinds `Statusz` and `Flagz` of `config.k8s.io` as JSON or YAML for clients
//! that name kind and version, as in kube-apiserver: `application/json;as=Statusz;v=v1beta1;g=config.k8s.io`. Permission
//! is by RBAC (`system:monitoring`). Flags are those of `listwatch serve`; the values come with
//! [`Options::flags`](crate::Options::flags).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use http::StatusCode;
use http::header::ACCEPT;
use jiff::Timestamp;
use listwatch_wire::Status;
use serde::Serialize;

use crate::api::Api;
use crate::endpoints::{discovery, version};
use crate::http::body::Response;
use crate::http::request::Request;
use crate::observe::{COMPONENT, started_at};
use crate::request::accept::{self, AcceptClause};
use crate::request::negotiate::{self, Encoding, ResponseForm, ResponseShape};
use crate::respond;
use crate::respond::encode;

/// The path of the flags.
pub(crate) const FLAGS: &str = "/flagz";
/// The path of the status.
pub(crate) const STATUS: &str = "/statusz";

const GROUP: &str = "config.k8s.io";
/// Versions, the deprecated one last.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const DEPRECATED: &str = "v1alpha1";
/// The media types on offer, as error messages name them.
const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", "text/plain"];

/// First segments of paths that do not help to find a fault.
const NOT_FOR_DEBUGGING: [&str; 5] = ["api", "apis", "openid", "openapi", ".well-known"];

/// The process, in the order of Kubernetes' `Statusz`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProcessStatus {
    start_time: String,
    uptime_seconds: i64,
    go_version: &'static str,
    binary_version: String,
    emulation_version: String,
    paths: Vec<String>,
}

#[derive(Serialize)]
struct FlagValues<'a> {
    flags: BTreeMap<&'a str, &'a str>,
}

/// A page as an object of the API.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageObject<'a, T> {
    kind: &'a str,
    api_version: String,
    metadata: PageMetadata,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct PageMetadata {
    name: &'static str,
}

/// The form of a page.
enum PageForm {
    Text,
    Object { encoding: Encoding, version: &'static str },
}

/// Answers `/flagz`: every flag with its value.
///
/// # Errors
/// 406 for a form that there is not.
pub(crate) fn flags(api: &Api, request: &Request) -> Result<Response, Status> {
    let flags = api.options.flags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    match page_form(request, "Flagz")? {
        PageForm::Text => {
            let mut text = head("flagz");
            for (name, value) in &flags {
                let _ = writeln!(text, "{name}={value}");
            }
            Ok(respond::full(StatusCode::OK, "text/plain; charset=utf-8", text.into()))
        }
        form => object(request, form, "Flagz", FlagValues { flags }),
    }
}

/// Answers `/statusz`: since when the process runs, its version and where to look next.
///
/// # Errors
/// 406 for a form that there is not.
pub(crate) fn status(api: &Api, request: &Request) -> Result<Response, Status> {
    let now = Timestamp::now();
    let started = started_at().and_then(|at| Timestamp::from_second(at as i64).ok()).unwrap_or(now);
    let status = ProcessStatus {
        start_time: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        uptime_seconds: now.as_second().saturating_sub(started.as_second()).max(0),
        go_version: version::GO_VERSION,
        binary_version: version::binary(),
        emulation_version: version::emulated(),
        paths: debugging_paths(&discovery::all_paths(api)),
    };
    match page_form(request, "Statusz")? {
        PageForm::Text => {
            Ok(respond::full(StatusCode::OK, "text/plain; charset=utf-8", status.text(started).into()))
        }
        form => object(request, form, "Statusz", status),
    }
}

impl ProcessStatus {
    /// The page as plain text, in the layout of kube-apiserver.
    fn text(&self, started: Timestamp) -> String {
        let up = self.uptime_seconds;
        let up = format!("{} hr {:02} min {:02} sec", up / 3600, (up / 60) % 60, up % 60);
        let mut text = head("statusz");
        let _ = write!(
            text,
            "\nStarted: {}\nUp: {up}\nGo version: {}\nBinary version: {}\nEmulation version: {}\nPaths: {}\n",
            started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            self.go_version,
            self.binary_version,
            self.emulation_version,
            self.paths.join(" "),
        );
        text
    }
}

/// The lines above the text of a page.
fn head(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n"
    )
}

/// The first segments of all paths, each once, without those of the API.
fn debugging_paths(paths: &[String]) -> Vec<String> {
    let folders = paths.iter().filter_map(|path| path.split('/').nth(1));
    let folders: BTreeSet<&str> =
        folders.filter(|name| !name.is_empty() && !NOT_FOR_DEBUGGING.contains(name)).collect();
    folders.into_iter().map(|name| format!("/{name}")).collect()
}

/// Text has no kind, and an object must be asked for by its kind.
fn page_form(request: &Request, kind: &str) -> Result<PageForm, Status> {
    let accept = request.header(ACCEPT).unwrap_or_default();
    if accept.trim().is_empty() {
        return Ok(PageForm::Text);
    }
    let offered = accept::clauses(accept).iter().find_map(|clause| clause_form(clause, kind));
    offered.ok_or_else(|| Status::not_acceptable(&MEDIA_TYPES))
}

/// The form that a clause of `Accept` selects; none if the page cannot be sent so.
fn clause_form(clause: &AcceptClause<'_>, kind: &str) -> Option<PageForm> {
    if !clause.is_plain() {
        return None;
    }
    match clause.transform() {
        None => clause.allows("text/plain").then_some(PageForm::Text),
        Some((as_kind, group, version)) if (as_kind, group) == (kind, GROUP) => {
            let version = VERSIONS.into_iter().find(|known| *known == version)?;
            let encoding = if clause.allows("application/json") {
                Encoding::Json
            } else {
                clause.allows("application/yaml").then_some(Encoding::Yaml)?
            };
            Some(PageForm::Object { encoding, version })
        }
        Some(_) => None,
    }
}

/// The page as an object.
fn object(
    request: &Request,
    form: PageForm,
    kind: &str,
    content: impl Serialize,
) -> Result<Response, Status> {
    let PageForm::Object { encoding, version } = form else { return Err(Status::internal("not an object")) };
    let api_version = format!("{GROUP}/{version}");
    let object = PageObject { kind, api_version, metadata: PageMetadata { name: COMPONENT }, content };
    let json = serde_json::to_vec(&object).map_err(Status::internal)?;
    let pretty = negotiate::wants_pretty(request);
    let form = ResponseForm { encoding, shape: ResponseShape::Whole, pretty, delta: false };
    let mut response =
        respond::full(StatusCode::OK, form.content_type(), encode::document(json.into(), form)?);
    if version == DEPRECATED {
        let page = kind.to_lowercase();
        let text = format!("This version of the {page} endpoint is deprecated. Please use a newer version.");
        respond::warn(&mut response, [text.as_str()]);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_api_are_no_debugging_endpoints() {
        let paths =
            ["/", "/api", "/apis/apps", "/healthz", "/healthz/ping", "/metrics", "/openapi/v2", "/version"];
        assert_eq!(debugging_paths(&paths.map(str::to_owned)), ["/healthz", "/metrics", "/version"]);
    }

    #[test]
    fn the_zpages_object_form_requires_its_kind() {
        let form = |accept: &str| {
            let found = accept::clauses(accept).iter().find_map(|clause| clause_form(clause, "Flagz"));
            match found {
                None => "none",
                Some(PageForm::Text) => "text",
                Some(PageForm::Object { encoding: Encoding::Yaml, .. }) => "yaml",
                Some(PageForm::Object { version, .. }) => version,
            }
        };
        assert_eq!(form("*/*"), "text");
        assert_eq!(form("text/plain"), "text");
        assert_eq!(form("application/json"), "none");
        assert_eq!(form("application/json;as=Flagz;g=config.k8s.io;v=v1beta1"), "v1beta1");
        assert_eq!(form("application/yaml;as=Flagz;g=config.k8s.io;v=v1beta1"), "yaml");
        assert_eq!(form("application/json;as=Statusz;g=config.k8s.io;v=v1beta1,text/plain;q=0.1"), "text");
        assert_eq!(form("application/json;as=Flagz;g=config.k8s.io;v=v2"), "none");
        assert_eq!(form("application/json;as=Flagz;g=config.k8s.io;v=v1beta1;sv=v1"), "none");
    }
}
