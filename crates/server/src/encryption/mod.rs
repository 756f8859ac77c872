//! Encryption at rest: chosen resources are stored encrypted, as kube-apiserver's EncryptionConfiguration says.
//!
//! [`config`] reads the configuration, [`transform`] encrypts and decrypts values, and [`engine`] is a store in front of another
//! that does so on the way in and out. Everything above it sees plain objects.

mod config;
mod engine;
mod transform;

pub use config::EncryptionConfig;
pub use engine::Encrypted;
