//! [`Expression`] and [`Program`]: the two results of compilation.
//!
//! An expression is checked and can be asked for its type, its variables and its estimated cost; a program can be
//! evaluated. Hosts compile when a definition or policy is stored and keep the program. A program holds no state
//! between evaluations and can be shared by threads. One evaluation may cost [`PER_CALL_LIMIT`]; sums over several are
//! a [`Budget`](crate::Budget).

use std::fmt;

use crate::checker::{self, Checked};
use crate::cost::estimate::{self, CostRange};
use crate::env::Env;
use crate::error::EvalError;
use crate::eval::{self, Activation};
use crate::issues::Issues;
use crate::meter::Meter;
use crate::parser;
use crate::plan::{self, EvalPlan};
use crate::schema::Decl;
use crate::types::Type;
use crate::validators;
use crate::value::Value;

/// The limit of the cost of one evaluation.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// An expression that was parsed and checked. It is needed to estimate costs and to make a [`Program`], and can then be
/// dropped.
///
/// Holds the tree with all types, some hundred bytes per node; hosts that keep many expressions keep the program
/// only.
#[derive(Debug)]
pub struct Expression {
    checked: Checked,
}

impl Env {
    /// Parses and checks an expression.
    ///
    /// The time is linear in the expression for practical ones; limits of the parser and of types bound the others to
    /// milliseconds.
    ///
    /// # Errors
    /// All errors of the expression, with positions.
    pub fn compile(&self, source: &str) -> Result<Expression, Issues> {
        let ast = parser::parse(source, &self.limits)?;
        let checked = checker::check(ast, self, source)?;
        validators::validate(&checked, self, source)?;
        Ok(Expression { checked })
    }
}

impl Expression {
    /// The type of its value, which a host compares with what it needs: `bool` for a rule, `string` for a message.
    #[must_use]
    pub fn output_type(&self) -> &Type {
        self.checked.ty(self.checked.ast.root)
    }

    /// Returns true if the expression reads a variable, so that a host can skip computing unused ones.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.variables.iter().any(|known| known == variable)
    }

    /// The least and the most that it can cost, if every variable is as large as the declaration allows.
    ///
    /// Meaningful for rules of custom resources, whose variables all have one schema.
    #[must_use]
    pub fn estimate_cost(&self, root: &Decl) -> CostRange {
        estimate::estimate(&self.checked, root)
    }

    /// The program that evaluates it.
    ///
    /// May be called more than once; each program is independent.
    ///
    /// # Errors
    /// If a constant in it cannot be computed.
    pub fn program(&self) -> Result<Program, EvalError> {
        Ok(Program { plan: plan::plan(&self.checked)? })
    }
}

/// A program. It can be shared between threads and evaluated any number of times.
pub struct Program {
    plan: EvalPlan,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("operations", &self.plan.ops.len()).finish()
    }
}

/// The result of an evaluation and what it cost.
///
/// The cost counts against a shared budget with any result.
#[derive(Debug)]
pub struct EvalOutcome<'a> {
    /// The value, or why there is none.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, also of an evaluation that failed.
    pub cost: u64,
    /// The work that was done for it; see [`Meter::work`].
    pub work: u64,
}

impl Program {
    /// Evaluates within the limit of one call, [`PER_CALL_LIMIT`].
    #[must_use]
    pub fn evaluate<'a>(&self, variables: &dyn Activation<'a>) -> EvalOutcome<'a> {
        let mut meter = Meter::new(PER_CALL_LIMIT);
        let result = self.evaluate_on(variables, &mut meter);
        EvalOutcome { result, cost: meter.cost(), work: meter.done() }
    }

    /// Evaluates on a meter that others count on, too: the fields of a [`HostObject`](crate::HostObject) do.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn evaluate_on<'a>(
        &self,
        variables: &dyn Activation<'a>,
        meter: &mut Meter,
    ) -> Result<Value<'a>, EvalError> {
        eval::run(&self.plan, variables, meter)
    }
}
