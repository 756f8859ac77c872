//! Rows of access control: RBAC, authentication, authorization, admission, certificates, flow control.
//!
//! Reviews are virtual: they can be created, are answered at once and never stored. RBAC and certificate names may
//! contain colons, so they are path segments and no DNS names. Admission kinds require a resourceVersion on update and
//! count generations, because a lost update of a policy is a security problem.

use crate::kind::{Kind, NameRule, SelectableField as Field, Subresource as Sub};
use crate::strategy::{KindStrategy, RESETS_OF_STATUS_ONLY};
use crate::{columns, defaults, prepare, warnings};

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";

/// RBAC names may hold colons (`system:node`) and are created by PUT.
const fn rbac(kind: Kind) -> Kind {
    kind.names(NameRule::PathSegment).create_on_update().rechecks_prefix()
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Admission configuration counts generations and insists on a resourceVersion.
const fn admission(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    categories: &'static [&'static str],
) -> Kind {
    Kind::cluster(ADMISSION, kind, plural, singular)
        .categories(categories)
        .conditional_update()
        .generation()
        .rechecks_prefix()
}

const EXTENSIONS: &[&str] = &["api-extensions"];

/// All metadata that people write.
const METADATA: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

pub(super) const KINDS: &[Kind] = &[
    rbac(Kind::cluster(RBAC, "ClusterRole", "clusterroles", "clusterrole"))
        .strategy(KindStrategy { columns: columns::cluster::ROLE, ..KindStrategy::PLAIN }),
    rbac(Kind::cluster(RBAC, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding")).strategy(
        KindStrategy {
            defaults: defaults::cluster::role_binding,
            columns: columns::cluster::ROLE_BINDING,
            ..KindStrategy::PLAIN
        },
    ),
    rbac(Kind::namespaced(RBAC, "Role", "roles", "role"))
        .strategy(KindStrategy { columns: columns::cluster::ROLE, ..KindStrategy::PLAIN }),
    rbac(Kind::namespaced(RBAC, "RoleBinding", "rolebindings", "rolebinding")).strategy(KindStrategy {
        defaults: defaults::cluster::role_binding,
        columns: columns::cluster::ROLE_BINDING,
        ..KindStrategy::PLAIN
    }),
    Kind::cluster("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview")
        .virtual_review(),
    Kind::cluster("authentication.k8s.io", "TokenReview", "tokenreviews", "tokenreview").virtual_review(),
    Kind::namespaced(
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
    )
    .virtual_review(),
    Kind::cluster(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
    )
    .virtual_review(),
    Kind::cluster(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
    )
    .virtual_review(),
    Kind::cluster(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview")
        .virtual_review(),
    admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutatingadmissionpolicy", EXTENSIONS)
        .strategy(KindStrategy {
            defaults: defaults::cluster::admission_policy,
            kept_by_status: METADATA,
            qualified_finalizers: false,
            columns: columns::extension::MUTATING_ADMISSION_POLICY,
            ..KindStrategy::PLAIN
        }),
    admission(
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        "mutatingadmissionpolicybinding",
        EXTENSIONS,
    )
    .strategy(KindStrategy {
        defaults: defaults::cluster::admission_policy_binding,
        kept_by_status: METADATA,
        qualified_finalizers: false,
        columns: columns::cluster::VALIDATING_ADMISSION_POLICY_BINDING,
        ..KindStrategy::PLAIN
    }),
    admission(
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
        EXTENSIONS,
    )
    .strategy(KindStrategy {
        defaults: defaults::cluster::mutating_webhooks,
        warnings: warnings::objects::webhooks,
        kept_by_status: METADATA,
        columns: columns::cluster::MUTATING_WEBHOOK_CONFIGURATION,
        qualified_finalizers: false,
        ..KindStrategy::PLAIN
    }),
    admission(
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        EXTENSIONS,
    )
    .sub(&[Sub::status("ValidatingAdmissionPolicy")])
    .strategy(KindStrategy {
        defaults: defaults::cluster::admission_policy,
        kept_by_status: METADATA,
        resets: RESETS_OF_STATUS_ONLY,
        columns: columns::cluster::VALIDATING_ADMISSION_POLICY,
        qualified_finalizers: false,
        ..KindStrategy::PLAIN
    }),
    admission(
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        EXTENSIONS,
    )
    .strategy(KindStrategy {
        defaults: defaults::cluster::admission_policy_binding,
        kept_by_status: METADATA,
        columns: columns::cluster::VALIDATING_ADMISSION_POLICY_BINDING,
        qualified_finalizers: false,
        ..KindStrategy::PLAIN
    }),
    admission(
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        EXTENSIONS,
    )
    .strategy(KindStrategy {
        defaults: defaults::cluster::validating_webhooks,
        warnings: warnings::objects::webhooks,
        kept_by_status: METADATA,
        columns: columns::cluster::MUTATING_WEBHOOK_CONFIGURATION,
        qualified_finalizers: false,
        ..KindStrategy::PLAIN
    }),
    Kind::cluster(
        CERTIFICATES,
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "certificatesigningrequest",
    )
    .short(&["csr"])
    .names(NameRule::PathSegment)
    .sub(&[Sub::view("approval", "CertificateSigningRequest"), Sub::status("CertificateSigningRequest")])
    .fields(&[Field::text("spec.signerName")])
    .strategy(KindStrategy {
        update: prepare::keep_spec,
        status_update: prepare::update_request_status,
        resets: &[
            ("", &[&["spec"], &["status"]]),
            ("status", &[&["spec"], &["status", "conditions"]]),
            ("approval", &[&["spec"], &["status", "certificate"]]),
        ],
        columns: columns::cluster::CERTIFICATE_SIGNING_REQUEST,
        ..KindStrategy::PLAIN
    }),
    Kind::cluster(CERTIFICATES, "ClusterTrustBundle", "clustertrustbundles", "clustertrustbundle")
        .rechecks_prefix()
        .conditional_update()
        // A signer's bundles are named `signer.example.com:path:name`.
        .names(NameRule::PathSegment)
        .fields(&[Field::text("spec.signerName")])
        .strategy(KindStrategy { columns: columns::extension::CLUSTER_TRUST_BUNDLE, ..KindStrategy::PLAIN }),
    Kind::namespaced(
        CERTIFICATES,
        "PodCertificateRequest",
        "podcertificaterequests",
        "podcertificaterequest",
    )
    .conditional_update()
    .sub(&[Sub::status("PodCertificateRequest")])
    .fields(&[Field::text("spec.signerName"), Field::text("spec.podName"), Field::text("spec.nodeName")])
    .strategy(KindStrategy {
        columns: columns::extension::POD_CERTIFICATE_REQUEST,
        ..KindStrategy::STATUS_ONLY
    }),
    Kind::cluster(FLOW, "FlowSchema", "flowschemas", "flowschema")
        .rechecks_prefix()
        .generation()
        .sub(&[Sub::status("FlowSchema")])
        .strategy(KindStrategy {
            defaults: defaults::cluster::flow_schema,
            kept_by_status: METADATA,
            resets: RESETS_OF_STATUS_ONLY,
            columns: columns::cluster::FLOW_SCHEMA,
            ..KindStrategy::PLAIN
        }),
    Kind::cluster(
        FLOW,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
    )
    .rechecks_prefix()
    .generation()
    .sub(&[Sub::status("PriorityLevelConfiguration")])
    .strategy(KindStrategy {
        defaults: defaults::cluster::priority_level,
        kept_by_status: METADATA,
        resets: RESETS_OF_STATUS_ONLY,
        columns: columns::cluster::PRIORITY_LEVEL_CONFIGURATION,
        ..KindStrategy::PLAIN
    }),
];
