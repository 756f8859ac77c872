//! Subresources that connect to a node: logs, exec, attach, port forwarding, proxies.
//!
//! This server opens no connections to kubelets or Pods. The checks that kube-apiserver makes before it connects are
//! made all the same, in the same order, so that a client gets the same error for a wrong name or an unscheduled Pod.

use listwatch_kinds::field::{Errors, Path};
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use listwatch_wire::options::Query;

use crate::admission::{Operation, RequestOptions};
use crate::api::Api;
use crate::api::stored::fresh;
use crate::pipeline::target::Target;
use crate::pipeline::{Answer, AnswerBody, WriteRequest};

/// Returns true if a request is for one of these.
#[must_use]
pub(crate) fn is_connection(request: &WriteRequest) -> bool {
    let name = request.subresource.as_deref().unwrap_or_default();
    matches!(name, "log" | "exec" | "attach" | "portforward" | "proxy")
        && request.resource.subresource(name).is_some()
}

/// Answers a request for logs, exec, attach, port-forward or proxy, as far as possible without a kubelet: all checks
/// are made, then the connection is refused.
///
/// # Errors
/// The first check that fails, in kube-apiserver's order; otherwise an error that says that this server does not
/// connect to kubelets or Pods.
pub(crate) async fn connect(api: &Api, request: WriteRequest) -> Result<Answer, Status> {
    let name = request.name.as_deref().unwrap_or_default();
    admit(api, &request, name).await?;
    match (&*request.resource.plural, request.subresource.as_deref().unwrap_or_default()) {
        ("pods", "log") => log(api, &request, name).await,
        ("pods", "proxy") => {
            let pod = object(api, &request, bare(name)).await?;
            let address = pod.at("status").text("podIP").to_owned();
            Err(if address.is_empty() {
                Status::bad_request("address not allowed")
            } else {
                unreachable(&address)
            })
        }
        ("pods", connection) => {
            let pod = object(api, &request, name).await?;
            if connection != "portforward" {
                container(&request.query, &pod)?;
            }
            if pod.at("spec").text("nodeName").is_empty() {
                return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
            }
            Err(no_connection(api, &pod).await?)
        }
        ("services", _) => Err(service(api, &request, bare(name)).await?),
        _ => {
            let node = object(api, &request, bare(name)).await?;
            Err(no_kubelet(&node))
        }
    }
}

/// Asks admission about a connection. A log is read, not connected to.
///
/// Admission sees options such as the container and the command's streams, under the operation `CONNECT`, so a policy
/// that forbids `exec` is honoured here as well.
async fn admit(api: &Api, request: &WriteRequest, name: &str) -> Result<(), Status> {
    let subresource = request.subresource.as_deref().unwrap_or_default();
    let Some(kind) = request.resource.subresource(subresource).filter(|_| subresource != "log") else {
        return Ok(());
    };
    let query = &request.query;
    let mut options = json!({"kind": &*kind.kind, "apiVersion": "v1"});
    for key in ["container", "path"] {
        if let Some(text) = query.first(key) {
            options.put(key, text);
        }
    }
    for key in ["stdin", "stdout", "stderr", "tty"] {
        if let Some(flag) = query.optional_flag(key) {
            options.put(key, flag);
        }
    }
    let command: Vec<Value> = query.all("command").map(Value::from).collect();
    if !command.is_empty() {
        options.put("command", command);
    }
    let attributes = request.attributes(api, Operation::Connect, name, RequestOptions::None, None);
    api.admission.admit(&attributes, &mut options).await?;
    api.admission.validate(&attributes, &options).await
}

/// The name in `scheme:name:port`, each but the name optional.
fn bare(id: &str) -> &str {
    let mut parts = id.split(':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(name), Some(_)) => name,
        (Some(name), ..) => name,
        _ => id,
    }
}

/// The object in its latest version, by a read of the store if the cache may be behind.
async fn object(api: &Api, request: &WriteRequest, name: &str) -> Result<Value, Status> {
    let target = Target::new(&request.resource, request.namespace.as_deref(), name);
    Ok(fresh(api, &target).await?.ok_or_else(|| target.not_found())?.value)
}

/// A Pod that runs nowhere has an empty log.
async fn log(api: &Api, request: &WriteRequest, name: &str) -> Result<Answer, Status> {
    let query = &request.query;
    check_log_options(query, name)?;
    let pod = object(api, request, name).await?;
    container(query, &pod)?;
    if pod.at("spec").text("nodeName").is_empty() {
        return Ok(Answer { code: 204, body: AnswerBody::Empty, warnings: Vec::new() });
    }
    Err(no_connection(api, &pod).await?)
}

/// Checks the parameters of a log as kube-apiserver does before it asks a kubelet.
///
/// # Errors
///
/// 400 for something that is no number, 422 for numbers and combinations that make no sense.
fn check_log_options(query: &Query<'_>, name: &str) -> Result<(), Status> {
    let number = |key: &str| -> Result<Option<i64>, Status> {
        let Some(text) = query.first(key).filter(|text| !text.is_empty()) else { return Ok(None) };
        let wrong = |_| {
            let text = listwatch_wire::go::quote(text);
            Status::bad_request(format!("strconv.ParseInt: parsing {text}: invalid syntax"))
        };
        text.parse().map(Some).map_err(wrong)
    };
    let (lines, bytes, seconds) = (number("tailLines")?, number("limitBytes")?, number("sinceSeconds")?);
    let mut errors = Errors::new();
    errors.non_negative(&Path::root("tailLines"), lines);
    errors.positive(&Path::root("limitBytes"), bytes);
    if seconds.is_some() && query.first("sinceTime").is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.forbidden(&Path::root(""), detail);
    } else {
        errors.positive(&Path::root("sinceSeconds"), seconds);
    }
    let errors = errors.into_vec();
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "PodLogOptions", name, &errors)) }
}

/// Checks the `container` parameter. It may be absent only if the Pod has one container.
fn container(query: &Query<'_>, pod: &Value) -> Result<(), Status> {
    let (wanted, pod_name) = (query.text("container"), pod.at("metadata").text("name"));
    let names = |key: &str| -> Vec<&str> {
        pod.at("spec").list(key).iter().map(|container| container.text("name")).collect()
    };
    let (own, first) = (names("containers"), names("initContainers"));
    if wanted.is_empty() {
        if own.len() == 1 {
            return Ok(());
        }
        let mut why = format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            own.join(" ")
        );
        if !first.is_empty() {
            why.push_str(&format!(" or one of the init containers: [{}]", first.join(" ")));
        }
        return Err(Status::bad_request(why));
    }
    if own.contains(&wanted) || first.contains(&wanted) || names("ephemeralContainers").contains(&wanted) {
        return Ok(());
    }
    Err(Status::bad_request(format!("container {wanted} is not valid for pod {pod_name}")))
}

/// Returns the error about the node of a Pod.
async fn no_connection(api: &Api, pod: &Value) -> Result<Status, Status> {
    let Some(nodes) = api.registry.find("", "v1", "nodes") else { return Err(Status::no_such_path()) };
    let target = Target::new(&nodes, None, pod.at("spec").text("nodeName"));
    let node = fresh(api, &target).await?;
    Ok(node.map_or_else(|| target.not_found(), |node| no_kubelet(&node.value)))
}

/// Returns the error for a connection to a kubelet. For a node without addresses it is kube-apiserver's.
fn no_kubelet(node: &Value) -> Status {
    if node.at("status").count("addresses") == 0 {
        return Status::unknown_reason("no preferred addresses found; known addresses: []");
    }
    let name = node.at("metadata").text("name");
    Status::unknown_reason(format!(
        "this API server does not connect to kubelets, so logs, exec, attach, port-forward and proxy are not available on node {name:?}"
    ))
}

/// The 503 that a cluster answers if a Pod does not listen, with this server's reason in it.
fn unreachable(address: &str) -> Status {
    Status::service_unavailable(format!(
        "error trying to reach service: this API server does not connect to Pods, so {address} is not asked"
    ))
}

/// Returns the error about a Service: it does not exist, has no endpoints, or is not connected to.
async fn service(api: &Api, request: &WriteRequest, name: &str) -> Result<Status, Status> {
    object(api, request, name).await?;
    let Some(endpoints) = api.registry.find("", "v1", "endpoints") else {
        return Err(Status::no_such_path());
    };
    let target = Target::new(&endpoints, request.namespace.as_deref(), name);
    let none = || Status::service_unavailable(format!("no endpoints available for service {name:?}"));
    Ok(match fresh(api, &target).await? {
        None => target.not_found(),
        Some(found) => {
            let address =
                found.value.list("subsets").iter().find_map(|subset| subset.list("addresses").first());
            address.map_or_else(none, |address| unreachable(address.text("ip")))
        }
    })
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_container_is_named_unless_it_is_alone() {
        let pod = |containers: Value| json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": [{"name": "i"}]}});
        let (one, two) = (pod(json!([{"name": "a"}])), pod(json!([{"name": "a"}, {"name": "b"}])));
        for (pod, query, expected) in [
            (&one, "", None),
            (&two, "container=b", None),
            (&two, "container=i", None),
            (&one, "container=z", Some("container z is not valid for pod p")),
            (
                &two,
                "",
                Some(
                    "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
                ),
            ),
        ] {
            let refused = container(&Query::parse(query), pod).err().map(|status| status.message);
            assert_eq!(refused.as_deref(), expected, "{query}");
        }
    }

    #[test]
    fn options_of_logs_are_checked_first() {
        let code =
            |query: &str| check_log_options(&Query::parse(query), "p").map_or_else(|s| s.code, |()| 200);
        for (query, expected) in [
            ("tailLines=5&limitBytes=1&sinceSeconds=1", 200),
            ("tailLines=x", 400),
            ("tailLines=-1", 422),
            ("limitBytes=0", 422),
            ("sinceSeconds=0", 422),
            ("sinceSeconds=5&sinceTime=2020-01-01T00:00:00Z", 422),
        ] {
            assert_eq!(code(query), expected, "{query}");
        }
    }

    #[test]
    fn proxies_are_asked_for_with_scheme_and_port() {
        for (id, name) in [("a", "a"), ("a:80", "a"), ("https:a:80", "a"), (":a:", "a")] {
            assert_eq!(bare(id), name, "{id}");
        }
    }
}
