//! `/version`, and the same facts as the metric `kubernetes_build_info`.
//!
//! `major` and `minor` are those of the Kubernetes version whose behaviour is served: clients and Helm charts choose
//! APIs by them. The version of this program is the build metadata after the plus sign in `gitVersion`.

use listwatch_wire::json::json;

use crate::api::Api;
use crate::endpoints::discovery::json_of;
use crate::http::body::Response;
use crate::observe::{escape, family, line};

/// The Kubernetes version whose behaviour is served.
const MINOR: &str = "37";

/// The state of the tree at build time is unknown: the build script reads the commit alone. kube-apiserver leaves it empty
/// then, too.
const TREE_STATE: &str = "";

const COMPILER: &str = "rustc";
const GO_VERSION: &str = "none (rust)";

/// Answers `/version`. No credentials are needed for it by default, as in kube-apiserver
/// (`system:public-info-viewer`).
pub(crate) fn answer(api: &Api) -> Response {
    let build = &api.options.build;
    let document = json!({
        "major": "1",
        "minor": MINOR,
        "gitVersion": git_version(),
        "gitCommit": &*build.commit,
        "gitTreeState": TREE_STATE,
        "buildDate": &*build.date,
        "goVersion": GO_VERSION,
        "compiler": COMPILER,
        "platform": platform(),
    });
    json_of(&document)
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

fn git_version() -> String {
    format!("v1.{MINOR}.0+listwatch-{}", env!("CARGO_PKG_VERSION"))
}

/// System and architecture under the names that clients know.
fn platform() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{arch}", std::env::consts::OS)
}
