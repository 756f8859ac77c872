//! Table columns of definitions, admission policies, trust bundles, certificate requests of Pods, device taints and
//! storage migrations.
//!
//! As in [`super::cluster`], headings and cells are those of kube-apiserver's printers.

use listwatch_wire::json::Value;

use super::cluster::policy;
use super::{
    AGE, CREATED, Column, KindColumns, NAME, age_of, created, labels, name, number, or_none, text, wide,
};
use crate::age;
use crate::tree::Tree;

/// Served versions, the stored one marked, in the order of their names.
pub(crate) const CUSTOM_RESOURCE_DEFINITION: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("Scope"),
        text("Versions"),
        CREATED,
        wide("Group"),
        wide("Kind"),
        wide("ShortNames"),
        Column { name: "Established", kind: "boolean", format: "", priority: 1 },
    ],
    cells: |object, _| {
        let (spec, names) = (object.at("spec"), object.at("spec").at("names"));
        let short: Vec<&str> = names.list("shortNames").iter().filter_map(Value::as_str).collect();
        vec![
            name(object),
            spec.text("scope").into(),
            served_versions(spec).into(),
            created(object),
            spec.text("group").into(),
            names.text("kind").into(),
            short.join(",").into(),
            has_condition(object, "Established").into(),
        ]
    },
};

fn served_versions(spec: &Value) -> String {
    let served = spec.list("versions").iter().filter(|version| version.flag("served"));
    let mut names: Vec<String> = served
        .map(|version| match version.flag("storage") {
            true => format!("{}(storage)", version.text("name")),
            false => version.text("name").to_owned(),
        })
        .collect();
    names.sort();
    names.join(",")
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object.at("status").list("conditions").iter();
    conditions.filter(|one| one.text("type") == kind).any(|one| one.text("status") == "True")
}

pub(crate) const MUTATING_ADMISSION_POLICY: KindColumns = KindColumns {
    columns: &[NAME, number("Mutations"), text("ParamKind"), AGE],
    cells: |object, now| policy(object, "mutations", now),
};

pub(crate) const CLUSTER_TRUST_BUNDLE: KindColumns = KindColumns {
    columns: &[NAME, text("SignerName")],
    cells: |object, _| vec![name(object), or_none(object.at("spec").text("signerName"))],
};

/// The last of the conditions decides; they exclude each other.
pub(crate) const POD_CERTIFICATE_REQUEST: KindColumns = KindColumns {
    columns: &[
        NAME,
        text("PodName"),
        text("ServiceAccountName"),
        text("NodeName"),
        text("SignerName"),
        text("State"),
        text("UnverifiedUserAnnotations"),
    ],
    cells: |object, _| {
        let spec = object.at("spec");
        let mut conditions = object.at("status").list("conditions").iter().rev().map(|one| one.text("type"));
        let state = conditions.find(|kind| ["Issued", "Denied", "Failed"].contains(kind));
        let fields = ["podName", "serviceAccountName", "nodeName", "signerName"];
        let mut cells = vec![name(object)];
        cells.extend(fields.map(|field| Value::from(spec.text(field))));
        cells.push(state.unwrap_or("Pending").into());
        cells.push(labels(spec.at("unverifiedUserAnnotations")).into());
        cells
    },
};

pub(crate) const STORAGE_VERSION_MIGRATION: KindColumns = KindColumns {
    columns: &[text("Name"), text("Resource"), text("Status")],
    cells: |object, _| {
        let resource = object.at("spec").at("resource");
        let migrated = match resource.text("group") {
            "" => resource.text("resource").to_owned(),
            group => format!("{}.{group}", resource.text("resource")),
        };
        let known = ["Running", "Failed", "Succeeded"];
        let conditions = object.at("status").list("conditions").iter().rev();
        let mut holds = conditions.filter(|one| one.text("status") == "True").map(|one| one.text("type"));
        let status = holds.find(|kind| known.contains(kind)).unwrap_or("Unknown");
        vec![name(object), migrated.into(), status.into()]
    },
};

pub(crate) const DEVICE_TAINT_RULE: KindColumns = KindColumns {
    columns: &[NAME, text("Key"), text("Value"), text("Effect"), text("TimeAdded"), AGE],
    cells: |object, now| {
        let taint = object.at("spec").at("taint");
        let added = Some(taint.text("timeAdded")).filter(|time| !time.is_empty());
        vec![
            name(object),
            taint.text("key").into(),
            taint.text("value").into(),
            taint.text("effect").into(),
            added.map(|time| age::since(time, now)).unwrap_or_default().into(),
            age_of(object, now),
        ]
    },
};

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use listwatch_wire::json::json;

    use super::*;
    use crate::by_kind;
    use crate::columns::row;

    /// Definitions were shown with their time only.
    #[test]
    fn a_definition_shows_its_scope_and_versions() {
        let version = |name: &str, served: bool, storage: bool| json!({"name": name, "served": served, "storage": storage});
        let object = json!({"metadata": {"name": "as.b.c", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"group": "b.c", "scope": "Cluster", "names": {"kind": "A", "shortNames": ["x", "y"]},
                "versions": [version("v1", true, true), version("v1beta1", false, false), version("v1alpha1", true, false)]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]}});
        let kind = by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        let cells = row(kind, &object, Timestamp::UNIX_EPOCH);
        let expected = json!([
            "as.b.c",
            "Cluster",
            "v1(storage),v1alpha1",
            "2026-01-01T00:00:00Z",
            "b.c",
            "A",
            "x,y",
            true
        ]);
        assert_eq!(Value::from(cells), expected);
    }
}
