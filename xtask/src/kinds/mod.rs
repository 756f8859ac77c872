//! `cargo xtask kinds`: makes the schema table and the OpenAPI overlay of crates/kinds.
//!
//! Everything comes from a checkout of Kubernetes at the pinned release. The OpenAPI documents (`api/openapi-spec/v3`) say what
//! fields there are, how lists merge, and what everything means. The Go types (`staging/src/k8s.io`) say what the documents leave
//! out: pointers, `omitempty`, protobuf numbers. `overlay.txt` has what is in neither.
//!
//! ```sh
//! git clone --depth 1 --branch v1.37.0-rc.1 https://github.com/kubernetes/kubernetes
//! cargo xtask kinds --sources kubernetes          # writes the table
//! cargo xtask kinds --sources kubernetes --check  # fails if the committed table differs
//! ```
//!
//! `cargo xtask test generated` checks this table and the one of [`crate::rules`] where `LISTWATCH_KUBERNETES_SOURCES`
//! names such a checkout, and is skipped elsewhere.
//!
//! It prints the fields whose Go type it did not find: they work in JSON, have no protobuf number, and are taken for
//! optional pointers unless they are in `overlay.txt`.
//!
//! The result is committed: `table.txt`, one line per field and meant to be read in a diff, and `docs.txt.gz`, the
//! texts, line by line for the same fields. The crate's tests hold the table against the `k8s-pb` crate.
//! `overlay.json.gz` is what the OpenAPI documents say beyond the table: enumerations above all, which only
//! kube-apiserver itself publishes. With `--documents` the crate makes it, once the table is written
//! (`crates/kinds/src/openapi/overlay_tests.rs`), from the documents that kube-apiserver of that release serves:
//!
//! ```sh
//! mkdir -p documents/v3
//! kubectl get --raw /openapi/v2 > documents/swagger.json
//! for path in $(kubectl get --raw /openapi/v3 | jq -r '.paths | keys[]'); do
//!   kubectl get --raw "/openapi/v3/$path" > "documents/v3/${path//\//__}.json"
//! done
//! cargo xtask kinds --sources kubernetes --documents documents
//! ```

mod definitions;
mod golang;
mod join;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use definitions::Definitions;

use crate::checks;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A checkout of kubernetes/kubernetes at the pinned release
    #[arg(long)]
    sources: PathBuf,
    /// The documents that kube-apiserver of that release serves: v3/*.json and swagger.json; the OpenAPI overlay is made of them
    #[arg(long)]
    documents: Option<PathBuf>,
    /// Only compare the committed table with what would be written
    #[arg(long)]
    check: bool,
}

/// The table and its texts, below the root of the workspace.
const TABLE: &str = "crates/kinds/src/schema/table.txt";
const TEXTS: &str = "crates/kinds/src/schema/docs.txt.gz";

/// Writes the table and its texts, and prints what it had to guess; or compares them.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.check {
        let same = is_current(&arguments.sources)?;
        println!("{TABLE} {}", if same { "is what the sources say" } else { "differs from the sources" });
        if let Some(documents) = &arguments.documents {
            checks::overlay(documents, false)?;
        }
        return Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let table = table(&arguments.sources)?;
    std::fs::write(crate::root().join(TABLE), &table.text)?;
    let mut docs = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    docs.write_all(table.docs.as_bytes())?;
    std::fs::write(crate::root().join(TEXTS), docs.finish()?)?;
    for guess in &table.guesses {
        println!("guessed: {guess}");
    }
    println!("{} structs, {} fields", table.structs, table.fields);
    if let Some(documents) = &arguments.documents {
        checks::overlay(documents, true)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(sources: &Path) -> anyhow::Result<join::Table> {
    let definitions = Definitions::read(&sources.join("api/openapi-spec/v3"))?;
    join::table(&definitions, &sources.join("staging/src/k8s.io"), include_str!("overlay.txt"))
}

/// Returns true if the committed table and its texts are what the sources make.
pub(crate) fn is_current(sources: &Path) -> anyhow::Result<bool> {
    let table = table(sources)?;
    let mut docs = String::new();
    let file = std::fs::File::open(crate::root().join(TEXTS))?;
    flate2::read::GzDecoder::new(file).read_to_string(&mut docs)?;
    Ok(std::fs::read_to_string(crate::root().join(TABLE))? == table.text && docs == table.docs)
}
