//! Types of constructed values: lists, maps and objects.
//!
//! Elements of different types make a list of `dyn` here. Kubernetes allows no such literals, but rejects them in
//! `validators`, with a message that names the elements.

use listwatch_wire::json::Text;

use super::{Checker, unify};
use crate::ast::{Id, MapEntry};
use crate::types::Type;

impl Checker<'_> {
    /// Types a list literal. An empty one gets a fresh type variable, which its use decides.
    pub(super) fn list(&mut self, id: Id, items: &[Id], optional: &[usize]) {
        let mut element = None;
        for (at, item) in items.iter().enumerate() {
            let ty = self.entry(*item, optional.contains(&at));
            element = Some(self.join(element, ty));
        }
        let element = element.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::list(element));
    }

    /// Types a map literal, like `list`.
    pub(super) fn map(&mut self, id: Id, entries: &[MapEntry<Id>]) {
        let (mut key, mut value) = (None, None);
        for entry in entries {
            self.check(entry.key);
            let ty = self.ty(entry.key);
            key = Some(self.join(key, ty));
            let ty = self.entry(entry.value, entry.optional);
            value = Some(self.join(value, ty));
        }
        let key = key.unwrap_or_else(|| self.mapping.fresh());
        let value = value.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::map(key, value));
    }

    /// Types the construction of an object. Only types that the environment declares as constructible have one.
    pub(super) fn structure(&mut self, id: Id, name: &str, fields: &[MapEntry<Text>]) {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let Some(ty) = self.env.type_named(plain) else { return self.undeclared(id, name) };
        let object = match &ty {
            Type::Object(object) if object.constructible => object.clone(),
            _ => {
                self.error(id, format!("'{}' is not a message type", ty.runtime_name()));
                return self.set(id, Type::Error);
            }
        };
        self.set(id, ty);
        for field in fields {
            let given = self.entry(field.value, field.optional);
            match object.field(&field.key) {
                Some(declared) if self.mapping.assignable(declared, &given) => {}
                Some(declared) => {
                    let (name, shown) = (&field.key, self.mapping.substitute(&given, true));
                    let message = format!(
                        "expected type of field '{name}' is '{declared}' but provided type is '{shown}'"
                    );
                    self.issues.push(Some(field.at), message);
                }
                None => self.issues.push(Some(field.at), format!("undefined field '{}'", field.key)),
            }
        }
    }

    /// The type of an entry that may be optional.
    fn entry(&mut self, id: Id, optional: bool) -> Type {
        self.check(id);
        let ty = self.ty(id);
        if !optional {
            return ty;
        }
        let (inner, was_optional) = ty.unwrapped();
        if !was_optional && !matches!(inner, Type::Dyn) {
            let expected = Type::optional(inner.clone());
            self.mismatch(id, &expected, inner);
        }
        inner.clone()
    }

    /// The type of elements of both types. That literals have elements of one type is checked by `validators`.
    ///
    /// Two types that do not fit make the list one of `dyn`; `validators` then refuses the literal with a better
    /// message.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.mapping.assignable(&previous, &current) => {
                unify::most_general(&previous, &current).clone()
            }
            Some(_) => Type::Dyn,
        }
    }
}
