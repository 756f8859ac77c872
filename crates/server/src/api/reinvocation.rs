//! [`Reinvocation`]: decides which mutating webhooks and policies are called a second time.
//!
//! If one of them changes the object, the whole mutating chain runs once more, and those with `reinvocationPolicy:
//! IfNeeded` that were called before the change are called again. There is never a third pass, as in kube-apiserver:
//! two webhooks that undo each other would not end. State is per attempt of a write and lives in the
//! [`super::AdmissionRecord`]; the passes are driven by `api/chain.rs`.

use std::collections::HashSet;

use listwatch_wire::json::Value;

/// The state of reinvocation during one attempt of a write. A retry after a conflict begins with a new one.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    second: bool,
    needed: bool,
    /// Webhooks and policies with `IfNeeded` that were called since the last change.
    called: HashSet<String>,
    /// Those that the second pass calls.
    due: HashSet<String>,
    /// The object after the last call.
    output: Option<Value>,
}

impl Reinvocation {
    /// Starts over for a new attempt of the request.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Begins the second pass, if it is needed.
    pub(crate) fn begin_second(&mut self) -> bool {
        self.second = self.needed;
        self.second
    }

    /// Returns true in the second pass.
    pub(crate) fn is_second(&self) -> bool {
        self.second
    }

    /// Notes the object before the webhooks or policies of a pass. Changes by other plugins make all due.
    pub(crate) fn begin(&mut self, object: &Value) {
        if self.second && self.output.as_ref().is_some_and(|output| output != object) {
            self.due.extend(self.called.drain());
        }
    }

    /// Notes the object after the webhooks or policies of a pass.
    pub(crate) fn end(&mut self, object: &Value) {
        self.output = Some(object.clone());
    }

    /// Returns true if this one is called in this pass.
    pub(crate) fn should_call(&self, uid: &str) -> bool {
        !self.second || self.due.contains(uid)
    }

    /// Notes that the object was changed: those called before are due again.
    pub(crate) fn changed(&mut self) {
        self.due.extend(self.called.drain());
        self.needed = true;
    }

    /// Notes the call of a webhook or policy with reinvocation.
    pub(crate) fn called(&mut self, uid: &str) {
        self.called.insert(uid.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_called_before_a_change_are_called_again() {
        let mut state = Reinvocation::default();
        state.begin(&Value::Null);
        state.called("first");
        state.changed();
        state.called("second");
        state.end(&Value::Null);
        assert!(state.begin_second());
        state.begin(&Value::Null);
        assert!(state.should_call("first"));
        assert!(!state.should_call("second"));
    }
}
