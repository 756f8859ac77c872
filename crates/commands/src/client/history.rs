//! `listwatch history` and `listwatch diff`: the versions of one object that a listwatch server still has, and the
//! difference of two.
//!
//! Both use endpoints under `/listwatch/v1` that kube-apiserver does not have; there the commands say so. History
//! reaches as far back as the server's `--history-age`. One version more than printed is read, because each line shows
//! the change against the version before it.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use listwatch::pager::PageCount;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cluster, answer, changes, resolve};
use crate::terminal::{visible, visible_json};

/// Versions per request: the most that a server answers with at once.
const PAGE: usize = 500;
/// The most pages: five million versions. A server that always names a next page does not keep the command busy for ever.
const MAX_PAGES: usize = 10_000;

/// The object meant.
#[derive(Args, Clone, Debug)]
struct ObjectArguments {
    /// Resource: plural, singular or short name, with .GROUP where several groups have it
    resource: String,
    /// Name of the object
    name: String,
    /// Namespace; the context's, if none is given
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  listwatch history deploy web -n shop\n  listwatch history cm settings --limit 5 -o json\n\nTo restore a version: listwatch history cm settings -o json | jq '.[3].object | del(.metadata.resourceVersion)' | kubectl replace -f -"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    object: ObjectArguments,
    /// Newest versions to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t = HistoryOutput::Table)]
    output: HistoryOutput,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HistoryOutput {
    /// One line per version, with the fields that it changed
    Table,
    /// All versions as one JSON array
    Json,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  listwatch diff deploy web -n shop --from 1041 --to 1077")]
pub(crate) struct DiffArguments {
    #[command(flatten)]
    object: ObjectArguments,
    /// Older resourceVersion; any revision at which the object existed
    #[arg(long, value_name = "VERSION")]
    from: u64,
    /// Newer resourceVersion
    #[arg(long, value_name = "VERSION")]
    to: u64,
    /// Print the RFC 6902 patch, with resourceVersion and managedFields, rather than one line per changed field
    #[arg(long)]
    patch: bool,
}

/// A page of `/listwatch/v1/history`, newest version first.
#[derive(Debug, Deserialize)]
struct HistoryPage {
    #[serde(default)]
    metadata: HistoryMeta,
    versions: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct HistoryMeta {
    #[serde(default, rename = "continue")]
    next: String,
}

impl ObjectArguments {
    /// A client, and the query that names the object.
    ///
    /// The query is escaped here once; names of custom resources and objects may contain anything that a path allows.
    async fn open(&self) -> anyhow::Result<(kube::Client, String)> {
        let (client, default_namespace) = self.cluster.connect().await?;
        let found = resolve::resolve(&client, &self.resource).await?;
        let (group, version, plural) = found.names();
        let mut query =
            vec![("group", group), ("version", version), ("resource", plural), ("name", &*self.name)];
        let namespace = self.namespace.clone().unwrap_or(default_namespace);
        if found.namespaced {
            query.push(("namespace", &namespace));
        }
        let encoded = |value: &str| {
            percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
        };
        let query: Vec<String> =
            query.iter().map(|(key, value)| format!("{key}={}", encoded(value))).collect();
        Ok((client, query.join("&")))
    }
}

/// Asks an endpoint that only a listwatch server has.
///
/// # Errors
///
/// A 404 whose message names no object is an unknown path: the server is another one than listwatch. Other messages
/// of the server are passed on as they are.
async fn get<T: serde::de::DeserializeOwned>(client: &kube::Client, path: &str) -> anyhow::Result<T> {
    answer::get(client, path).await.map_err(|error| match answer::status(&error) {
        Some(status) if status.code == 404 && !status.message.contains('"') => {
            anyhow::anyhow!("this server keeps no history: it is not a listwatch server")
        }
        Some(status) => anyhow::anyhow!(status.message.clone()),
        None => error,
    })
}

/// Prints versions, newest first. All requested versions are held in memory, since each line compares two.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let (client, query) = arguments.object.open().await?;
    let (mut versions, mut next) = (Vec::new(), String::new());
    // One more than is printed: the oldest one is compared with the version before it.
    let wanted = arguments.limit.saturating_add(1);
    let mut pages = PageCount::new(MAX_PAGES);
    while versions.len() < wanted {
        let limit = (wanted - versions.len()).min(PAGE);
        let page: HistoryPage =
            get(&client, &format!("/listwatch/v1/history?{query}&limit={limit}&continue={next}")).await?;
        versions.extend(page.versions);
        pages.continue_with(&next, &page.metadata.next)?;
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    let mut out = std::io::stdout().lock();
    match arguments.output {
        HistoryOutput::Json => {
            versions.truncate(arguments.limit);
            write_json(&mut out, &versions)?;
        }
        HistoryOutput::Table => {
            writeln!(out, "{:<12} {:<20} {:<20} {:<24} CHANGE", "VERSION", "TIME", "MANAGER", "USER")?;
            for (at, version) in versions.iter().take(arguments.limit).enumerate() {
                writeln!(out, "{}", visible(&line(version, versions.get(at + 1))))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a document over several lines, with the characters that could control a terminal escaped.
fn write_json(out: &mut impl Write, document: &impl Serialize) -> anyhow::Result<()> {
    for line in serde_json::to_string_pretty(document)?.lines() {
        out.write_all(&visible_json(line.as_bytes()))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// One row of the table. The change is computed from the version before; the oldest one has none.
fn line(version: &Value, before: Option<&Value>) -> String {
    let text = |key: &str| version.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
    let object = |version: &Value| version.get("object").cloned();
    let change = match (before.and_then(object), object(version)) {
        (_, None) => "deleted".to_owned(),
        (None, Some(_)) if before.is_some() => "created again".to_owned(),
        (None, Some(_)) => "oldest version kept".to_owned(),
        (Some(before), Some(after)) => changes::describe(&before, &after),
    };
    let [revision, time, manager, user] = ["resourceVersion", "time", "manager", "user"].map(text);
    format!("{revision:<12} {time:<20} {manager:<20} {user:<24} {change}")
}

/// Prints the difference between two versions: the server's patch, or one line per changed field. A patch has no old
/// values; they are in the patch that leads back.
pub(crate) async fn run_diff(arguments: DiffArguments) -> anyhow::Result<ExitCode> {
    let (client, query) = arguments.object.open().await?;
    let DiffArguments { from, to, patch, .. } = arguments;
    let there = difference(&client, &query, from, to).await?;
    let mut out = std::io::stdout().lock();
    if patch {
        write_json(&mut out, &there)?;
        return Ok(ExitCode::SUCCESS);
    }
    let back = difference(&client, &query, to, from).await?;
    for operation in there.iter().filter(|operation| !is_bookkeeping(operation)) {
        let line = operation.line(back.iter().find(|old| old.path == operation.path));
        writeln!(out, "{}", visible(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the server for the difference between two versions of an object.
async fn difference(
    client: &kube::Client,
    query: &str,
    from: u64,
    to: u64,
) -> anyhow::Result<Vec<DiffOperation>> {
    let path = format!("/listwatch/v1/history/diff?{query}&from={from}&to={to}");
    let answer: Difference = get(client, &path).await?;
    Ok(answer.patch)
}

#[derive(Debug, Deserialize)]
struct Difference {
    patch: Vec<DiffOperation>,
}

/// One operation of an RFC 6902 patch.
#[derive(Debug, Deserialize, Serialize)]
struct DiffOperation {
    op: String,
    path: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
}

/// Keeps a `null` that is a value apart from a field that is not there.
fn present<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

/// Returns true for fields that change with every write; they are part of the patch and only distract a reader.
fn is_bookkeeping(operation: &DiffOperation) -> bool {
    operation.path == "/metadata/resourceVersion" || operation.path.starts_with("/metadata/managedFields")
}

impl DiffOperation {
    /// `path: old → new`, `path: + new` or `path: - old`; `back` is the operation that undoes it.
    fn line(&self, back: Option<&Self>) -> String {
        let path = self.path.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
        let old = back.and_then(|back| back.value.as_ref()).map(ToString::to_string);
        let new = self.value.as_ref().map(ToString::to_string);
        match (old, new) {
            (Some(old), Some(new)) => format!("{path}: {old} → {new}"),
            (None, Some(new)) => format!("{path}: + {new}"),
            (Some(old), None) => format!("{path}: - {old}"),
            (None, None) => format!("{path}: -"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_history_line_shows_time_manager_user_and_change() {
        let one = json!({"resourceVersion": "7", "manager": "kubectl", "time": "T", "object": {"a": 1}});
        let two = json!({"resourceVersion": "8", "object": {"a": 2}});
        let gone = json!({"resourceVersion": "9", "user": "alice", "deleted": true});
        assert!(line(&two, Some(&one)).ends_with("a: 1 → 2"), "{}", line(&two, Some(&one)));
        assert!(line(&gone, Some(&two)).ends_with("deleted"));
        assert!(line(&one, Some(&gone)).ends_with("created again"));
        assert!(line(&one, None).contains("kubectl"));
        assert!(line(&gone, Some(&two)).contains(" alice "));
    }

    /// A patch has the new values but not the old ones; the reverse patch has those.
    #[test]
    fn a_difference_shows_old_and_new() {
        let one = |value: Value| serde_json::from_value::<DiffOperation>(value).unwrap();
        let level = one(json!({"op": "replace", "path": "/data/level", "value": "debug"}));
        let before = one(json!({"op": "replace", "path": "/data/level", "value": "info"}));
        assert_eq!(level.line(Some(&before)), "data.level: \"info\" → \"debug\"");
        let label = one(json!({"op": "add", "path": "/metadata/labels/a.b~1c", "value": null}));
        let removal = one(json!({"op": "remove", "path": "/metadata/labels/a.b~1c"}));
        assert_eq!(label.line(Some(&removal)), "metadata.labels.a.b/c: + null");
        assert_eq!(removal.line(Some(&label)), "metadata.labels.a.b/c: - null");
        assert!(is_bookkeeping(&one(json!({"op": "remove", "path": "/metadata/managedFields/0"}))));
    }
}
