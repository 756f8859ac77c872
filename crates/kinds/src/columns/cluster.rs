//! Table columns of configuration, RBAC, events, admission, flow control and API extension.
//!
//! Names, order and priorities of columns, and the wording of cells, are those of kube-apiserver's printers
//! (`pkg/printers/internalversion`), which clients parse. Columns declared as text stay text even where they hold
//! numbers. An absent value is shown as `<none>`, `<unset>` or nothing, differently per column; copy it from there
//! rather than unify it.

use jiff::Timestamp;
use listwatch_wire::json::Value;

use super::{
    AGE, CREATED, Column, KindColumns, NAME, NONE, UNSET, age_of, count_at, created, name, number, or_none,
    text, wide,
};
use crate::age;
use crate::tree::Tree;

/// `Data` is the number of keys, of text and of bytes together.
pub(crate) const CONFIG_MAP: KindColumns = KindColumns {
    columns: &[NAME, text("Data"), AGE],
    cells: |object, now| {
        vec![name(object), (object.count("data") + object.count("binaryData")).into(), age_of(object, now)]
    },
};

/// Never any value, and not its size either.
pub(crate) const SECRET: KindColumns = KindColumns {
    columns: &[NAME, text("Type"), text("Data"), AGE],
    cells: |object, now| {
        vec![name(object), object.text("type").into(), object.count("data").into(), age_of(object, now)]
    },
};

pub(crate) const SERVICE_ACCOUNT: KindColumns =
    KindColumns { columns: &[NAME, AGE], cells: |object, now| vec![name(object), age_of(object, now)] };

/// `Active` or `Terminating`.
pub(crate) const NAMESPACE: KindColumns = KindColumns {
    columns: &[NAME, text("Status"), AGE],
    cells: |object, now| vec![name(object), object.at("status").text("phase").into(), age_of(object, now)],
};

pub(crate) const EVENT: KindColumns = KindColumns {
    columns: &[
        text("Last Seen"),
        text("Type"),
        text("Reason"),
        text("Object"),
        wide("Subobject"),
        wide("Source"),
        text("Message"),
        wide("First Seen"),
        wide("Count"),
        Column { name: "Name", kind: "string", format: "name", priority: 1 },
    ],
    cells: event,
};

/// Used and hard amounts, apart by what is requested and what limits.
pub(crate) const RESOURCE_QUOTA: KindColumns =
    KindColumns { columns: &[NAME, text("Request"), text("Limit"), AGE], cells: quota };

/// There is nothing behind it: components are not asked, so the status is always unknown.
pub(crate) const COMPONENT_STATUS: KindColumns = KindColumns {
    columns: &[NAME, text("Status"), text("Message"), text("Error")],
    cells: |object, _| vec![name(object), "Unknown".into(), "".into(), "".into()],
};

/// The time of creation and no age, as kube-apiserver has it for Roles and ClusterRoles.
pub(crate) const ROLE: KindColumns =
    KindColumns { columns: &[NAME, CREATED], cells: |object, _| vec![name(object), created(object)] };

/// Subjects by kind, with `-o wide`.
pub(crate) const ROLE_BINDING: KindColumns = KindColumns {
    columns: &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")],
    cells: binding,
};

/// The holder, as it named itself.
pub(crate) const LEASE: KindColumns = KindColumns {
    columns: &[NAME, text("Holder"), AGE],
    cells: |object, now| {
        vec![name(object), object.at("spec").text("holderIdentity").into(), age_of(object, now)]
    },
};

pub(crate) const PRIORITY_CLASS: KindColumns = KindColumns {
    columns: &[
        NAME,
        number("Value"),
        Column { name: "Global-Default", kind: "boolean", format: "", priority: 0 },
        AGE,
        text("PreemptionPolicy"),
    ],
    cells: |object, now| {
        let value = count_at(object, &["value"]);
        vec![
            name(object),
            value,
            object.flag("globalDefault").into(),
            age_of(object, now),
            object.text("preemptionPolicy").into(),
        ]
    },
};

/// The handler is the name in the configuration of the container runtime.
pub(crate) const RUNTIME_CLASS: KindColumns = KindColumns {
    columns: &[NAME, text("Handler"), AGE],
    cells: |object, now| vec![name(object), object.text("handler").into(), age_of(object, now)],
};

pub(crate) const CERTIFICATE_SIGNING_REQUEST: KindColumns = KindColumns {
    columns: &[
        NAME,
        AGE,
        text("SignerName"),
        text("Requestor"),
        text("RequestedDuration"),
        text("Condition"),
    ],
    cells: certificate_request,
};

pub(crate) const MUTATING_WEBHOOK_CONFIGURATION: KindColumns = KindColumns {
    columns: &[NAME, number("Webhooks"), AGE],
    cells: |object, now| vec![name(object), object.count("webhooks").into(), age_of(object, now)],
};

/// The cells of an admission policy: the number of its rules, and the kind of its parameters.
pub(super) fn policy(object: &Value, rules: &str, now: Timestamp) -> Vec<Value> {
    let (spec, parameters) = (object.at("spec"), object.at("spec").at("paramKind"));
    let text = match parameters.is_null() {
        true => UNSET.to_owned(),
        false => format!("{}/{}", parameters.text("apiVersion"), parameters.text("kind")),
    };
    vec![name(object), spec.count(rules).into(), text.into(), age_of(object, now)]
}

pub(crate) const VALIDATING_ADMISSION_POLICY: KindColumns = KindColumns {
    columns: &[NAME, number("Validations"), text("ParamKind"), AGE],
    cells: |object, now| policy(object, "validations", now),
};

pub(crate) const VALIDATING_ADMISSION_POLICY_BINDING: KindColumns = KindColumns {
    columns: &[NAME, text("PolicyName"), text("ParamRef"), AGE],
    cells: |object, now| {
        let spec = object.at("spec");
        let parameter = parameter_of(spec.at("paramRef"));
        vec![name(object), spec.text("policyName").into(), parameter.into(), age_of(object, now)]
    },
};

/// The parameters of a binding: one by its name, or a selector as Go prints it.
fn parameter_of(reference: &Value) -> String {
    if !reference.text("name").is_empty() {
        return format!("{}/{}", or_star(reference.text("namespace")), reference.text("name"));
    }
    let selector = reference.at("selector");
    if selector.is_null() {
        return UNSET.to_owned();
    }
    let labels = selector.entries("matchLabels").map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        format!("{key}: {value},")
    });
    let requirements = selector.list("matchExpressions").iter().map(|requirement| {
        let values: Vec<_> = requirement.list("values").iter().filter_map(Value::as_str).collect();
        let (key, operator) = (requirement.text("key"), requirement.text("operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        requirements.collect::<String>()
    )
}

pub(crate) const FLOW_SCHEMA: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("PriorityLevel"),
        text("MatchingPrecedence"),
        text("DistinguisherMethod"),
        AGE,
        text("MissingPL"),
    ],
    cells: flow_schema,
};

pub(crate) const PRIORITY_LEVEL_CONFIGURATION: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Type"),
        text("NominalConcurrencyShares"),
        text("Queues"),
        text("HandSize"),
        text("QueueLengthLimit"),
        AGE,
    ],
    cells: priority_level,
};

pub(crate) const API_SERVICE: KindColumns =
    KindColumns { columns: &[NAME, text("Service"), text("Available"), AGE], cells: api_service };

/// Nothing given means everything.
fn or_star(text: &str) -> &str {
    if text.is_empty() { "*" } else { text }
}

/// Times are tried in the order in which newer events replace older fields. A series counts by its last observation.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    // Both kinds of Event are shown alike; the newer one has other names for the older one's fields.
    let involved =
        if object.has("involvedObject") { object.at("involvedObject") } else { object.at("regarding") };
    let first_of = |keys: &[&str]| {
        keys.iter().map(|key| object.text(key)).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let first = first_of(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]);
    let series = object.has("series").then(|| object.at("series"));
    let mut last = match series {
        Some(series) => series.text("lastObservedTime").to_owned(),
        None => first_of(&["lastTimestamp", "deprecatedLastTimestamp"]),
    };
    if last.is_empty() && series.is_none() {
        last.clone_from(&first);
    }
    let mut target = involved.text("kind").to_lowercase();
    if !involved.text("name").is_empty() {
        target = format!("{target}/{}", involved.text("name"));
    }
    vec![
        age::since(&last, now).into(),
        object.text("type").into(),
        object.text("reason").into(),
        target.into(),
        involved.text("fieldPath").into(),
        source(object).into(),
        first_of(&["message", "note"]).trim().into(),
        age::since(&first, now).into(),
        occurrences(object).into(),
        name(object),
    ]
}

/// The number of times an Event occurred: of its series, or as counted by the older fields.
fn occurrences(event: &Value) -> i64 {
    if event.has("series") {
        return event.at("series").int("count").unwrap_or(0);
    }
    let counts = [event.int("count"), event.int("deprecatedCount")];
    counts.into_iter().flatten().find(|count| *count != 0).unwrap_or(1)
}

/// Component and host. Events of `events.k8s.io` name a controller and its instance.
fn source(object: &Value) -> String {
    let source = if object.has("source") { object.at("source") } else { object.at("deprecatedSource") };
    let component =
        [source.text("component"), object.text("reportingComponent"), object.text("reportingController")];
    let component = component.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let instance = [source.text("host"), object.text("reportingInstance")];
    match instance.into_iter().find(|text| !text.is_empty()) {
        None => component.to_owned(),
        Some(instance) => format!("{component}, {instance}"),
    }
}

/// Every limited resource with its use, those that begin with `limits` in the second column. Sorted as stored.
fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = object.at("status");
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status.entries("hard") {
        let used = status.at("used").text(resource);
        let text = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits") { limits.push(text) } else { requests.push(text) }
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age_of(object, now)]
}

/// Subjects by kind. A service account is shown with its namespace, which may differ from the binding's.
fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = object.at("roleRef");
    let subjects = |kind: &str| -> Value {
        let of_kind = object.list("subjects").iter().filter(|subject| subject.text("kind") == kind);
        let names = of_kind.map(|subject| match (kind, subject.text("namespace")) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", subject.text("name")),
            _ => subject.text("name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ").into()
    };
    vec![
        name(object),
        format!("{}/{}", role.text("kind"), role.text("name")).into(),
        age_of(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// Denied wins over approved. `Issued` is added once a certificate is there.
fn certificate_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let has = |kind: &str| status.list("conditions").iter().any(|condition| condition.text("type") == kind);
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !status.text("certificate").is_empty() {
        state.push_str(",Issued");
    }
    let duration = spec.int("expirationSeconds").map_or(NONE.to_owned(), age::human_duration);
    vec![
        name(object),
        age_of(object, now),
        or_none(spec.text("signerName")),
        spec.text("username").into(),
        duration.into(),
        state.into(),
    ]
}

/// `MissingPL` is the condition `Dangling`: `?` until a controller has looked at it.
fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let dangling = status.list("conditions").iter().find(|condition| condition.text("type") == "Dangling");
    vec![
        name(object),
        or_none(spec.at("priorityLevelConfiguration").text("name")),
        count_at(object, &["spec", "matchingPrecedence"]),
        or_none(spec.at("distinguisherMethod").text("type")),
        age_of(object, now),
        dangling.map_or("?", |condition| condition.text("status")).into(),
    ]
}

/// Queuing columns are empty for levels without queues.
fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, limited) = (object.at("spec"), object.at("spec").at("limited"));
    let queuing = limited.at("limitResponse").at("queuing");
    let shown = |owner: &Value, key: &str| owner.int(key).map_or(Value::from(NONE), Value::from);
    vec![
        name(object),
        spec.text("type").into(),
        shown(limited, "nominalConcurrencyShares"),
        shown(queuing, "queues"),
        shown(queuing, "handSize"),
        shown(queuing, "queueLengthLimit"),
        age_of(object, now),
    ]
}

/// `Local` for groups that this server serves itself.
fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = object.at("spec").at("service");
    let backend = if service.is_null() {
        "Local".to_owned()
    } else {
        format!("{}/{}", service.text("namespace"), service.text("name"))
    };
    let available =
        object.at("status").list("conditions").iter().find(|condition| condition.text("type") == "Available");
    let available = match available {
        Some(condition) if condition.text("status") == "True" => "True".to_owned(),
        Some(condition) => format!("{} ({})", condition.text("status"), condition.text("reason")),
        None => "Unknown".to_owned(),
    };
    vec![name(object), backend.into(), available.into(), age_of(object, now)]
}
