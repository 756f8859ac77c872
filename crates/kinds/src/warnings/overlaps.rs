//! Warnings about overlapping files of a volume: two with one path, or one at the directory of another.
//!
//! The kubelet decides which of them wins, without a notice; hence the warning at the time of writing. Two sources
//! of a projected volume with the same explicit path are an error instead (`validate/projected.rs`).

use std::fmt;
use std::rc::Rc;

use listwatch_wire::json::Value;

use super::pod::MAX_WARNINGS;
use crate::tree::Tree;

/// Pairs of paths that are compared at most: a volume can name as many files as a body has room for.
const MAX_PAIRS: usize = 100_000;

/// The most bytes of warnings about one volume: the names in them may be as long as a body.
const MAX_BYTES: usize = 64 << 10;

/// A path inside a volume and the source it comes from; empty if the volume has only one.
struct VolumePath<'a> {
    path: &'a str,
    /// Shared by all paths of a source, whose name may be as long as a body.
    source: Rc<str>,
}

impl fmt::Display for VolumePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.path)?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

/// Warns of the volumes of a Pod's spec.
pub(super) fn warn(spec: &Value, found: &mut Vec<String>) {
    for volume in spec.list("volumes") {
        let name = volume.text("name");
        for (key, title, named) in [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ] {
            let source = volume.at(key);
            if !source.has("items") {
                continue;
            }
            let title =
                if named.is_empty() { title.to_owned() } else { format!("{title} {:?}", source.text(named)) };
            compare(&items(source, ""), &format!("volume {name:?} ({title})"), found);
        }
        if volume.has("projected") {
            projected(volume.at("projected"), name, found);
        }
    }
}

/// Warns of a volume that several sources project into.
fn projected(volume: &Value, name: &str, found: &mut Vec<String>) {
    let mut all = Vec::new();
    for source in volume.list("sources") {
        if source.fields().is_none_or(|fields| fields.is_empty()) {
            found.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
        all.extend(paths_of(source));
    }
    compare(&all, &format!("volume {name:?} (Projected)"), found);
}

/// The paths that one source projects.
fn paths_of(source: &Value) -> Vec<VolumePath<'_>> {
    let one = |part: &str, source_name: String| {
        vec![VolumePath { path: source.at(part).text("path"), source: source_name.into() }]
    };
    for (key, title) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if source.at(key).has("items") {
            return items(source.at(key), &format!("{title} {:?}", source.at(key).text("name")));
        }
    }
    if source.at("downwardAPI").has("items") {
        return items(source.at("downwardAPI"), "DownwardAPI");
    }
    if source.has("serviceAccountToken") {
        return one("serviceAccountToken", "ServiceAccountToken".to_owned());
    }
    let bundle = source.at("clusterTrustBundle");
    if bundle.is_object() {
        let name = if bundle.has("name") { bundle.text("name") } else { bundle.text("signerName") };
        return one("clusterTrustBundle", format!("ClusterTrustBundle {name:?}"));
    }
    let files = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let certificate = source.at("podCertificate");
    let files = files.into_iter().filter(|(key, _)| !certificate.text(key).is_empty());
    files.map(|(key, title)| VolumePath { path: certificate.text(key), source: title.into() }).collect()
}

fn items<'a>(source: &'a Value, title: &str) -> Vec<VolumePath<'a>> {
    let (paths, title) = (source.list("items").iter().map(|item| item.text("path")), Rc::from(title));
    paths.map(|path| VolumePath { path, source: Rc::clone(&title) }).collect()
}

/// Compares each path with those before it.
fn compare(paths: &[VolumePath<'_>], place: &str, found: &mut Vec<String>) {
    let (mut pairs, mut bytes) = (0, 0);
    for (index, path) in paths.iter().enumerate() {
        for earlier in paths.iter().take(index) {
            pairs += 1;
            if pairs > MAX_PAIRS || found.len() >= MAX_WARNINGS || bytes >= MAX_BYTES {
                return;
            }
            if overlaps(path.path, earlier.path) {
                let text = format!("{place}: overlapping paths: {path} with {earlier}");
                bytes += text.len();
                found.push(text);
            }
        }
    }
}

/// True if one path is the other or lies below it. A slash at the end makes no difference.
fn overlaps(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_end_matches('/'), other.trim_end_matches('/'));
    let below = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    !one.is_empty() && !other.is_empty() && (below(one, other) || below(other, one))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    /// Each path had a copy of the name of its source: 3,000 paths took more than a gigabyte.
    #[test]
    fn a_long_name_of_a_source_is_not_copied_for_each_path() {
        let name = "n".repeat(500_000);
        for path in [|n: usize| n.to_string(), |_| "same".to_owned()] {
            let items: Vec<Value> = (0..3000).map(|n| json!({"path": path(n)})).collect();
            let source = json!({"configMap": {"name": name, "items": items}});
            let source_paths = paths_of(&source);
            assert!(source_paths.windows(2).all(|pair| Rc::ptr_eq(&pair[0].source, &pair[1].source)));
            let mut found = Vec::new();
            warn(&json!({"volumes": [{"name": "v", "projected": {"sources": [source]}}]}), &mut found);
            assert!(found.iter().map(String::len).sum::<usize>() < 2_000_000);
        }
    }

    #[test]
    fn overlapping_paths_of_a_projected_volume_are_warned_of() {
        let volumes = json!([
            {"name": "a", "configMap": {"name": "c", "items": [{"path": "x"}, {"path": "x/y"}, {"path": "xy"}]}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "s", "items": [{"path": "token"}]}}, {"serviceAccountToken": {"path": "token"}}, {}]}},
        ]);
        let mut found = Vec::new();
        warn(&json!({"volumes": volumes}), &mut found);
        assert_eq!(
            found,
            [
                r#"volume "a" (ConfigMap "c"): overlapping paths: "x/y" with "x""#,
                r#"volume "b" (Projected) has no sources provided"#,
                r#"volume "b" (Projected): overlapping paths: "token" (ServiceAccountToken) with "token" (Secret "s")"#,
            ]
        );
    }
}
