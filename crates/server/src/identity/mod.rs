//! What the server proves itself with, and what it takes for proof: its CA, its certificates, the keys of tokens.
//!
//! * [`keep`] keeps secrets: in the process, in a directory, or in the store, where all servers on it share them.
//! * [`authority`] is the CA and what it issues.
//! * [`clients`] turns certificates of clients into users.
//! * [`addresses`] are the names a serving certificate must cover.
//!
//! TLS itself is in `listen/`; users and rights are in `auth/`.

pub(crate) mod addresses;
pub(crate) mod authority;
pub(crate) mod clients;
pub(crate) mod keep;
