//! Acting as somebody else, as `kubectl --as` asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use listwatch_wire::Status;

use crate::auth::{Attributes, Authorizer, Decision, User};

/// Groups, and other claims, one request may make: the headers could hold thousands, each of which costs a decision.
const MAX_GROUPS: usize = 128;

/// The user that the request wants to be, if it asks for one and `user` may.
///
/// # Errors
/// 400 for groups or a uid without a name, and whatever `forbidden` makes of the user who may not.
pub(crate) fn impersonate(
    headers: &HeaderMap,
    user: Arc<User>,
    authorizer: &dyn Authorizer,
    forbidden: impl Fn(&User) -> Status,
) -> Result<Arc<User>, Status> {
    let wanted = Wanted::read(headers);
    match (wanted.name.is_empty(), wanted.asks()) {
        (_, false) => Ok(user),
        (true, true) => Err(Status::bad_request(
            "requested to impersonate groups or a uid without impersonating a user name",
        )),
        (false, true) if wanted.allowed(&user, authorizer) => Ok(Arc::new(wanted.into_user())),
        (false, true) => Err(forbidden(&user)),
    }
}

struct Wanted {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let text =
            |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let groups = headers.get_all("impersonate-group").iter().take(MAX_GROUPS);
        let groups = groups.filter_map(|v| v.to_str().ok()).map(str::to_owned).collect();
        Self { name: text("impersonate-user"), uid: text("impersonate-uid"), groups, extra: extra(headers) }
    }

    fn asks(&self) -> bool {
        !self.name.is_empty() || !self.uid.is_empty() || !self.groups.is_empty() || !self.extra.is_empty()
    }

    fn allowed(&self, user: &User, authorizer: &dyn Authorizer) -> bool {
        let may = |group, resource, namespace, name| {
            let wanted =
                Attributes { verb: "impersonate", group, resource, namespace, name, ..Attributes::default() };
            authorizer.authorize(user, &wanted) == Decision::Allow
        };
        let name = match service_account(&self.name) {
            Some((namespace, name)) => may("", "serviceaccounts", namespace, name),
            None => may("", "users", "", &self.name),
        };
        name && self.groups.iter().all(|group| may("", "groups", "", group))
            && (self.uid.is_empty() || may("authentication.k8s.io", "uids", "", &self.uid))
            && self
                .extra
                .iter()
                .all(|(key, values)| values.iter().all(|value| may_say(user, authorizer, key, value)))
    }

    fn into_user(self) -> User {
        let mut groups = self.groups;
        if let Some((namespace, _)) = service_account(&self.name).filter(|_| groups.is_empty()) {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let own =
            if self.name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
        if !groups.iter().any(|group| group == own) {
            groups.push(own.to_owned());
        }
        User { name: self.name, uid: self.uid, groups, extra: self.extra }
    }
}

/// Whether a user may claim this about whom they act as.
fn may_say(user: &User, authorizer: &dyn Authorizer, key: &str, value: &str) -> bool {
    let wanted = Attributes {
        verb: "impersonate",
        group: "authentication.k8s.io",
        resource: "userextras",
        subresource: key,
        name: value,
        ..Attributes::default()
    };
    authorizer.authorize(user, &wanted) == Decision::Allow
}

/// What `Impersonate-Extra-<key>` headers say; keys are percent-encoded where a header's name could not hold them.
fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let named = headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().strip_prefix("impersonate-extra-")?, value.to_str().ok()?))
    });
    for (key, value) in named.take(MAX_GROUPS) {
        let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
        extra.entry(key).or_default().push(value.to_owned());
    }
    extra
}

/// Namespace and name of `system:serviceaccount:<namespace>:<name>`.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}
