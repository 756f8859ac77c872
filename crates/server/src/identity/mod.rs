//! The server's own identity: its CA, its certificates and the keys that sign tokens.
//!
//! * [`secrets`] stores them: in the process, in a directory, or in the storage engine, where all servers on it share them.
//! * [`authority`] is the CA and the certificates it issues.
//! * [`addresses`] lists the names that a serving certificate must cover.
//!
//! TLS itself is in `listen/`; users, their certificates and their rights are in `auth/`.

pub(crate) mod addresses;
pub(crate) mod authority;
pub(crate) mod secrets;
