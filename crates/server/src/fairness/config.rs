//! FlowSchemas and PriorityLevelConfigurations as they are read from stored objects.
//!
//! Missing fields get the defaults of the API, and sizes are clamped again although validation has checked them:
//! memory for queues is allocated from these numbers. `exempt` and `catch-all` exist even if their objects were
//! deleted, so that a server can be repaired. Compiled into levels by [`super::gate`]; written by
//! `lifecycle/flow_control.rs`.

use serde::Deserialize;

use super::queues::QueueSettings;
use super::shares::Share;

/// The level of requests that never wait. It exists even without its object.
pub(super) const EXEMPT: &str = "exempt";
/// The level and schema of requests that match no other. They exist even without their objects.
pub(super) const CATCH_ALL: &str = "catch-all";

/// The levels of the components of a cluster, in kube-apiserver's suggested configuration: nodes, controllers, the scheduler and
/// their leases. Their schemas name users and groups of these components only.
const COMPONENTS: [&str; 4] = ["system", "node-high", "leader-election", "workload-high"];

/// Name and uid; the uid is in a response header of every request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FlowMetadata {
    pub(super) name: String,
    pub(super) uid: String,
}

/// A PriorityLevelConfiguration, as stored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PriorityLevel {
    pub(super) metadata: FlowMetadata,
    pub(super) spec: LevelSpec,
}

/// `limited` for levels of the type `Limited`, `exempt` for the others; validation has made sure of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LevelSpec {
    #[serde(rename = "type")]
    kind: String,
    limited: Option<Limited>,
    exempt: Option<Shares>,
}

/// The limits of a level whose requests may wait. Without a limit on borrowing, a level may use all seats that others lend.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Limited {
    #[serde(flatten)]
    shares: Shares,
    borrowing_limit_percent: Option<u32>,
    limit_response: LimitResponse,
}

/// Shares of the seats of the server, relative to those of all levels, and the percentage that may be lent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Shares {
    nominal_concurrency_shares: Option<u32>,
    lendable_percent: Option<u32>,
}

/// The treatment of a request when all seats are taken: `Queue` it or `Reject` it with a 429.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LimitResponse {
    #[serde(rename = "type")]
    kind: String,
    queuing: Option<Queuing>,
}

/// The queues of a level, and the number of them that a flow is dealt.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Queuing {
    queues: usize,
    hand_size: usize,
    queue_length_limit: usize,
}

/// The most queues, hand and length taken from an object: validation allows more than memory should be spent on.
const MAX_QUEUES: usize = 10_000;

impl PriorityLevel {
    /// A level of that name with nothing but its defaults.
    pub(super) fn named(name: &str) -> Self {
        let metadata = FlowMetadata { name: name.to_owned(), uid: String::new() };
        let kind = if name == EXEMPT { "Exempt" } else { "Limited" };
        let shares = Shares { nominal_concurrency_shares: Some(5), lendable_percent: None };
        let limited = (name != EXEMPT).then(|| Limited { shares, ..Limited::default() });
        Self { metadata, spec: LevelSpec { kind: kind.to_owned(), limited, exempt: None } }
    }

    /// Returns true if requests of the level take no seats and never wait.
    pub(super) fn is_exempt(&self) -> bool {
        self.spec.kind == "Exempt"
    }

    /// Returns true if users of the level have a share of the CPU time while others are active. The components of the cluster may
    /// use all of it, because all users depend on them.
    pub(super) fn is_paced(&self) -> bool {
        !self.is_exempt() && !COMPONENTS.contains(&self.metadata.name.as_str())
    }

    /// The shares of the level, with the defaults of the API.
    pub(super) fn share(&self) -> Share {
        let limited = self.spec.limited.as_ref();
        let shares = limited.map(|limited| &limited.shares).or(self.spec.exempt.as_ref());
        let default = if self.is_exempt() { 0 } else { 30 };
        Share {
            shares: shares.and_then(|shares| shares.nominal_concurrency_shares).unwrap_or(default),
            lendable_percent: shares.and_then(|shares| shares.lendable_percent).unwrap_or(0).min(100),
            borrowing_percent: limited.and_then(|limited| limited.borrowing_limit_percent),
        }
    }

    /// The queues of the level; none if it rejects what does not fit. Sizes are clamped to what memory should be
    /// spent on.
    pub(super) fn settings(&self) -> QueueSettings {
        let response = self.spec.limited.as_ref().map(|limited| &limited.limit_response);
        let queuing = response.filter(|response| response.kind == "Queue").map(|response| &response.queuing);
        match queuing {
            None => QueueSettings { queues: 0, hand: 0, length: 0 },
            Some(queuing) => {
                let Queuing { queues, hand_size, queue_length_limit } =
                    queuing.clone().unwrap_or(Queuing { queues: 64, hand_size: 8, queue_length_limit: 50 });
                QueueSettings {
                    queues: queues.clamp(1, MAX_QUEUES),
                    hand: hand_size.clamp(1, 16),
                    length: queue_length_limit.clamp(1, MAX_QUEUES),
                }
            }
        }
    }
}

/// A FlowSchema, as stored. Matching is in `classify.rs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FlowSchema {
    pub(super) metadata: FlowMetadata,
    pub(super) spec: SchemaSpec,
}

/// The requests that a schema takes and the level they go to. Schemas with a lower precedence are asked first.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SchemaSpec {
    pub(super) priority_level_configuration: Reference,
    pub(super) matching_precedence: i32,
    pub(super) distinguisher_method: Option<Distinguisher>,
    pub(super) rules: Vec<PolicyRulesWithSubjects>,
}

/// A level that may not exist: then the schema takes nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reference {
    pub(super) name: String,
}

/// `ByUser` or `ByNamespace`. Without it, all requests of a schema are one flow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Distinguisher {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

/// Taken if one of the subjects and one of the rules match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PolicyRulesWithSubjects {
    pub(super) subjects: Vec<FlowSubject>,
    pub(super) resource_rules: Vec<ResourceRule>,
    pub(super) non_resource_rules: Vec<PathRule>,
}

/// One of the three, by `kind`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FlowSubject {
    pub(super) kind: String,
    pub(super) user: Option<Named>,
    pub(super) group: Option<Named>,
    pub(super) service_account: Option<Named>,
}

/// The name of a user, group or service account; `*` is any. Only service accounts have a namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) namespace: String,
}

/// Requests for resources. Each list must match, and `*` in it matches everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceRule {
    pub(super) verbs: Vec<String>,
    pub(super) api_groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) namespaces: Vec<String>,
    pub(super) cluster_scope: bool,
}

/// Requests for other paths, which may end in a wildcard.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PathRule {
    pub(super) verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(super) urls: Vec<String>,
}
