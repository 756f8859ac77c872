//! `/version`, and the same facts as the metric `kubernetes_build_info`.
//!
//! `major` and `minor` are those of the Kubernetes version whose behaviour is served: clients and Helm charts choose
//! APIs by them. The version of this program is the build metadata after the plus sign in `gitVersion`.

use listwatch_wire::Status;
use serde::Serialize;

use crate::api::Api;
use crate::endpoints::discovery::json_of;
use crate::http::body::Response;
use crate::http::request::Request;
use crate::observe::{escape, family, line};
use crate::request::negotiate;

/// The Kubernetes version whose behaviour is served.
/// Changing it changes what clients and charts choose, so it follows the recorded conversations and not the calendar.
const MINOR: &str = "37";

/// The oldest version that this one can run beside.
const MIN_COMPATIBILITY_MINOR: &str = "36";

/// The state of the tree at build time is unknown: the build script reads the commit alone. kube-apiserver leaves it empty
/// then, too.
const TREE_STATE: &str = "";

const COMPILER: &str = "rustc";
/// `/version` has a field for it, which clients print.
pub(super) const GO_VERSION: &str = "none (rust)";

/// The fields of Kubernetes' `version.Info`, in its order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo<'a> {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: &'a str,
    git_commit: &'a str,
    git_tree_state: &'static str,
    build_date: &'a str,
    go_version: &'static str,
    compiler: &'static str,
    platform: &'a str,
}

/// Answers `/version`. No credentials are needed for it by default, as in kube-apiserver
/// (`system:public-info-viewer`).
///
/// # Errors
/// 406 for a form other than JSON.
pub(crate) fn answer(api: &Api, request: &Request) -> Result<Response, Status> {
    negotiate::routed(request, &["application/json"])?;
    let build = &api.options.build;
    Ok(json_of(&VersionInfo {
        major: "1",
        minor: MINOR,
        emulation_major: "1",
        emulation_minor: MINOR,
        min_compatibility_major: "1",
        min_compatibility_minor: MIN_COMPATIBILITY_MINOR,
        git_version: &git_version(),
        git_commit: &build.commit,
        git_tree_state: TREE_STATE,
        build_date: &build.date,
        go_version: GO_VERSION,
        compiler: COMPILER,
        platform: &platform(),
    }))
}

/// Writes the metric, whose value is always 1: the facts are its labels.
pub(crate) fn write_metric(api: &Api, out: &mut String) {
    let build = &api.options.build;
    let name = "kubernetes_build_info";
    family(out, name, "gauge", "Version, commit and build date of the server, as labels of the value 1.");
    let labels = format_args!(
        "build_date=\"{}\",compiler=\"{COMPILER}\",git_commit=\"{}\",git_tree_state=\"{TREE_STATE}\",git_version=\"{}\",\
         go_version=\"{GO_VERSION}\",major=\"1\",minor=\"{MINOR}\",platform=\"{}\"",
        escape(&build.date),
        escape(&build.commit),
        git_version(),
        platform(),
    );
    line(out, name, labels, 1);
}

/// The version as `/statusz` names it: without the `v` and what is behind the numbers.
pub(super) fn binary() -> String {
    format!("1.{MINOR}.0")
}

/// The version whose behaviour is served.
pub(super) fn emulated() -> String {
    format!("1.{MINOR}")
}

/// Clients compare the numbers; the part behind the plus sign is the name of this server.
fn git_version() -> String {
    format!("v1.{MINOR}.0+listwatch-{}", env!("CARGO_PKG_VERSION"))
}

/// Operating system and architecture under Go's names.
fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{arch}", std::env::consts::OS)
}
