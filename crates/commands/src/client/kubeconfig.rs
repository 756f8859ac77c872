//! Kubeconfig files as kubectl reads them: relative paths are those of their file, and several files are merged.
//!
//! A file is parsed as a tree and then converted to kube's type. `Kubeconfig::read_from` of kube does the same with the
//! YAML parser compiled anew for each type of a kubeconfig, which is half a megabyte of code. Choosing the files and the
//! context is `cluster.rs`'s.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use kube::config::{AuthInfo, Kubeconfig};

/// Reads and merges kubeconfig files. The first file that has a cluster, a user, a context or a current context wins.
///
/// # Errors
///
/// A file that cannot be read or is not a kubeconfig, with its name.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Kubeconfig> {
    files.iter().try_fold(Kubeconfig::default(), |merged, file| {
        merged
            .merge(read_one(file)?)
            .with_context(|| format!("cannot merge the kubeconfig {}", file.display()))
    })
}

fn read_one(file: &Path) -> anyhow::Result<Kubeconfig> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
    let mut config = parse(&text).with_context(|| format!("{} is not a kubeconfig", file.display()))?;
    if let Some(folder) = file.parent() {
        resolve_paths(&mut config, folder);
    }
    Ok(config)
}

/// Parses a kubeconfig. An empty file is an empty kubeconfig.
fn parse(text: &str) -> anyhow::Result<Kubeconfig> {
    if text.trim().is_empty() {
        return Ok(Kubeconfig::default());
    }
    listwatch_server::parse_yaml(text).map_err(|error| anyhow!(error))
}

/// Makes the paths in a kubeconfig relative to the working directory instead of to the file.
fn resolve_paths(config: &mut Kubeconfig, folder: &Path) {
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority, folder);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve_user(user, folder);
    }
}

/// A command without a slash is looked up in `PATH`, as client-go does.
fn resolve_user(user: &mut AuthInfo, folder: &Path) {
    resolve(&mut user.client_certificate, folder);
    resolve(&mut user.client_key, folder);
    resolve(&mut user.token_file, folder);
    if let Some(exec) = &mut user.exec
        && exec.command.as_ref().is_some_and(|command| command.contains('/'))
    {
        resolve(&mut exec.command, folder);
    }
}

fn resolve(path: &mut Option<String>, folder: &Path) {
    if let Some(relative) = path.as_ref().filter(|path| !path.is_empty()) {
        // An absolute path replaces the folder.
        *path = Some(folder.join(relative).to_string_lossy().into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn the_first_file_that_has_a_value_wins() {
        let folder = tempfile::tempdir().unwrap();
        let one = written(
            folder.path(),
            "one",
            "clusters: [{name: c, cluster: {server: 'https://one'}}]\nusers: null\n",
        );
        let two = written(
            folder.path(),
            "two",
            "current-context: x\nclusters: [{name: c, cluster: {server: 'https://two'}}, {name: d, cluster: {server: 'https://d'}}]\n",
        );
        let empty = written(folder.path(), "empty", "\n");
        let merged = read(&[one, empty, two]).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("x"));
        let servers: Vec<_> =
            merged.clusters.iter().filter_map(|named| named.cluster.as_ref()?.server.as_deref()).collect();
        assert_eq!(servers, ["https://one", "https://d"]);
    }

    #[test]
    fn paths_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = written(
            folder.path(),
            "config",
            "clusters: [{name: c, cluster: {certificate-authority: ca.pem}}]\n\
             users:\n- {name: u, user: {client-certificate: /etc/u.pem, tokenFile: t, exec: {command: aws}}}\n\
             - {name: v, user: {exec: {command: ./helper}}}\n",
        );
        let read = read(&[file]).unwrap();
        let here = |name: &str| Some(folder.path().join(name).to_string_lossy().into_owned());
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().certificate_authority, here("ca.pem"));
        let users: Vec<_> = read.auth_infos.iter().map(|named| named.auth_info.as_ref().unwrap()).collect();
        assert_eq!(users[0].client_certificate.as_deref(), Some("/etc/u.pem"));
        assert_eq!(users[0].token_file, here("t"));
        assert_eq!(users[0].exec.as_ref().unwrap().command.as_deref(), Some("aws"));
        assert_eq!(users[1].exec.as_ref().unwrap().command, here("./helper"));
    }

    #[test]
    fn a_file_of_something_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = written(folder.path(), "other", "a: [");
        let error = format!("{:#}", read(std::slice::from_ref(&file)).unwrap_err());
        assert!(error.starts_with(&format!("{} is not a kubeconfig: ", file.display())), "{error}");
    }
}
