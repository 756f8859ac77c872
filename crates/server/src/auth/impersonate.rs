//! Acting as somebody else, as `kubectl --as` asks for.

use std::sync::Arc;

use http::HeaderMap;
use listwatch_wire::Status;

use super::{Attributes, Authorizer, Decision, User};

/// Groups one request may ask for: the headers could hold thousands, each of which costs a decision.
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
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let text =
            |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let groups = headers.get_all("impersonate-group").iter().take(MAX_GROUPS);
        let groups = groups.filter_map(|v| v.to_str().ok()).map(str::to_owned).collect();
        Self { name: text("impersonate-user"), uid: text("impersonate-uid"), groups }
    }

    fn asks(&self) -> bool {
        !self.name.is_empty() || !self.uid.is_empty() || !self.groups.is_empty()
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
        User { name: self.name, uid: self.uid, groups }
    }
}

/// Namespace and name of `system:serviceaccount:<namespace>:<name>`.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}
