//! [`Mode`]: the permissions that allow impersonation.
//!
//! All but the last need two permissions: to act as that user (`impersonate:<mode>`) and to do so for this request
//! (`impersonate-on:<mode>:<verb>`). The last is the original verb `impersonate`, which covers every request.

use listwatch_wire::Status;
use listwatch_wire::names::{label_errors, subdomain_errors};

use crate::auth::impersonate::Impersonation;
use crate::auth::{Authorizer, AuthorizerAttributes, MASTERS, NODE_NAME, User, quoted};

const AUTHENTICATION: &str = "authentication.k8s.io";
/// Number of groups or extra values from which a permission for all of them (`*`) is tried before single ones.
const MANY: usize = 4;

/// A way in which impersonation can be permitted, each with verbs of its own. Names are kube-apiserver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A service account as the node its Pod runs on.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    /// A service account.
    ServiceAccount,
    /// Any other user.
    UserInfo,
    /// Any user, for any request.
    Legacy,
}

impl Mode {
    /// In the order in which they are tried: the narrowest permission first.
    pub(super) const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    /// The user to act as, or why this mode does not allow it; `None` if it is not for such users.
    pub(super) fn check(
        self,
        wanted: &Impersonation,
        requester: &User,
        authorizer: &dyn Authorizer,
        request: &AuthorizerAttributes<'_>,
    ) -> Option<Result<User, Status>> {
        if !self.fits(wanted, requester) {
            return None;
        }
        let check = ModeCheck { mode: self, wanted, requester, authorizer };
        Some(check.on_request(request).and_then(|()| check.all()).map(|()| self.user(wanted)))
    }

    /// Node and service account modes are for a bare name: with groups, uid or extra values of its own the user would
    /// be another one than that node or account.
    fn fits(self, wanted: &Impersonation, requester: &User) -> bool {
        let (node, account) = (node_name(&wanted.name), service_account(&wanted.name));
        match self {
            Self::AssociatedNode => wanted.is_name_only() && node.is_some() && runs_on(requester) == node,
            Self::ArbitraryNode => wanted.is_name_only() && node.is_some(),
            Self::ServiceAccount => wanted.is_name_only() && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    /// The name in verbs and audit annotations.
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// The verb that the impersonating user needs. Each constrained mode has its own, so that they can be granted
    /// separately.
    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    /// The legacy verb allows everything that the other user may do.
    fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    /// The group that users and groups are resources of.
    fn group(self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    /// Groups decide between `system:authenticated` and `system:unauthenticated`, one of which every user has. Asking
    /// for `system:unauthenticated` explicitly is possible, and then nothing is added.
    fn user(self, wanted: &Impersonation) -> User {
        let Impersonation { name, uid, extra, .. } = wanted.clone();
        let mut groups = self.groups(wanted);
        let own = match name.as_str() {
            "system:anonymous" => Some("system:unauthenticated"),
            _ if groups.iter().any(|group| group == "system:unauthenticated") => None,
            _ => Some("system:authenticated"),
        };
        if let Some(own) = own.filter(|own| !groups.iter().any(|group| group == own)) {
            groups.push(own.to_owned());
        }
        User { name, uid, groups, extra }
    }

    /// Nodes and service accounts have their usual groups unless others are requested.
    fn groups(self, wanted: &Impersonation) -> Vec<String> {
        if !wanted.groups.is_empty() {
            return wanted.groups.clone();
        }
        if let Some((namespace, _)) = service_account(&wanted.name) {
            return vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        if self.is_constrained() && node_name(&wanted.name).is_some() {
            return vec!["system:nodes".to_owned()];
        }
        Vec::new()
    }
}

/// The rights that one mode asks for.
/// Borrowed for one request; the order of its checks decides which 403 the user reads.
struct ModeCheck<'a> {
    mode: Mode,
    wanted: &'a Impersonation,
    requester: &'a User,
    authorizer: &'a dyn Authorizer,
}

impl ModeCheck<'_> {
    /// The second half of a constrained mode: the verb of the request itself, on the resource and name of the
    /// request.
    fn on_request(&self, request: &AuthorizerAttributes<'_>) -> Result<(), Status> {
        if !self.mode.is_constrained() {
            return Ok(());
        }
        let verb = format!("impersonate-on:{}:{}", self.mode.name(), request.verb);
        self.authorizer.require_decided(self.requester, &AuthorizerAttributes { verb: &verb, ..*request })
    }

    /// The first half: one authorization per claim. The name comes first, because its refusal is the one that people
    /// understand.
    fn all(&self) -> Result<(), Status> {
        let verb = self.mode.verb();
        self.name(&verb)?;
        if !self.wanted.uid.is_empty() {
            self.may(&AuthorizerAttributes {
                name: &self.wanted.uid,
                ..claim(&verb, AUTHENTICATION, "uids")
            })?;
        }
        self.groups(&verb)?;
        self.extra(&verb)
    }

    /// Authorizes the impersonating user.
    fn may(&self, attributes: &AuthorizerAttributes<'_>) -> Result<(), Status> {
        self.authorizer.require_decided(self.requester, attributes)
    }

    fn refuse(&self, attributes: &AuthorizerAttributes<'_>, why: &str) -> Status {
        attributes.refusal(self.requester, why)
    }

    /// Checks the permission to take a user name. Names of service accounts and nodes are checked as such, so that a
    /// permission on `users` does not include them.
    fn name(&self, verb: &str) -> Result<(), Status> {
        let name = self.wanted.name.as_str();
        let group = self.mode.group();
        if let Some((namespace, name)) = service_account(name) {
            return self.may(&AuthorizerAttributes {
                namespace,
                name,
                ..claim(verb, group, "serviceaccounts")
            });
        }
        match node_name(name).filter(|_| self.mode.is_constrained()) {
            // The name of the node has been compared with that in the requester's token.
            Some(_) if self.mode == Mode::AssociatedNode => {
                self.may(&AuthorizerAttributes { name: "*", ..claim(verb, group, "nodes") })
            }
            Some(node) => self.may(&AuthorizerAttributes { name: node, ..claim(verb, group, "nodes") }),
            None => self.may(&AuthorizerAttributes { name, ..claim(verb, group, "users") }),
        }
    }

    /// Constrained modes never give `system:masters`: that group bypasses authorization, so the permission for it
    /// would be permission for everything.
    fn groups(&self, verb: &str) -> Result<(), Status> {
        let groups = &self.wanted.groups;
        let right = claim(verb, self.mode.group(), "groups");
        if self.mode.is_constrained() {
            if groups.iter().any(String::is_empty) {
                return Err(self.refuse(&right, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let right = AuthorizerAttributes { name: MASTERS, ..right };
                return Err(self.refuse(&right, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.may(&AuthorizerAttributes { name: "*", ..right }).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.may(&AuthorizerAttributes { name: group, ..right }))
    }

    /// The key is the subresource and the value the name of `userextras`, so that a rule can allow single values.
    fn extra(&self, verb: &str) -> Result<(), Status> {
        let extra = &self.wanted.extra;
        let right = claim(verb, AUTHENTICATION, "userextras");
        if self.mode.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| extra_error(key, values)) {
                return Err(self.refuse(&right, &why));
            }
            let many = extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.may(&AuthorizerAttributes { subresource: "*", name: "*", ..right }).is_ok() {
                return Ok(());
            }
        }
        let claims = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        claims.into_iter().try_for_each(|(key, value)| {
            self.may(&AuthorizerAttributes { subresource: key, name: value, ..right })
        })
    }
}

/// The virtual resource that a claim is authorized as. No such resource is served: it exists in rules only.
fn claim<'a>(verb: &'a str, group: &'a str, resource: &'a str) -> AuthorizerAttributes<'a> {
    AuthorizerAttributes { verb, group, version: "v1", resource, ..AuthorizerAttributes::default() }
}

/// Returns the reason why an extra key or value is refused in the constrained modes, which accept well-formed ones
/// only.
fn extra_error(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let well_formed = key.split_once('/').is_some_and(|(domain, path)| {
        subdomain_errors(domain).is_empty() && !path.is_empty() && path.chars().all(is_path)
    });
    if !well_formed || key.chars().any(char::is_uppercase) {
        let shown = quoted(&[key.to_owned()]);
        return Some(format!("impersonating an invalid key in extra is not allowed: {shown}"));
    }
    values
        .iter()
        .any(String::is_empty)
        .then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// The characters of a path segment that need no escape, after RFC 3986.
fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c)
}

/// Namespace and name of `system:serviceaccount:<namespace>:<name>`, if these can be names.
pub(in crate::auth) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (label_errors(namespace).is_empty() && subdomain_errors(name).is_empty()).then_some((namespace, name))
}

/// The name of the node that `system:node:<name>` is.
fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| subdomain_errors(name).is_empty())
}

/// The node that the Pod of a service account runs on, if its token has it.
fn runs_on(requester: &User) -> Option<&str> {
    service_account(&requester.name)?;
    match requester.extra.get(NODE_NAME).map(Vec::as_slice) {
        Some([node]) => Some(node),
        _ => None,
    }
}
