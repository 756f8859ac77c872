//! OpenID discovery of service account tokens: the configuration document and the public keys (JWKS).
//!
//! Cloud providers and other clusters verify tokens of this server with them. All keys that verify are published,
//! former ones too, so that rotation does not break tokens in use. Responses may be cached for an hour. Permission is
//! by RBAC (`system:service-account-issuer-discovery`). The keys are [`crate::auth::ServiceAccounts`]'s.

use http::StatusCode;
use http::header::{CACHE_CONTROL, HOST, HeaderValue};
use listwatch_wire::Status;
use listwatch_wire::json::{self, json};

use crate::api::Api;
use crate::auth::ISSUER;
use crate::http::body::Response;
use crate::http::request::Request;
use crate::request::negotiate;
use crate::respond;

/// The path of the discovery document.
pub(crate) const CONFIGURATION: &str = "/.well-known/openid-configuration";
/// The path of the key set, as in kube-apiserver.
pub(crate) const KEYS: &str = "/openid/v1/jwks";

const KEY_SET: &str = "application/jwk-set+json";

/// Returns the discovery document; `None` if the server issues no tokens. The key set is named at the host that the
/// client used.
///
/// # Errors
/// 406 for a client that does not take JSON.
pub(crate) fn configuration(api: &Api, request: &Request) -> Result<Option<Response>, Status> {
    if api.authenticator.service_accounts().is_none() {
        return Ok(None);
    }
    negotiate::routed(request, &["application/json"])?;
    let host = request.header(HOST).unwrap_or("kubernetes.default.svc");
    let document = json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{host}{KEYS}"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    Ok(Some(public(respond::full(StatusCode::OK, "application/json", json::encode(&document).into()))))
}

/// The key that tokens are signed with.
///
/// `None` if the server issues no tokens. Keys are in the order of signing key first, then former ones.
///
/// # Errors
/// 406 for a client that does not take the only form there is.
pub(crate) fn keys(api: &Api, request: &Request) -> Result<Option<Response>, Status> {
    let Some(accounts) = api.authenticator.service_accounts() else { return Ok(None) };
    negotiate::routed(request, &[KEY_SET])?;
    let document = json!({"keys": accounts.public_keys()});
    Ok(Some(public(respond::full(StatusCode::OK, KEY_SET, json::encode(&document).into()))))
}

/// Keys change rarely, and are not secret.
fn public(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}
