//! The Common Expression Language (CEL) in the dialect of kube-apiserver.
//!
//! Custom resources, admission policies and match conditions are written in it. This crate has the parser, the type checker,
//! the evaluator, the functions of CEL's and of Kubernetes' libraries, costs at run time and their estimates before. Its use
//! for API objects (which variables exist, how a failed rule is reported) is up to the host.
//!
//! # Use
//!
//! An [`Env`] lists the variables and types that an expression may use; [`Env::compile`] checks it; [`Expression::program`] makes
//! a [`Program`] that is evaluated as often as needed, over values that are read from the JSON tree lazily.
//!
//! ```
//! use listwatch_cel::{Budget, Env, Type, Value, Variables, Version};
//! use listwatch_wire::json::json;
//!
//! let env = Env::new(Version::New).with_variable("object", Type::Dyn);
//! let expression = env.compile("object.spec.replicas <= 5").unwrap();
//! assert!(matches!(expression.output_type(), Type::Bool));
//! let program = expression.program().unwrap();
//!
//! let object = json!({"spec": {"replicas": 7}});
//! let variables = Variables::new().with("object", Value::from_json(&object));
//! let outcome = program.evaluate(&variables);
//! assert_eq!(outcome.result.unwrap().as_bool(), Some(false));
//! assert_eq!(outcome.cost, 4);
//!
//! // Several expressions share a budget.
//! let mut budget = Budget::new(10);
//! assert!(budget.spend(outcome.cost) && budget.spend(4) && !budget.spend(4));
//!
//! // Errors name their places.
//! let issues = env.compile("objekt.spec").unwrap_err();
//! assert!(issues.to_string().starts_with("ERROR: <input>:1:1: undeclared reference to 'objekt' (in container '')"));
//! ```
//!
//! Types with fields are declared with [`Type::object`]; those that expressions construct (`JSONPatch{op: "add"}`) with
//! [`Type::message`] and [`Env::with_type`]; they come out as [`Value::Struct`], and as JSON with [`to_json`]. Schemas of
//! custom resources become types with [`Decl::from_schema`]. Lazily computed variables are a [`HostObject`]. The variable
//! `authorizer` is [`Value::authorizer`] over an [`ExpressionAuthorizer`] of the host.
//!
//! # Bounds
//!
//! No expression overflows the stack: its length, depth and size are bounded ([`ParserLimits`]), trees are kept in vectors.
//! Evaluations are bounded in time and memory: by cost, as kube-apiserver counts it, and by the work that is actually done
//! ([`Meter`]).
//!
//! # Reading order
//!
//! `parser` makes an `ast`, `checker` gives each node its type, `validators` look at literals, `cost::estimate`
//! bounds what it can cost; `plan` turns the tree into operations, `eval` runs them over `value`s with the functions
//! of `library`, and a [`Meter`] ends what runs too long. Each step follows cel-go, whose results, messages and
//! numbers users see; where this crate differs, the head of the module says so. Protobuf messages, containers and
//! extensions that Kubernetes does not enable are left out.

mod ast;
mod budget;
mod checker;
mod cost;
mod declarations;
mod env;
mod error;
mod eval;
mod issues;
mod library;
mod meter;
mod parser;
mod plan;
mod program;
mod schema;
mod types;
mod validators;
mod value;

pub use budget::{Budget, MATCH_CONDITIONS_BUDGET, OBJECT_BUDGET};
pub use cost::estimate::CostRange;
pub use env::{Env, Version};
pub use error::{COST_LIMIT_EXCEEDED, EvalError};
pub use eval::{Activation, Variables};
pub use issues::{Issue, Issues};
pub use library::authz::{AccessCheck, AccessDecision, AccessRequest, ExpressionAuthorizer};
pub use library::cidr::Cidr;
pub use library::format::Format;
pub use library::quantity::QuantityValue;
pub use library::regexes::{CompiledPattern, PatternAllowance, pattern};
pub use library::semver::Semver;
pub use library::time::{Timestamp, parse_duration};
pub use library::url::Url;
pub use meter::Meter;
pub use parser::ParserLimits;
pub use program::{EvalOutcome, Expression, PER_CALL_LIMIT, Program};
pub use schema::{Decl, MAX_REQUEST_BYTES, escape, is_identifier};
pub use types::{ObjectType, Type};
pub use value::{HostObject, ListValue, MapValue, OwnedMap, Str, StructValue, Value, to_json};
