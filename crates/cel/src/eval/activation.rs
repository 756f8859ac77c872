//! [`Activation`]: the values of variables, supplied by the host.
//!
//! The evaluator reads a variable each time that the expression mentions it and keeps no copy. So a host decides what is
//! computed early, lazily or never.

use crate::error::EvalError;
use crate::value::Value;

/// The values of the variables of an expression, after cel-go's `Activation`.
///
/// Called at each read of a variable, so it should return stored values or cache what it computes. Values borrow from
/// the host's objects for `'a`, which outlives the evaluation.
///
/// ```
/// use listwatch_cel::{Activation, Env, EvalError, Str, Type, Value, Version};
///
/// /// Resolves every variable to its own name.
/// struct Names;
///
/// impl<'a> Activation<'a> for Names {
///     fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
///         Ok(Some(Value::String(Str::from(name.to_owned()))))
///     }
/// }
///
/// let env = Env::new(Version::New).with_variable("pod", Type::String);
/// let program = env.compile("pod == 'pod'").unwrap().program().unwrap();
/// assert_eq!(program.evaluate(&Names).result.unwrap().as_bool(), Some(true));
/// ```
pub trait Activation<'a> {
    /// The value of a variable, or `None` if it has none.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError>;
}

/// Variables with their values: the simplest [`Activation`]. Of two with one name the later counts.
///
/// A linear search: hosts have a handful of variables. One with many, or with lazy ones, implements [`Activation`]
/// itself.
#[derive(Clone, Debug, Default)]
pub struct Variables<'a>(Vec<(&'a str, Value<'a>)>);

impl<'a> Variables<'a> {
    /// No variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.0.push((name, value));
        self
    }
}

impl<'a> Activation<'a> for Variables<'a> {
    fn variable(&self, name: &str) -> Result<Option<Value<'a>>, EvalError> {
        Ok(self.0.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }
}
