"""A small real program on the official Python client, against the server that KUBECONFIG points to.

It does what controllers and scripts do with that client: typed and dynamic objects, patches of every sort, server-side
apply, pages, watches that resume, and errors read from their bodies. Run by `cargo xtask test python`.
"""

import json
import os
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

config.load_kube_config(os.environ["KUBECONFIG"])
core = client.CoreV1Api()
apps = client.AppsV1Api()
NS = f"python-{os.getpid()}"


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"made-by": "python"}), data=data)


def refused(code, reason, call):
    """The call must fail with this code and reason, in a Status that the client can read."""
    try:
        call()
    except ApiException as error:
        body = json.loads(error.body)
        assert (error.status, body["reason"]) == (code, reason), (error.status, body)
        return body
    raise AssertionError(f"expected {code} {reason}")


def create_read_update_delete():
    made = core.create_namespaced_config_map(NS, config_map("a", x="1"))
    assert made.metadata.uid and made.metadata.resource_version and made.metadata.creation_timestamp
    read = core.read_namespaced_config_map("a", NS)
    assert read.data == {"x": "1"} and read.metadata.uid == made.metadata.uid
    read.data["x"] = "2"
    changed = core.replace_namespaced_config_map("a", NS, read)
    assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
    refused(409, "Conflict", lambda: core.replace_namespaced_config_map("a", NS, read))
    refused(409, "AlreadyExists", lambda: core.create_namespaced_config_map(NS, config_map("a")))
    missing = refused(404, "NotFound", lambda: core.read_namespaced_config_map("nobody", NS))
    assert missing["details"]["name"] == "nobody"
    refused(422, "Invalid", lambda: core.create_namespaced_config_map(NS, config_map("Not A Name")))
    core.delete_namespaced_config_map("a", NS)
    refused(404, "NotFound", lambda: core.read_namespaced_config_map("a", NS))


def patches():
    core.create_namespaced_config_map(NS, config_map("p", a="1", b="2"))
    merged = core.patch_namespaced_config_map("p", NS, {"data": {"a": None, "c": "3"}})
    assert merged.data == {"b": "2", "c": "3"}, merged.data
    by_json = core.patch_namespaced_config_map("p", NS, [{"op": "replace", "path": "/data/b", "value": "9"}])
    assert by_json.data["b"] == "9"
    core.delete_namespaced_config_map("p", NS)


def apply_from_the_server_side():
    api = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": NS}, "data": {"k": "1"}}
    first = api.server_side_apply(body=body, namespace=NS, field_manager="one")
    assert first.data.k == "1"
    owners = {entry["manager"]: entry["operation"] for entry in first.to_dict()["metadata"]["managedFields"]}
    assert owners == {"one": "Apply"}, owners
    body["data"]["k"] = "2"
    try:
        api.server_side_apply(body=body, namespace=NS, field_manager="two")
        raise AssertionError("a conflict was expected")
    except dynamic.exceptions.ConflictError as error:
        assert b"one" in error.body if isinstance(error.body, bytes) else "one" in error.body
    forced = api.server_side_apply(body=body, namespace=NS, field_manager="two", force_conflicts=True)
    assert forced.data.k == "2"
    api.delete(name="applied", namespace=NS)


def pages():
    for index in range(7):
        core.create_namespaced_config_map(NS, config_map(f"page-{index}"))
    names, token, versions = [], None, set()
    while True:
        page = core.list_namespaced_config_map(NS, label_selector="made-by=python", limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"page-{index}" for index in range(7)], names
    assert len(versions) == 1, versions
    gone = core.delete_collection_namespaced_config_map(NS, label_selector="made-by=python")
    assert gone is not None
    assert not core.list_namespaced_config_map(NS, label_selector="made-by=python").items


def watch_and_resume():
    version = core.list_namespaced_config_map(NS).metadata.resource_version

    def write():
        core.create_namespaced_config_map(NS, config_map("w", n="0"))
        core.patch_namespaced_config_map("w", NS, {"data": {"n": "1"}})
        core.delete_namespaced_config_map("w", NS)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_config_map, NS, resource_version=version, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name, event["object"].data["n"]))
        version = event["object"].metadata.resource_version
        if len(seen) == 2:
            stream.stop()
    writer.join()
    for event in watch.Watch().stream(core.list_namespaced_config_map, NS, resource_version=version, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name, event["object"].data["n"]))
        break
    assert seen == [("ADDED", "w", "0"), ("MODIFIED", "w", "1"), ("DELETED", "w", "1")], seen


def typed_workloads():
    labels = {"app": "web"}
    container = client.V1Container(name="web", image="nginx")
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
    made = apps.create_namespaced_deployment(NS, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
    assert made.metadata.generation == 1
    assert made.spec.template.spec.restart_policy == "Always", "defaults are filled in"
    scale = apps.read_namespaced_deployment_scale("web", NS)
    assert scale.spec.replicas == 2
    scale.spec.replicas = 4
    assert apps.replace_namespaced_deployment_scale("web", NS, scale).spec.replicas == 4
    assert apps.read_namespaced_deployment("web", NS).metadata.generation == 2
    status = apps.patch_namespaced_deployment_status("web", NS, {"status": {"replicas": 4}})
    assert status.status.replicas == 4 and status.metadata.generation == 2
    apps.delete_namespaced_deployment("web", NS, propagation_policy="Background")


def leases_for_leader_election():
    api = client.CoordinationV1Api()
    spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15)
    api.create_namespaced_lease(NS, client.V1Lease(metadata=client.V1ObjectMeta(name="leader"), spec=spec))
    lease = api.read_namespaced_lease("leader", NS)
    lease.spec.holder_identity = "you"
    assert api.replace_namespaced_lease("leader", NS, lease).spec.holder_identity == "you"
    api.delete_namespaced_lease("leader", NS)


def main():
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NS)))
    failed = 0
    checks = [create_read_update_delete, patches, apply_from_the_server_side, pages, watch_and_resume, typed_workloads, leases_for_leader_election]
    for check in checks:
        try:
            check()
            print(f"ok   {check.__name__}")
        except Exception as error:  # every check is reported, whatever it died of
            failed += 1
            print(f"FAIL {check.__name__}: {type(error).__name__}: {str(error)[:400]}")
    core.delete_namespace(NS)
    if failed:
        raise SystemExit(f"{failed} checks failed")


main()
