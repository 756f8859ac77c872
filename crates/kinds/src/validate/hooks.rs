//! What a container is asked and told while it runs: probes and lifecycle hooks.

use listwatch_wire::json::Value;

use super::container::{port_number, port_number_or_name};
use crate::field::{Errors, Path};
use crate::names;
use crate::tree::Tree;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// A container that runs to its end before the others begin is asked nothing.
pub(super) fn forbid(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["lifecycle"].into_iter().chain(PROBES).filter(|key| item.has(key)) {
        let detail = "may not be set for init containers without restartPolicy=Always";
        errors.forbidden(&path.child(key), detail);
    }
}

/// `grace` is the time the Pod has to end.
pub(super) fn check(item: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let found = item.at("lifecycle").at(hook);
        if !found.is_null() {
            let path = path.child("lifecycle");
            handler(found, grace, &path.child(hook), errors);
        }
    }
    for key in PROBES.into_iter().filter(|key| item.has(key)) {
        probe(item.at(key), key == "readinessProbe", &path.child(key), errors);
    }
}

fn probe(probe: &Value, of_readiness: bool, path: &Path<'_>, errors: &mut Errors) {
    handler(probe, None, path, errors);
    for number in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.non_negative(&path.child(number), probe.int(number));
    }
    let (grace, at) =
        (probe.int("terminationGracePeriodSeconds"), path.child("terminationGracePeriodSeconds"));
    errors.positive(&at, grace);
    if let (true, Some(grace)) = (of_readiness, grace) {
        errors.invalid(&at, grace, "must not be set for readinessProbes");
    }
    let threshold = probe.int("successThreshold").unwrap_or(1);
    if !of_readiness && threshold != 1 {
        errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
    }
}

fn handler(handler: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].into_iter();
    for (given, key) in kinds.filter(|key| handler.has(key)).enumerate() {
        let path = path.child(key);
        if given > 0 {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        action(key, handler.at(key), grace, &path, errors);
    }
    if !["exec", "httpGet", "tcpSocket", "grpc", "sleep"].iter().any(|key| handler.has(key)) {
        errors.required(path, "must specify a handler type");
    }
}

fn action(key: &str, action: &Value, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    match key {
        "exec" if action.count("command") == 0 => errors.required(&path.child("command"), ""),
        "httpGet" => http_get(action, path, errors),
        "tcpSocket" => port_number_or_name(action.at("port"), &path.child("port"), errors),
        "grpc" => port_number(action.int("port").unwrap_or(0), &path.child("port"), errors),
        "sleep" => {
            let seconds = action.int("seconds").unwrap_or(0);
            if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.invalid(path, seconds, detail);
            }
        }
        _ => {}
    }
}

fn http_get(action: &Value, path: &Path<'_>, errors: &mut Errors) {
    if action.text("path").is_empty() {
        errors.required(&path.child("path"), "");
    }
    port_number_or_name(action.at("port"), &path.child("port"), errors);
    errors.one_of(&path.child("scheme"), action.text("scheme"), &["HTTP", "HTTPS"]);
    for header in action.list("httpHeaders") {
        let name = header.text("name");
        errors.invalid_all(&path.child("httpHeaders"), name, names::http_header(name));
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn found(item: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&item, Some(30), &Path::root("c"), &mut errors);
        errors.into_vec().iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
    }

    #[test]
    fn handlers_are_complete_and_alone() {
        assert_eq!(
            found(json!({"livenessProbe": {"grpc": {"port": 0}}})),
            ["c.livenessProbe.grpc.port Invalid"]
        );
        assert_eq!(
            found(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
            ["c.lifecycle.preStop.sleep Invalid"]
        );
        let get = json!({"path": "/", "port": 80, "scheme": "HTTP", "httpHeaders": [{"name": "a b"}]});
        assert_eq!(
            found(json!({"startupProbe": {"httpGet": get}})),
            ["c.startupProbe.httpGet.httpHeaders Invalid"]
        );
        let two =
            json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5});
        assert_eq!(
            found(json!({"readinessProbe": two})),
            [
                "c.readinessProbe.tcpSocket Forbidden",
                "c.readinessProbe.terminationGracePeriodSeconds Invalid"
            ]
        );
    }

    #[test]
    fn a_container_that_ends_has_none() {
        let mut errors = Errors::new();
        forbid(&json!({"lifecycle": {}, "startupProbe": {}}), &Path::root("c"), &mut errors);
        let fields: Vec<String> = errors.into_fields();
        assert_eq!(fields, ["c.lifecycle", "c.startupProbe"]);
    }
}
