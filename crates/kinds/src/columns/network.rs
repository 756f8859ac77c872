//! Table columns of Services, endpoints, Ingresses, network policies and address kinds.
//!
//! Lists are cut after three entries (`+ N more...`), as in kubectl, since an EndpointSlice can have a thousand.
//! `EXTERNAL-IP` depends on the type of the Service: a load balancer without an address is `<pending>`, which scripts
//! wait for.

use jiff::Timestamp;
use listwatch_wire::json::Value;

use super::{AGE, KindColumns, NAME, NONE, UNSET, age_of, labels, name, or_none, selector, text, wide};
use crate::tree::Tree;

/// The elements of a list that are shown before `+ N more...`.
const SHOWN: usize = 3;

/// The external address of a load balancer is `<pending>` until a controller has written one.
pub(crate) const SERVICE: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Type"),
        text("Cluster-IP"),
        text("External-IP"),
        text("Port(s)"),
        AGE,
        wide("Selector"),
    ],
    cells: service,
};

/// Some addresses, and the number of the others.
pub(crate) const ENDPOINTS: KindColumns = KindColumns {
    columns: &[NAME, text("Endpoints"), AGE],
    cells: |object, now| vec![name(object), endpoints(object).into(), age_of(object, now)],
};

/// The first ports and addresses, each with the number of the others.
pub(crate) const ENDPOINT_SLICE: KindColumns = KindColumns {
    columns: &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE],
    cells: endpoint_slice,
};

/// Ports are 80, and 443 if there is TLS; an Ingress names no others.
pub(crate) const INGRESS: KindColumns = KindColumns {
    columns: &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE],
    cells: ingress,
};

/// Parameters as `Kind.group/name`.
pub(crate) const INGRESS_CLASS: KindColumns = KindColumns {
    columns: &[NAME, text("Controller"), text("Parameters"), AGE],
    cells: |object, now| {
        let (spec, parameters) = (object.at("spec"), object.at("spec").at("parameters"));
        let reference = match (parameters.text("kind"), parameters.text("apiGroup")) {
            ("", _) => NONE.to_owned(),
            (kind, "") => format!("{kind}/{}", parameters.text("name")),
            (kind, group) => format!("{kind}.{group}/{}", parameters.text("name")),
        };
        vec![name(object), spec.text("controller").into(), reference.into(), age_of(object, now)]
    },
};

/// The selector of the Pods that it is about; `<none>` selects all of the namespace.
pub(crate) const NETWORK_POLICY: KindColumns = KindColumns {
    columns: &[NAME, text("Pod-Selector"), AGE],
    cells: |object, now| {
        vec![name(object), selector(object.at("spec").at("podSelector")).into(), age_of(object, now)]
    },
};

/// The parent as `resource.group/namespace/name`. There are three cells for two columns, as in kube-apiserver.
pub(crate) const IP_ADDRESS: KindColumns = KindColumns {
    columns: &[NAME, text("ParentRef")],
    cells: |object, now| {
        let parent = object.at("spec").at("parentRef");
        let resource = match parent.text("group") {
            "" => parent.text("resource").to_lowercase(),
            group => format!("{}.{group}", parent.text("resource")).to_lowercase(),
        };
        let parts = [resource.as_str(), parent.text("namespace"), parent.text("name")];
        let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        vec![name(object), or_none(&text), age_of(object, now)]
    },
};

/// One range per IP family.
pub(crate) const SERVICE_CIDR: KindColumns = KindColumns {
    columns: &[NAME, text("CIDRs"), AGE],
    cells: |object, now| {
        vec![name(object), joined(object.at("spec").list("cidrs")).into(), age_of(object, now)]
    },
};

/// With commas and without blanks, as one cell.
fn joined(list: &[Value]) -> String {
    list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// External addresses depend on the type of the Service.
fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    vec![
        name(object),
        spec.text("type").into(),
        or_none(spec.text("clusterIP")),
        external(object).into(),
        service_ports(spec).into(),
        age_of(object, now),
        labels(spec.at("selector")).into(),
    ]
}

/// Addresses of the balancer, then `externalIPs`. Without any, a balancer is pending and other types have none.
fn external(object: &Value) -> String {
    let spec = object.at("spec");
    let given = joined(spec.list("externalIPs"));
    match spec.text("type") {
        "ExternalName" => spec.text("externalName").to_owned(),
        "LoadBalancer" => {
            let balancers = balancers(object);
            match (balancers.is_empty(), given.is_empty()) {
                (false, true) => balancers,
                (false, false) => format!("{balancers},{given}"),
                (true, false) => given,
                (true, true) => "<pending>".to_owned(),
            }
        }
        _ if given.is_empty() => NONE.to_owned(),
        _ => given,
    }
}

/// Addresses that a load balancer has been given.
fn balancers(object: &Value) -> String {
    let ingress = object.at("status").at("loadBalancer").list("ingress");
    let place = |item: &Value| {
        if item.text("ip").is_empty() { item.text("hostname").to_owned() } else { item.text("ip").to_owned() }
    };
    ingress.iter().map(place).collect::<Vec<_>>().join(",")
}

/// `port:nodePort/protocol`; the target port is left out.
fn service_ports(spec: &Value) -> String {
    let ports: Vec<_> = spec
        .list("ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (port.int("port").unwrap_or(0), port.text("protocol"));
            match port.int("nodePort").unwrap_or(0) {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

/// The rest is counted; an empty list is shown as `otherwise`.
fn shortened(mut texts: Vec<String>, otherwise: &str) -> String {
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    match (texts.join(","), more) {
        (text, 0) if text.is_empty() => otherwise.to_owned(),
        (text, 0) => text,
        (text, more) => format!("{text} + {more} more..."),
    }
}

/// Each port with every address that is ready. Those that are not ready are left out.
fn endpoints(object: &Value) -> String {
    let mut texts = Vec::new();
    for subset in object.list("subsets") {
        let addresses = || subset.list("addresses").iter().map(|address| address.text("ip"));
        if subset.count("ports") == 0 {
            texts.extend(addresses().map(str::to_owned));
        }
        for port in subset.list("ports").iter().map(|port| port.int("port").unwrap_or(0)) {
            texts.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    shortened(texts, if object.count("subsets") == 0 { NONE } else { "" })
}

/// The columns of an EndpointSlice. Of many ports or addresses the first three are shown.
fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = object.list("ports").iter().map(|port| match (port.int("port"), port.has("name")) {
        (Some(number), _) => number.to_string(),
        (None, true) => port.text("name").to_owned(),
        (None, false) => "*".to_owned(),
    });
    let addresses = object.list("endpoints").iter().flat_map(|endpoint| endpoint.list("addresses"));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
    vec![
        name(object),
        object.text("addressType").into(),
        shortened(ports.collect(), UNSET).into(),
        shortened(addresses.collect(), UNSET).into(),
        age_of(object, now),
    ]
}

/// Ports are a guess from the presence of `tls`, as in kube-apiserver: the controller decides which it listens on.
fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let hosts =
        spec.list("rules").iter().map(|rule| rule.text("host").to_owned()).filter(|host| !host.is_empty());
    let ports = if spec.count("tls") > 0 { "80, 443" } else { "80" };
    vec![
        name(object),
        or_none(spec.text("ingressClassName")),
        shortened(hosts.collect(), "*").into(),
        balancers(object).into(),
        ports.into(),
        age_of(object, now),
    ]
}
