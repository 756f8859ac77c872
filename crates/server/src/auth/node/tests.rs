//! Decisions of the Node authorizer about every resource that kubelets use, over a graph that is filled by hand.
//!
//! The messages are compared too: they are kube-apiserver's, and appear in the 403 that a kubelet logs. Feeding the
//! graph from a cache is tested with a server, in `tests/kubelets.rs`.

use listwatch_wire::selector::FieldSelector;

use super::*;

fn kubelet(node: &str) -> User {
    User {
        name: format!("system:node:{node}"),
        groups: vec!["system:nodes".to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    }
}

/// A Pod on node `one` that uses one of everything.
fn authorizer() -> NodeAuthorizer {
    let authorizer = NodeAuthorizer::default();
    {
        let mut graph = authorizer.graph.write();
        let used = [
            (NodeObjectKind::Secret, "used"),
            (NodeObjectKind::ConfigMap, "used"),
            (NodeObjectKind::ServiceAccount, "used"),
            (NodeObjectKind::PersistentVolumeClaim, "used"),
            (NodeObjectKind::ResourceClaim, "used"),
        ];
        let used = used.map(|(kind, name)| Vertex::new(kind, "ns", name)).to_vec();
        graph.place(Vertex::new(NodeObjectKind::Pod, "ns", "used"), "one", used);
        for kind in [NodeObjectKind::VolumeAttachment, NodeObjectKind::ResourceSlice] {
            graph.place(Vertex::new(kind, "", "used"), "one", Vec::new());
        }
        let request = Vertex::new(NodeObjectKind::PodCertificateRequest, "ns", "used");
        graph.place(request, "one", Vec::new());
        let volume = graph::Volume {
            claim: Vertex::new(NodeObjectKind::PersistentVolumeClaim, "ns", "used"),
            secrets: vec![Vertex::new(NodeObjectKind::Secret, "drivers", "key")],
        };
        graph.set_volume("used", Some(volume));
    }
    authorizer
}

/// `verb group/resource/subresource namespace/name [node selected]`.
fn wanted(text: &str) -> (Vec<String>, Option<FieldSelector>) {
    let words: Vec<&str> = text.split(' ').collect();
    let mut parts = vec![words[0].to_owned()];
    parts.extend(words[1].split('/').map(str::to_owned));
    parts.resize(4, String::new());
    let (namespace, name) = words[2].split_once('/').unwrap();
    parts.extend([namespace.to_owned(), name.to_owned()]);
    (parts, words.get(3).map(|node| FieldSelector::equals("spec.nodeName", *node)))
}

fn ask(authorizer: &NodeAuthorizer, user: &User, text: &str) -> Decision {
    let (parts, fields) = wanted(text);
    let attributes = AuthorizerAttributes {
        verb: &parts[0],
        group: &parts[1],
        version: "v1",
        resource: &parts[2],
        subresource: &parts[3],
        namespace: &parts[4],
        name: &parts[5],
        path: "",
        fields: fields.as_ref(),
        labels: None,
    };
    authorizer.authorize(user, &attributes)
}

#[test]
fn a_kubelet_may_read_what_the_pods_of_its_node_refer_to() {
    let authorizer = authorizer();
    for allowed in [
        "get /secrets ns/used",
        "list /secrets ns/used",
        "watch /configmaps ns/used",
        "get /secrets drivers/key",
        "get /persistentvolumeclaims ns/used",
        "patch /persistentvolumeclaims/status ns/used",
        "get /persistentvolumes /used",
        "get /serviceaccounts ns/used",
        "create /serviceaccounts/token ns/used",
        "get resource.k8s.io/resourceclaims ns/used",
        "get storage.k8s.io/volumeattachments /used",
        "delete resource.k8s.io/resourceslices /used",
        "get certificates.k8s.io/podcertificaterequests ns/used",
        "get /pods ns/used",
        "watch /pods ns/used",
    ] {
        assert_eq!(ask(&authorizer, &kubelet("one"), allowed), Decision::Allow, "{allowed}");
        let other = ask(&authorizer, &kubelet("two"), allowed);
        let why = "no relationship found between node 'two' and this object";
        assert_eq!(other, Decision::no_opinion(why), "{allowed}");
        // Neither is a user of that name a kubelet without the group, nor a member of the group without the name.
        let mut user = kubelet("one");
        user.groups = vec!["system:authenticated".to_owned()];
        assert_eq!(ask(&authorizer, &user, allowed), Decision::no_opinion(""), "{allowed}");
        user = kubelet("one");
        user.name = "one".to_owned();
        assert_eq!(ask(&authorizer, &user, allowed), Decision::no_opinion(""), "{allowed}");
    }
}

#[test]
fn a_kubelet_may_access_its_own_node_lease_and_csi_node() {
    let authorizer = authorizer();
    for (text, allowed) in [
        ("get /nodes /one", true),
        ("watch /nodes /one", true),
        ("get /nodes /two", false),
        ("list /nodes /", false),
        ("create /nodes /", true),
        ("patch /nodes/status /one", true),
        ("delete /nodes /one", false),
        ("get /nodes/proxy /one", false),
        ("update coordination.k8s.io/leases kube-node-lease/one", true),
        ("update coordination.k8s.io/leases kube-node-lease/two", false),
        ("update coordination.k8s.io/leases kube-system/one", false),
        ("list coordination.k8s.io/leases kube-node-lease/", false),
        ("patch storage.k8s.io/csinodes /one", true),
        ("patch storage.k8s.io/csinodes /two", false),
        ("list storage.k8s.io/csinodes /", false),
        ("list /pods / one", true),
        ("list /pods / two", false),
        ("list /pods /", false),
        ("list /pods ns/", false),
        ("create /pods ns/", true),
        ("update /pods ns/used", false),
        ("patch /pods/status ns/used", true),
        ("create /pods/eviction ns/used", true),
        ("create /pods/exec ns/used", false),
        ("get /pods/log ns/used", false),
        ("create /pods/binding ns/used", false),
        ("list resource.k8s.io/resourceslices / one", true),
        ("list resource.k8s.io/resourceslices /", false),
        ("deletecollection resource.k8s.io/resourceslices / two", false),
        ("list certificates.k8s.io/podcertificaterequests ns/ one", true),
        ("update certificates.k8s.io/podcertificaterequests ns/used", false),
    ] {
        let decision = ask(&authorizer, &kubelet("one"), text);
        assert_eq!(decision == Decision::Allow, allowed, "{text}: {decision:?}");
    }
}

#[test]
fn a_kubelet_may_not_access_anything_else() {
    let authorizer = authorizer();
    for refused in [
        "get /secrets ns/other",
        "list /secrets ns/",
        "list /secrets /",
        "get /secrets /used",
        "update /secrets ns/used",
        "delete /configmaps ns/used",
        "list /persistentvolumes /",
        "list /persistentvolumeclaims ns/",
        "get /persistentvolumes /other",
        "update /persistentvolumeclaims ns/used",
        "create /serviceaccounts/token ns/other",
        "create /serviceaccounts/token ns/",
        "list /serviceaccounts ns/",
        "get apps/deployments ns/used",
        "create rbac.authorization.k8s.io/clusterroles /",
        "update certificates.k8s.io/certificatesigningrequests/approval /x",
    ] {
        let decision = ask(&authorizer, &kubelet("one"), refused);
        assert!(matches!(decision, Decision::NoOpinion(_)), "{refused}");
    }
    for allowed in [
        "list /services /",
        "create events.k8s.io/events ns/",
        "watch storage.k8s.io/csidrivers /",
        "create authorization.k8s.io/subjectaccessreviews /",
        "create certificates.k8s.io/certificatesigningrequests /",
    ] {
        assert_eq!(ask(&authorizer, &kubelet("one"), allowed), Decision::Allow, "{allowed}");
    }
}

/// A kubelet is refused even if the graph has no such Node, and so is a kubelet without a name.
#[test]
fn a_node_user_without_a_name_has_no_access() {
    let authorizer = authorizer();
    let decision = ask(&authorizer, &kubelet(""), "list /services /");
    assert_eq!(decision, Decision::no_opinion("unknown node for user \"system:node:\""));
}
