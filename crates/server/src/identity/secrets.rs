//! [`SecretStore`]: where the CA keys, the token-signing key and the administrator's token are kept.
//!
//! They must outlive a process, or every client certificate, token and kubeconfig would be worthless after a restart;
//! and several servers on one store must share them. In the store they are under `/bootstrap/`, outside of everything
//! that the API serves, and are encrypted at rest if anything is. Of several servers that start at once, one creates
//! a secret and the others read it. Secrets of the API are ordinary objects and have nothing to do with this.

use std::path::PathBuf;
use std::sync::Arc;

use listwatch_storage::{Engine, Expect, Write, Written};

use crate::{Error, KeepKeys, Options, Security, files};

/// The prefix of the keys of secrets in the storage engine, outside of everything that the API serves.
const PREFIX: &str = "/bootstrap/";

/// A place for secrets, chosen by [`Options::keys`](crate::Options::keys). Reading one that does not exist creates
/// it, once, even if several servers try.
#[derive(Debug)]
pub(crate) enum SecretStore {
    /// In memory: lost with the process.
    Process,
    /// One file each, which only its owner may read.
    Directory(PathBuf),
    /// In the store: all servers on it have the same ones.
    Store(Arc<dyn Engine>),
}

impl SecretStore {
    /// The place that the options choose. A directory for certificates keeps the other secrets too.
    pub(crate) fn new(options: &Options, engine: &Arc<dyn Engine>) -> Self {
        match (&options.security, &options.keys) {
            (Security::SelfMade { dir: Some(dir) }, _) | (_, KeepKeys::Directory(dir)) => {
                Self::Directory(dir.clone())
            }
            (_, KeepKeys::Store) => Self::Store(Arc::clone(engine)),
            (_, KeepKeys::Process) => Self::Process,
        }
    }

    /// Returns the secret with this name. The first call makes and stores it.
    ///
    /// # Errors
    /// If it cannot be made, kept or read. An empty one is an error, because it would be no secret.
    pub(crate) async fn secret(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<String, Error>,
    ) -> Result<String, Error> {
        let secret = match self {
            Self::Process => make()?,
            Self::Directory(directory) => in_file(directory.join(name), make)?,
            Self::Store(engine) => in_store(&**engine, name, make).await?,
        };
        if secret.trim().is_empty() {
            let problem = "the secret is empty; remove it, and another is made".to_owned();
            return Err(Error::Content { path: self.place(name), problem });
        }
        Ok(secret)
    }

    /// The path of a secret, for errors.
    fn place(&self, name: &str) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(name),
            _ => PathBuf::from(format!("{PREFIX}{name}")),
        }
    }
}

/// Reads a secret, or makes and writes it.
fn in_file(path: PathBuf, make: impl FnOnce() -> Result<String, Error>) -> Result<String, Error> {
    if path.exists() {
        return files::read(&path);
    }
    let secret = make()?;
    files::write_private(&path, &secret)?;
    Ok(secret)
}

/// Reads a secret from the store or creates it. Of several servers that start at once, one creates it and the others
/// read it.
async fn in_store(
    engine: &dyn Engine,
    name: &str,
    make: impl FnOnce() -> Result<String, Error>,
) -> Result<String, Error> {
    let key: Arc<str> = format!("{PREFIX}{name}").into();
    let text = |bytes: &[u8]| {
        let problem = "not text".to_owned();
        let path = PathBuf::from(&*key);
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::Content { path, problem })
    };
    if let Some(found) = engine.get(&key, None).await? {
        return text(&found.value);
    }
    let secret = make()?;
    let write = Write {
        key: Arc::clone(&key),
        value: Some(secret.clone().into()),
        expect: Expect::Absent,
        origin: None,
    };
    match engine.write(write).await? {
        Written::Done { .. } => Ok(secret),
        Written::Refused { current: Some(found) } => text(&found.value),
        Written::Refused { current: None } => {
            let problem = "the store refused it".to_owned();
            Err(Error::Content { path: PathBuf::from(&*key), problem })
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_storage::MemoryEngine;

    use super::*;

    /// Two servers on one store had a CA and a key each, and neither took the other's tokens.
    #[tokio::test]
    async fn servers_on_one_store_have_the_same_secrets() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let (one, other) = (SecretStore::Store(Arc::clone(&engine)), SecretStore::Store(engine));
        let first = one.secret("ca.key", || Ok("a".to_owned())).await.unwrap();
        let second = other.secret("ca.key", || Ok("b".to_owned())).await.unwrap();
        assert_eq!((first.as_str(), second.as_str()), ("a", "a"));
    }

    /// An empty file for the administrator's token used to make the empty token the administrator's.
    #[tokio::test]
    async fn an_empty_secret_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("admin.token"), "\n").unwrap();
        let keep = SecretStore::Directory(directory.path().to_owned());
        let error = keep.secret("admin.token", || Ok("x".to_owned())).await.unwrap_err();
        assert!(error.to_string().contains("empty"), "{error}");
        assert_eq!(keep.secret("other", || Ok("x".to_owned())).await.unwrap(), "x");
        assert_eq!(keep.secret("other", || Ok("y".to_owned())).await.unwrap(), "x");
    }
}
