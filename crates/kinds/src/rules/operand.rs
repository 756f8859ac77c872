//! [`Operand`]: a value that a condition looks at: a number, a word, or what a route leads to.
//!
//! The forms are explained in [`super::condition`], which compares operands; a route that leads to several values gives each.

use listwatch_wire::json::Value;

use super::condition::Scene;
use super::route::Route;

/// A value that a condition looks at.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Number(i64),
    Word(&'static str),
    Route {
        route: Route,
        base: Base,
        counted: bool,
        needed: bool,
    },
    /// The number of routes that lead to something.
    Given(Vec<Route>),
}

/// The struct that a route begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    New,
    Old,
    Top,
}

impl Operand {
    /// Reads an operand.
    pub(super) fn parse(text: &'static str) -> Self {
        if let Ok(number) = text.parse() {
            return Self::Number(number);
        }
        if let Some(fields) = text.strip_prefix('+') {
            return Self::Given(fields.split('+').map(Route::parse).collect());
        }
        if let Some(word) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            return Self::Word(word);
        }
        let (text, needed) = text.strip_suffix('?').map_or((text, false), |text| (text, true));
        let (text, counted) = text.strip_prefix('#').map_or((text, false), |text| (text, true));
        let (text, base) = match (text.strip_prefix("old."), text.strip_prefix('/')) {
            (Some(text), _) => (text, Base::Old),
            (_, Some(text)) => (text, Base::Top),
            _ if text == "old" => ("", Base::Old),
            _ => (text, Base::New),
        };
        Self::Route { route: Route::parse(text), base, counted, needed }
    }

    /// Calls back with every value of the operand.
    pub(super) fn each(&self, scene: Scene<'_>, found: &mut dyn FnMut(&Value)) {
        match self {
            Self::Number(number) => found(&Value::from(*number)),
            Self::Word(word) => found(&Value::from(*word)),
            Self::Given(routes) => {
                let given = routes.iter().filter(|route| !route.value(scene.new).is_null()).count();
                found(&Value::from(i64::try_from(given).unwrap_or(i64::MAX)));
            }
            Self::Route { route, base, counted, .. } => {
                let from = match base {
                    Base::New => Some(scene.new),
                    Base::Old => scene.old,
                    Base::Top => Some(scene.top),
                };
                let Some(from) = from else { return found(&Value::Null) };
                route.visit(from, None, &mut |leaf| match counted {
                    true => found(&Value::from(count(leaf.value))),
                    false => found(leaf.value),
                });
            }
        }
    }

    /// All values of the operand.
    pub(super) fn values(&self, scene: Scene<'_>) -> Vec<Value> {
        let mut values = Vec::new();
        self.each(scene, &mut |value| values.push(value.clone()));
        values
    }

    /// The routes that begin at the struct of the condition or its stored form, for the check of the tables.
    #[cfg(test)]
    pub(super) fn routes(&self) -> Vec<&Route> {
        match self {
            Self::Route { route, base: Base::New | Base::Old, .. } => vec![route],
            Self::Given(routes) => routes.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The number of a value: zero if it is absent and need not be there.
    pub(super) fn number(&self, value: &Value) -> Option<i64> {
        let needed = matches!(self, Self::Route { needed: true, .. });
        value.as_i64().or((value.is_null() && !needed).then_some(0))
    }
}

/// Elements, entries or bytes. Anything else counts nothing.
fn count(value: &Value) -> i64 {
    let count = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::String(text) => text.len(),
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}
