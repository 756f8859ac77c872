//! Health endpoints: `/healthz`, `/livez`, `/readyz`, and one path per check.
//!
//! `livez` fails if a restart could help, `readyz` also when the server should get no traffic: the store is
//! read-only, objects are damaged, or it is shutting down. Reasons are logged and withheld from clients, as in
//! kube-apiserver, because these paths need no credentials. The names of kube-apiserver's post-start hooks are listed
//! and always pass, since that work is done before the first connection is accepted; probes and tools look for them.
//! They take no seats of API priority and fairness, so a full server still answers.

use http::StatusCode;
use listwatch_storage::Health;

use crate::api::Api;
use crate::http::body::Response;
use crate::http::request::Request;
use crate::observe::{family, line};
use crate::respond;

/// The task that keeps the watch cache up to date.
pub(crate) const FEEDER: &str = "task/feeder";

/// `/healthz` is the oldest, and deprecated in favour of the other two.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Work that kube-apiserver does in hooks after its start, under the names that clients look for. Here it is done before the
/// first connection is accepted, or there is none to do, so that these checks pass whenever they can be asked.
const START_HOOKS: [&str; 30] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// One named health check.
struct HealthCheck {
    name: &'static str,
    /// The reason for its failure, for the log; `None` if it passes.
    failure: Option<String>,
}

/// Returns true if a path, without a slash at its end, is one of these.
///
/// Such requests take no seat and wait for nothing, so the test must not match anything else.
pub(crate) fn serves(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    ENDPOINTS
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The paths of all checks, each endpoint's own first.
pub(crate) fn paths(api: &Api) -> Vec<String> {
    let of = |endpoint: &&str| {
        let all = checks(api, false, endpoint);
        let each = all.iter().map(|check| format!("/{endpoint}/{}", check.name));
        std::iter::once(format!("/{endpoint}")).chain(each).collect::<Vec<_>>()
    };
    ENDPOINTS.iter().flat_map(of).collect()
}

/// Answers `/metrics/slis`: the result of every check, for availability monitoring.
pub(crate) fn indicators(api: &Api, stopping: bool) -> Response {
    let (mut text, name) = (String::new(), "kubernetes_healthcheck");
    family(&mut text, name, "gauge", "The result of a single health check: 1 if it passes.");
    for endpoint in ENDPOINTS {
        for check in checks(api, stopping, endpoint) {
            let labels = format_args!("name=\"{}\",type=\"{endpoint}\"", check.name);
            line(&mut text, name, labels, u8::from(check.failure.is_none()));
        }
    }
    respond::full(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
}

/// Answers any method, as probes differ.
pub(crate) fn answer(api: &Api, stopping: bool, request: &Request) -> Response {
    let mut segments = request.path.trim_start_matches('/').splitn(2, '/');
    let endpoint = segments.next().unwrap_or_default();
    let checks = checks(api, stopping, endpoint);
    match segments.next() {
        Some(name) => single(&checks, name),
        None => all(&checks, endpoint, request),
    }
}

/// The checks of an endpoint, in the order they are listed. Damage and a full disk fail `readyz` only: a restart
/// would not help.
fn checks(api: &Api, stopping: bool, endpoint: &str) -> Vec<HealthCheck> {
    let store = match api.engine.health() {
        Health::Ready => None,
        // Reads continue, and a restart would not free disk space: alive, but not ready.
        Health::ReadOnly(why) | Health::Damaged(why) => (endpoint == "readyz").then_some(why),
        Health::Unavailable(why) => Some(why),
    };
    let damaged = (endpoint == "readyz" && api.cache.damage.count() > 0)
        .then(|| format!("{} stored objects cannot be read", api.cache.damage.count()));
    let mut checks =
        vec![HealthCheck { name: "ping", failure: None }, HealthCheck { name: "log", failure: None }];
    if endpoint != "readyz" {
        // The server calls itself without a connection, so that no certificate of its own can expire.
        checks.push(HealthCheck { name: "loopback-serving-certificate", failure: None });
    }
    checks.push(HealthCheck { name: "etcd", failure: store });
    checks.extend(api.metrics.tasks.all().iter().map(|task| HealthCheck {
        name: task.name,
        failure: task.is_over().then(|| "the task has ended".to_owned()),
    }));
    let hooks = START_HOOKS.iter().map(|name| HealthCheck { name, failure: None });
    if endpoint == "readyz" {
        let stopping = stopping.then(|| "process is shutting down".to_owned());
        checks.push(HealthCheck {
            name: "etcd-readiness",
            failure: checks.iter().find(|check| check.name == "etcd").and_then(|check| check.failure.clone()),
        });
        let feeding = checks.iter().find(|check| check.name == FEEDER);
        let synced = feeding.and_then(|check| check.failure.clone());
        checks.push(HealthCheck { name: "informer-sync", failure: synced });
        checks.push(HealthCheck { name: "stored-objects", failure: damaged });
        checks.extend(hooks);
        checks.push(HealthCheck { name: "shutdown", failure: stopping });
    } else {
        checks.extend(hooks);
    }
    checks
}

/// Without the reason, as for the whole list.
fn single(checks: &[HealthCheck], name: &str) -> Response {
    match checks.iter().find(|check| check.name == name) {
        None => respond::no_such_page(),
        Some(HealthCheck { failure: None, .. }) => respond::text(StatusCode::OK, "ok"),
        Some(HealthCheck { failure: Some(_), .. }) => {
            respond::text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n")
        }
    }
}

/// Every check of the endpoint, as a list if `verbose` is set or one fails. A check that is excluded counts as passed.
fn all(checks: &[HealthCheck], endpoint: &str, request: &Request) -> Response {
    let query = &request.query;
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = false;
    for check in checks {
        let line = if excluded.contains(&check.name) {
            format!("[+]{} excluded: ok\n", check.name)
        } else if let Some(why) = &check.failure {
            tracing::warn!(check = check.name, %why, "health check failed");
            failed = true;
            format!("[-]{} failed: reason withheld\n", check.name)
        } else {
            format!("[+]{} ok\n", check.name)
        };
        report.push_str(&line);
    }
    let unknown: Vec<String> =
        excluded.iter().filter(|e| !checks.iter().any(|c| c.name == **e)).map(|e| format!("{e:?}")).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        report.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
    }
    if failed {
        report.push_str(&format!("{endpoint} check failed\n"));
        return respond::text(StatusCode::INTERNAL_SERVER_ERROR, report);
    }
    if query.first("verbose").is_none() {
        return respond::text(StatusCode::OK, "ok");
    }
    report.push_str(&format!("{endpoint} check passed\n"));
    respond::text(StatusCode::OK, report)
}
