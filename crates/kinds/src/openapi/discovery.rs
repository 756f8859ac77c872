//! OpenAPI paths that are not resources: discovery, the version, and the issuer documents of service account tokens.
//!
//! They are part of the documents because generated clients have functions for them (`getCodeVersion`,
//! `getAPIVersions`), named by `operationId`. Paths end in a slash here although the server answers without one, as in
//! kube-apiserver.

use super::operation::{OpenApiOperation, PathItem, Types, operation_id, tag};

const TYPES: Types = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const JSON: Types = &["application/json"];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// A path that only has GET, without parameters: discovery documents and the version.
fn get(path: String, id: String, tag: String, description: &str, answer: Option<String>) -> PathItem {
    let operation = OpenApiOperation {
        method: "get",
        action: "",
        id,
        tag,
        description: description.to_owned(),
        parameters: Vec::new(),
        body: None,
        consumes: TYPES,
        produces: TYPES,
        codes: &[200],
        answer,
        gvk: None,
    };
    PathItem { path, operations: vec![operation] }
}

fn meta(kind: &str) -> Option<String> {
    Some(format!("{META}{kind}"))
}

/// `/api/`
pub(super) fn core() -> PathItem {
    let id = "getCoreAPIVersions".to_owned();
    get("/api/".to_owned(), id, "core".to_owned(), "get available API versions", meta("APIVersions"))
}

/// `/apis/`
pub(super) fn groups() -> PathItem {
    let id = "getAPIVersions".to_owned();
    get("/apis/".to_owned(), id, "apis".to_owned(), "get available API versions", meta("APIGroupList"))
}

/// `/apis/GROUP/`
pub(super) fn group(group: &str) -> PathItem {
    let id = operation_id("get", group, "", "APIGroup");
    get(format!("/apis/{group}/"), id, tag(group, None), "get information of a group", meta("APIGroup"))
}

/// `/apis/GROUP/VERSION/`
pub(super) fn group_version(group: &str, version: &str) -> PathItem {
    let id = operation_id("get", group, version, "APIResources");
    let path = format!("{}/", super::paths::root(group, version));
    get(path, id, tag(group, Some(version)), "get available resources", meta("APIResourceList"))
}

/// `/version/`
pub(super) fn version() -> PathItem {
    let answer = Some("io.k8s.apimachinery.pkg.version.Info".to_owned());
    let id = "getCodeVersion".to_owned();
    let mut path = get(
        "/version/".to_owned(),
        id,
        "version".to_owned(),
        "get the version information for this server",
        answer,
    );
    for operation in &mut path.operations {
        (operation.consumes, operation.produces) = (JSON, JSON);
    }
    path
}

/// `/.well-known/openid-configuration/`
pub(super) fn openid_configuration() -> PathItem {
    let description =
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'";
    let id = "getServiceAccountIssuerOpenIDConfiguration".to_owned();
    let mut path =
        get("/.well-known/openid-configuration/".to_owned(), id, "WellKnown".to_owned(), description, None);
    for operation in &mut path.operations {
        (operation.consumes, operation.produces) = (&[], JSON);
    }
    path
}

/// `/openid/v1/jwks/`
pub(super) fn openid_keys() -> PathItem {
    let description =
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)";
    let id = "getServiceAccountIssuerOpenIDKeyset".to_owned();
    let mut path = get("/openid/v1/jwks/".to_owned(), id, "openid".to_owned(), description, None);
    for operation in &mut path.operations {
        (operation.consumes, operation.produces) = (&[], &["application/jwk-set+json"]);
    }
    path
}
