//! [`Env`]: the variables, types and functions that an expression may use.
//!
//! [`Version`] reproduces kube-apiserver's compatibility rule: a new expression may only use what the previous release
//! knows, so that a rollback can still read it, while a stored one may use everything. Function tables are parsed once
//! per process and shared; an environment holds only its own variables and types, and cloning it to add one is cheap.
//! The containers of cel-go (`container` option) are not supported, as Kubernetes does not use them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use listwatch_wire::json::Text;

use crate::declarations::{Functions, Overload, read};
use crate::library;
use crate::library::regexes::PatternAllowance;
use crate::parser::ParserLimits;
use crate::types::{ObjectType, Type};

/// The set of functions, by the Kubernetes version that expressions must work with.
///
/// Called `StoredExpressions` and `NewExpressions` in Kubernetes' environment sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// New expressions: what the version before the current one understands, so that a rollback is possible.
    #[default]
    New,
    /// Expressions that were stored: everything that the current version understands.
    Stored,
}

/// Four tables, made when first used and kept for the life of the process: parsing them takes longer than compiling
/// an expression.
static NEW: LazyLock<Functions> = LazyLock::new(|| read(&library::tables(false, false)));
static STORED: LazyLock<Functions> = LazyLock::new(|| read(&library::tables(true, false)));
static NEW_MUTATION: LazyLock<Functions> = LazyLock::new(|| read(&library::tables(false, true)));
static STORED_MUTATION: LazyLock<Functions> = LazyLock::new(|| read(&library::tables(true, true)));

/// The variables, types and functions that expressions may use. Made with [`Env::new`], then extended; copying it is cheap.
///
/// Cloning copies the maps of variables and types, a handful of entries, and shares the functions.
///
/// ```
/// use listwatch_cel::{Env, Type, Version};
///
/// let base = Env::new(Version::New).with_variable("replicas", Type::Int);
/// assert!(base.compile("replicas > 0").is_ok());
/// // Types are checked when an expression is compiled, before there is a value.
/// assert!(base.compile("replicas > 'many'").is_err());
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "EnvSet")]
pub struct Env {
    functions: &'static Functions,
    version: Version,
    variables: BTreeMap<Text, Type>,
    /// By the name at run time.
    types: BTreeMap<Text, Type>,
    /// Names of objects that can be constructed with any fields, with all types below them.
    dynamic: Vec<Text>,
    /// The patterns that literals of all its expressions may have; unlimited for what was checked when it was written.
    patterns: Option<PatternAllowance>,
    /// Always the default; not a setting, because kube-apiserver's limits are part of the language.
    pub(crate) limits: ParserLimits,
}

impl Env {
    /// The base environment of Kubernetes: all libraries, no variables.
    #[must_use]
    pub fn new(version: Version) -> Self {
        let functions = match version {
            Version::New => &*NEW,
            Version::Stored => &*STORED,
        };
        let limits = ParserLimits::default();
        Self {
            functions,
            version,
            variables: BTreeMap::new(),
            types: BTreeMap::new(),
            dynamic: Vec::new(),
            patterns: None,
            limits,
        }
    }

    /// Adds the functions that mutations have beside the others: `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_mutation(mut self) -> Self {
        self.functions = match self.version {
            Version::New => &*NEW_MUTATION,
            Version::Stored => &*STORED_MUTATION,
        };
        self
    }

    /// Declares a variable. Its value comes from the [`Activation`](crate::Activation) at each evaluation.
    ///
    /// A variable that is declared twice has the later type. Names with dots, such as `authorizer.requestResource`,
    /// are one variable.
    #[must_use]
    pub fn with_variable(mut self, name: &str, ty: Type) -> Self {
        self.variables.insert(name.into(), ty);
        self
    }

    /// Declares a type that expressions can name, and construct if it is a [`Type::message`].
    #[must_use]
    pub fn with_type(mut self, ty: Type) -> Self {
        self.types.insert(ty.runtime_name().into(), ty);
        self
    }

    /// Declares a type that expressions can construct with any fields, and types below it for objects in its fields:
    /// `Object{spec: Object.spec{replicas: 3}}`.
    ///
    /// For mutating policies, whose `ApplyConfiguration` builds objects of kinds that the compiler need not know.
    #[must_use]
    pub fn with_dynamic_type(mut self, name: &str) -> Self {
        self.dynamic.push(name.into());
        self
    }

    /// Bounds the patterns in literals of all expressions that are compiled with it.
    #[must_use]
    pub fn with_patterns(mut self, allowance: PatternAllowance) -> Self {
        self.patterns = Some(allowance);
        self
    }

    /// Returns false if there are too many patterns with this one.
    pub(crate) fn admits_pattern(&self, pattern: &str) -> bool {
        self.patterns.as_ref().is_none_or(|allowance| allowance.admits(pattern))
    }

    /// The declared type of a variable; `None` if expressions may not use it.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }

    /// Declared types win over built-in ones, and those over dynamic ones.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        let declared = self.types.get(name).cloned().or_else(|| builtin_type(name));
        declared.or_else(|| self.dynamic_type(name))
    }

    /// Types below a root that the environment declares as open, such as those of `Object`.
    fn dynamic_type(&self, name: &str) -> Option<Type> {
        let below = |root: &Text| {
            name.strip_prefix(root.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.dynamic.iter().any(below).then(|| {
            let fields = BTreeMap::new();
            let object = ObjectType { name: name.into(), fields, constructible: true, open: true };
            Type::Object(Arc::new(object))
        })
    }

    /// The overloads of a function, of which the checker chooses.
    pub(crate) fn function(&self, name: &str) -> Option<(&'static str, &'static [Overload])> {
        self.functions.get_key_value(name).map(|(name, overloads)| (*name, overloads.as_slice()))
    }
}

/// Types that can be named in every environment.
fn builtin_type(name: &str) -> Option<Type> {
    const OPAQUE: [&str; 11] = [
        "kubernetes.URL",
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.NamedFormat",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    ];
    Some(match name {
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(Arc::new(Type::Dyn)),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        _ => {
            let opaque = || OPAQUE.iter().find(|known| **known == name).map(|known| Type::Opaque(known));
            return Type::scalar(name).or_else(opaque);
        }
    })
}
