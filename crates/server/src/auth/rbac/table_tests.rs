//! Written cases.
