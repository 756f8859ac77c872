//! Declarations of all functions, as a table of text (`declared.txt`): name, overload, signature.
//!
//! The overload names are cel-go's and Kubernetes'; cost rules and error messages refer to them. The text form keeps a
//! declaration on one line, as the documentation of CEL writes it; [`read`](crate::declarations::read) parses it once
//! per process. A function needs a line there, an implementation in its library, and an entry in both cost tables if it
//! costs more than one.

/// The declarations of an environment: those of stored expressions have what the newest version has.
pub(crate) fn tables(newest: bool, mutation: bool) -> Vec<&'static str> {
    let mut tables = vec![include_str!("declared.txt")];
    if newest {
        tables.push("includes list_includes_dyn_dyn dyn.(dyn) -> bool");
    }
    if mutation {
        tables.push("jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) -> string");
    }
    tables
}
