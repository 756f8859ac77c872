//! Encryption at rest: chosen resources are stored encrypted, by kube-apiserver's EncryptionConfiguration.
//!
//! [`config`] reads the configuration, [`transform`] encrypts and decrypts values, and [`engine`] is a storage engine
//! in front of another one. Everything above it sees plain objects, the watch cache in memory included: this protects
//! disks and backups, not the process. Existing objects are rewritten when they are next updated.

mod config;
mod engine;
mod transform;

pub use config::EncryptionConfig;
pub use engine::Encrypted;
