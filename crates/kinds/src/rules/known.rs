//! [`KnownTexts`]: the texts that a rule compares each element of a list with (`in=` and `not-in=`).
//!
//! They are collected when the first element is compared. Both lists come from users: to go through one for each element of the
//! other would cost the product of their lengths. Other rules need no memory of what they saw.

use std::cell::RefCell;
use std::collections::HashSet;

use listwatch_wire::json::Value;

use super::route::Route;

/// The texts that the routes of rules lead to from one struct.
#[derive(Debug, Default)]
pub(crate) struct KnownTexts(RefCell<Vec<RouteTexts>>);

/// The texts of the routes of one rule, which is known by its place in memory.
type RouteTexts = (*const Route, HashSet<Box<str>>);

impl KnownTexts {
    /// Returns true if one of the routes leads to this text. `top` must be the same for each call.
    pub(super) fn contains(&self, routes: &[Route], top: &Value, text: &str) -> bool {
        let mut sets = self.0.borrow_mut();
        if let Some((_, known)) = sets.iter().find(|(of, _)| *of == routes.as_ptr()) {
            return known.contains(text);
        }
        let mut known = HashSet::new();
        for route in routes {
            route.visit(top, None, &mut |leaf| known.extend(leaf.value.as_str().map(Box::from)));
        }
        let found = known.contains(text);
        sets.push((routes.as_ptr(), known));
        found
    }
}
