//! Network policies.

use listwatch_wire::json::Value;

use super::container::{PROTOCOLS, port_number, port_number_or_name};
use super::selector;
use crate::field::{Errors, Path};
use crate::names;
use crate::tree::Tree;

pub(super) fn check(new: &Value, errors: &mut Errors) {
    let (spec, path) = (new.at("spec"), Path::root("spec"));
    selector::check(spec.at("podSelector"), &path.child("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let path = path.child(direction);
        for (index, rule) in spec.list(direction).iter().enumerate() {
            let path = path.index(index);
            let ports = path.child("ports");
            for (index, item) in rule.list("ports").iter().enumerate() {
                port(item, &ports.index(index), errors);
            }
            let at = path.child(peers);
            for (index, item) in rule.list(peers).iter().enumerate() {
                peer(item, &at.index(index), errors);
            }
        }
    }
    let types = path.child("policyTypes");
    if spec.count("policyTypes") > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.invalid(&types, spec.at("policyTypes").clone(), detail);
        return;
    }
    for (index, name) in spec.list("policyTypes").iter().filter_map(Value::as_str).enumerate() {
        errors.one_of(&types.index(index), name, &["Ingress", "Egress"]);
    }
}

fn port(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    errors.one_of(&path.child("protocol"), item.text("protocol"), PROTOCOLS);
    let (port, end) = (item.at("port"), item.int("endPort"));
    let at = path.child("endPort");
    if !port.is_null() {
        port_number_or_name(port, &path.child("port"), errors);
    }
    let Some(end) = end else { return };
    match port {
        Value::Null => errors.invalid(&at, end, "may not be specified when `port` is not specified"),
        Value::String(_) => errors.invalid(&at, end, "may not be specified when `port` is non-numeric"),
        number => {
            if end < number.as_i64().unwrap_or(0) {
                errors.invalid(&at, number.clone(), "must be greater than or equal to `port`");
            }
            port_number(end, &at, errors);
        }
    }
}

fn peer(peer: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selectors = ["podSelector", "namespaceSelector"];
    for key in selectors.into_iter().filter(|key| peer.has(key)) {
        selector::check(peer.at(key), &path.child(key), errors);
    }
    match (selectors.iter().any(|key| peer.has(key)), peer.has("ipBlock")) {
        (false, false) => errors.required(path, "must specify a peer"),
        (true, true) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        (false, true) => block(peer.at("ipBlock"), &path.child("ipBlock"), errors),
        (true, false) => {}
    }
}

fn block(block: &Value, path: &Path<'_>, errors: &mut Errors) {
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        errors.required(&path.child("cidr"), "");
        return;
    }
    if !names::is_cidr(cidr) {
        errors.invalid(&path.child("cidr"), cidr, names::CIDR);
        return;
    }
    let at = path.child("except");
    for (index, except) in block.list("except").iter().filter_map(Value::as_str).enumerate() {
        if !names::is_cidr(except) {
            errors.invalid(&at.index(index), except, names::CIDR);
        } else if !names::is_strict_subset(except, cidr) {
            errors.invalid(&at.index(index), except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn fields(rule: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&json!({"spec": {"podSelector": {}, "ingress": [rule]}}), &mut errors);
        errors.into_fields()
    }

    #[test]
    fn ports_are_numbers_names_or_ranges() {
        let port = |mut port: Value| {
            port.as_object_mut().unwrap().put("protocol", "TCP");
            fields(json!({"ports": [port]}))
        };
        assert_eq!(port(json!({"port": 80, "endPort": 90})), [""; 0]);
        assert_eq!(port(json!({"port": 0})), ["spec.ingress[0].ports[0].port"]);
        for wrong in [
            json!({"port": 80, "endPort": 70}),
            json!({"endPort": 70}),
            json!({"port": "web", "endPort": 70}),
        ] {
            assert_eq!(port(wrong), ["spec.ingress[0].ports[0].endPort"]);
        }
    }

    #[test]
    fn exceptions_are_inside_their_block() {
        let block = |block: Value| fields(json!({"from": [{"ipBlock": block}]}));
        assert_eq!(block(json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]})), [""; 0]);
        assert_eq!(block(json!({"cidr": "nowhere"})), ["spec.ingress[0].from[0].ipBlock.cidr"]);
        assert_eq!(
            block(json!({"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.0/8"]})),
            ["spec.ingress[0].from[0].ipBlock.except[0]", "spec.ingress[0].from[0].ipBlock.except[1]"]
        );
    }
}
