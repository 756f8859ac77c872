//! Resource names as people type them (`pods`, `po`, `deployment`, `events.events.k8s.io`), resolved by discovery.
//!
//! The core group is asked first and then the others in the server's order, in the preferred version of each; the first
//! match counts, as in kubectl. Nothing is cached on disk, so each command costs one or a few discovery requests. Names
//! with a group skip the core group. Upper and lower case are the same. Subresources are not matched.

use anyhow::bail;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResource, APIResourceList};
use kube::core::ApiResource;
use listwatch::kube::ResourceKind;

use super::{TypeMeta, answer};

/// A resource that the server has.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedResource {
    resource: ApiResource,
    pub(crate) namespaced: bool,
}

impl ResolvedResource {
    /// Returns the form that sources of the library take.
    pub(crate) fn kind(&self) -> ResourceKind {
        ResourceKind::dynamic(&self.resource)
    }

    /// Returns the type of its objects.
    pub(crate) fn type_meta(&self) -> TypeMeta {
        TypeMeta { api_version: self.resource.api_version.clone(), kind: self.resource.kind.clone() }
    }

    /// Returns the group, the version and the plural name.
    pub(crate) fn names(&self) -> (&str, &str, &str) {
        (&self.resource.group, &self.resource.version, &self.resource.plural)
    }

    /// Returns the path of the collection, in one namespace or in all.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let ApiResource { api_version, plural, group, .. } = &self.resource;
        let root = if group.is_empty() { "/api" } else { "/apis" };
        match namespace {
            Some(namespace) => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{api_version}/{plural}"),
        }
    }
}

/// Asks the core group first and then the others, in the order the server names them; the first match counts, as in
/// kubectl.
///
/// Costs one request for a core resource, and up to one per group for others: the older discovery is used because
/// every server has it.
///
/// # Errors
///
/// A discovery request fails, or no resource has the name.
pub(super) async fn resolve(client: &kube::Client, wanted: &str) -> anyhow::Result<ResolvedResource> {
    let (name, group) = wanted.split_once('.').unwrap_or((wanted, ""));
    if group.is_empty() {
        let core: APIResourceList = answer::get(client, "/api/v1").await?;
        if let Some(found) = core.resources.iter().find(|resource| is_called(resource, name)) {
            return Ok(describe("", "v1", found));
        }
    }
    let groups: APIGroupList = answer::get(client, "/apis").await?;
    for candidate in groups.groups {
        let version = candidate.preferred_version.or_else(|| candidate.versions.first().cloned());
        let Some(version) = version.filter(|_| group.is_empty() || group == candidate.name) else { continue };
        let path = format!("/apis/{}", version.group_version);
        let list: APIResourceList = answer::get(client, &path).await?;
        if let Some(found) = list.resources.iter().find(|resource| is_called(resource, name)) {
            return Ok(describe(&candidate.name, &version.version, found));
        }
    }
    bail!("the server has no resource {wanted:?}; `kubectl api-resources` lists what it has")
}

/// Plural, singular, short name or kind. Only the kind ignores case.
fn is_called(resource: &APIResource, name: &str) -> bool {
    let short_names = resource.short_names.iter().flatten();
    let mut names = short_names.chain([&resource.name, &resource.singular_name, &resource.kind]);
    !resource.name.contains('/') && names.any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns a resource of discovery in the form that requests are made with.
fn describe(group: &str, version: &str, resource: &APIResource) -> ResolvedResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let found = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: resource.kind.clone(),
        plural: resource.name.clone(),
    };
    ResolvedResource { resource: found, namespaced: resource.namespaced }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_answers_to_all_its_names_and_no_subresource_does() {
        let resource = APIResource {
            name: "deployments".into(),
            singular_name: "deployment".into(),
            kind: "Deployment".into(),
            short_names: Some(vec!["deploy".into()]),
            namespaced: true,
            ..APIResource::default()
        };
        assert!(
            ["deployments", "deployment", "Deployment", "deploy", "DEPLOYMENTS"]
                .iter()
                .all(|name| is_called(&resource, name))
        );
        assert!(!is_called(&resource, "deploys"));
        let status = APIResource { name: "deployments/status".into(), kind: "Deployment".into(), ..resource };
        assert!(!is_called(&status, "deployment"));
    }
}
