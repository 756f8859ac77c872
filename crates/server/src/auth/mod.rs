//! Who asks, and whether they may.
//!
//! [`Authenticator`] turns a request's credentials into a [`User`]; an [`Authorizer`] says whether the user may do what
//! the [`Attributes`] describe. The authorizer here knows only administrators and what everyone may read; rules from
//! objects (roles and bindings) are another implementation of the same trait.

mod authenticate;
mod authorize;

pub(crate) use authenticate::TOKEN_PROTOCOL;
pub use authenticate::{Authenticator, Token, parse_token_file};
pub use authorize::{Administrators, Attributes, Authorizer, Decision};

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// A stable identity, if the authenticator knows one.
    pub uid: String,
    /// The groups, including `system:authenticated` or `system:unauthenticated`.
    pub groups: Vec<String>,
}

impl User {
    /// Somebody without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    /// Whether the user is in the group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
