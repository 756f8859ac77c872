//! Label selectors, each as text and as a function.

use super::state::ModelObject;

#[derive(Clone, Copy, Debug)]
pub struct ModelSelector {
    /// As written in a query.
    pub text: &'static str,
    pub matches: fn(&ModelObject) -> bool,
}

fn label(object: &ModelObject) -> Option<&str> {
    object.labels.get("l").map(String::as_str)
}

pub const SELECTORS: [ModelSelector; 6] = [
    ModelSelector { text: "", matches: |_| true },
    ModelSelector { text: "l%3Da", matches: |object| label(object) == Some("a") },
    ModelSelector { text: "l!%3Da", matches: |object| label(object) != Some("a") },
    ModelSelector { text: "l", matches: |object| label(object).is_some() },
    ModelSelector { text: "!l", matches: |object| label(object).is_none() },
    ModelSelector {
        text: "l+in+(a,b),x+notin+(c)",
        matches: |object| matches!(label(object), Some("a" | "b")),
    },
];
