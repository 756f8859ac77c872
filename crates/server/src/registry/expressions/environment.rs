//! The CEL environments of admission policies and match conditions: which variables their expressions have, of which
//! types.
//!
//! Types follow kube-apiserver, so that an expression compiles here if and only if it does there; `object` and
//! `params` are dynamic because a policy may match many kinds. [`Declared`] exists because not every expression has
//! every variable: match conditions of webhooks have no parameters, messages no authorizer. The values are given in
//! `admission/policy/scope.rs`.

use std::sync::LazyLock;

use listwatch_cel::{Env, Type, Version};

/// The variables that only some expressions have.
///
/// All false for the match conditions that have the fewest variables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) params: bool,
    pub(crate) authorizer: bool,
}

/// Returns the environment of an expression.
///
/// Cheap: the libraries are shared, only the variables are its own.
pub(crate) fn environment(version: Version, declared: Declared) -> Env {
    let mut env = Env::new(version)
        .with_variable("object", Type::Dyn)
        .with_variable("oldObject", Type::Dyn)
        .with_variable("request", REQUEST.clone())
        .with_variable("namespaceObject", NAMESPACE.clone());
    if declared.params {
        env = env.with_variable("params", Type::Dyn);
    }
    if declared.authorizer {
        env = env
            .with_variable("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"))
            .with_variable(
                "authorizer.requestResource",
                Type::Opaque("kubernetes.authorization.ResourceCheck"),
            );
    }
    env
}

fn object(name: &str, fields: &[(&str, Type)]) -> Type {
    Type::object(name, fields.iter().map(|(field, ty)| ((*field).into(), ty.clone())))
}

fn texts() -> Type {
    Type::map(Type::String, Type::String)
}

/// The variable `request`.
static REQUEST: LazyLock<Type> = LazyLock::new(|| {
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", Type::String), ("version", Type::String), ("kind", Type::String)],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", Type::String), ("version", Type::String), ("resource", Type::String)],
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", Type::list(Type::String)),
            ("extra", Type::map(Type::String, Type::list(Type::String))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", Type::String),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
});

/// The variable `namespaceObject`: the parts of a namespace that expressions may see.
static NAMESPACE: LazyLock<Type> = LazyLock::new(|| {
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", Type::list(Type::String)),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", Type::list(Type::String))]);
    let status = object("kubernetes.NamespaceStatus", &[("phase", Type::String)]);
    object("kubernetes.Namespace", &[("metadata", metadata), ("spec", spec), ("status", status)])
});

/// The type of JSON patch operations that mutations construct.
pub(crate) static JSON_PATCH: LazyLock<Type> = LazyLock::new(|| {
    let fields = [("op", Type::String), ("path", Type::String), ("from", Type::String), ("value", Type::Dyn)];
    Type::message("JSONPatch", fields.into_iter().map(|(name, ty)| (name.into(), ty)))
});
