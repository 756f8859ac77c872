#!/usr/bin/env bash
# What people type, against the server that KUBECONFIG points to. Each check is one sentence of what must work; a failing
# one is reported and the rest goes on. Run by `cargo xtask test kubectl`.
set -uo pipefail

work=$(mktemp -d)
ns="kubectl-$$"
failed=0
children=()
finish() {
  for pid in "${children[@]:-}"; do [ -n "$pid" ] && kill "$pid" 2>/dev/null; done
  kubectl delete namespace "$ns" --wait=false >/dev/null 2>&1
  rm -rf "$work"
}
trap finish EXIT

# check SENTENCE COMMAND...: the command must succeed.
check() {
  local sentence=$1
  shift
  if "$@" >"$work/out" 2>&1; then
    echo "ok   $sentence"
  else
    failed=$((failed + 1))
    echo "FAIL $sentence"
    sed 's/^/     | /' "$work/out" | head -20
  fi
}

# says PATTERN COMMAND...: the command must succeed and its output match the extended regular expression.
says() {
  local pattern=$1
  shift
  timeout 60 "$@" >"$work/said" 2>&1
  local code=$?
  cat "$work/said"
  [ $code -eq 0 ] || { echo "(exit $code)"; return 1; }
  grep -Eq -- "$pattern" "$work/said" || { echo "(does not match $pattern)"; return 1; }
}

# refuses PATTERN COMMAND...: the command must fail and say so.
refuses() {
  local pattern=$1
  shift
  if timeout 60 "$@" >"$work/said" 2>&1; then cat "$work/said"; echo "(succeeded)"; return 1; fi
  cat "$work/said"
  grep -Eq -- "$pattern" "$work/said" || { echo "(does not match $pattern)"; return 1; }
}

# eventually PATTERN FILE: the file must match within ten seconds.
eventually() {
  for _ in $(seq 100); do grep -Eq -- "$1" "$2" && return 0; sleep 0.1; done
  cat "$2"; echo "(does not match $1)"; return 1
}

# `k` is kubectl in our namespace; a program rather than a function, so that `timeout` can run it.
mkdir "$work/bin"
printf '#!/bin/sh\nexec kubectl -n %s "$@"\n' "$ns" >"$work/bin/k"
chmod +x "$work/bin/k"
export PATH="$work/bin:$PATH"

cat >"$work/deployment.yaml" <<YAML
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1
        ports: [{containerPort: 80}]
YAML
cat >"$work/pod.yaml" <<YAML
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: one}}
spec: {containers: [{name: c, image: busybox}]}
YAML

echo "# the server"
check "version"                              says 'Server Version: v1\.' kubectl version
check "cluster-info"                         says 'control plane' kubectl cluster-info
check "api-resources lists kinds, short names and scope" says '^deployments +deploy +apps/v1 +true +Deployment' kubectl api-resources
check "api-versions"                         says '^apps/v1$' kubectl api-versions
check "namespaces that exist at birth"       says 'kube-system' kubectl get namespaces
check "a raw path"                           says '^ok$' kubectl get --raw /readyz
check "auth can-i for an administrator"      says '^yes$' kubectl auth can-i create deployments
check "auth can-i lists rules"               says '\*\.\*' kubectl auth can-i --list
check "auth whoami"                          says 'system:masters' kubectl auth whoami

echo "# create and read"
check "create namespace"                     says 'created' kubectl create namespace "$ns"
check "create configmap"                     says 'configmap/settings created' k create configmap settings --from-literal=a=1
check "create secret"                        says 'secret/hidden created' k create secret generic hidden --from-literal=p=s3cret
check "create twice is refused"              refuses 'already exists' k create configmap settings --from-literal=a=1
check "create from a file"                   says 'pod/one created' k create -f "$work/pod.yaml"
check "get a table"                          says '^settings +1 +' k get configmap settings
check "get -o wide"                          says 'NODE' k get pods -o wide
check "get -o name"                          says '^pod/one$' k get pods -o name
check "get -o yaml"                          says '^  a: "1"$' k get configmap settings -o yaml
check "get -o json"                          says '"kind": "ConfigMap"' k get configmap settings -o json
check "get -o jsonpath"                      says '^1$' k get configmap settings -o 'jsonpath={.data.a}{"\n"}'
check "get -o custom-columns"                says '^one +c$' k get pods -o 'custom-columns=N:.metadata.name,C:.spec.containers[0].name'
check "get by label"                         says '^one ' k get pods -l app=one
check "get by field"                         says '^one ' k get pods --field-selector metadata.name=one
check "get several kinds"                    says 'configmap/settings' k get configmaps,pods
check "get all namespaces"                   says "$ns +one" kubectl get pods -A
check "get in chunks"                        says 'settings' k get configmaps --chunk-size=1
check "get what is not there"                refuses 'NotFound' k get configmap nobody
check "get sorted"                           says 'settings' k get configmaps --sort-by=.metadata.name
check "describe a pod"                       says 'Image: +busybox' k describe pod one
check "describe a configmap"                 says 'Data' k describe configmap settings
check "explain a kind"                       says 'KIND: +Deployment' kubectl explain deployment
check "explain a field"                      says 'replicas' kubectl explain deployment.spec

echo "# change"
check "label"                                says 'labeled' k label configmap settings tier=front
check "label is there"                       says '^settings ' k get configmaps -l tier=front
check "label without --overwrite is refused" refuses 'overwrite' k label configmap settings tier=back
check "annotate"                             says 'annotated' k annotate configmap settings note=hello
check "patch (strategic merge)"              says 'patched' k patch pod one -p '{"metadata":{"labels":{"x":"y"}}}'
check "patch (merge)"                        says 'patched' k patch configmap settings --type=merge -p '{"data":{"b":"2"}}'
check "patch (json)"                         says 'patched' k patch configmap settings --type=json -p '[{"op":"remove","path":"/data/a"}]'
check "patches are there"                    says '^\{"b":"2"\}$' k get configmap settings -o 'jsonpath={.data}{"\n"}'
check "replace"                              bash -c "k get configmap settings -o yaml | k replace -f -"
check "a stale replace is refused"           refuses 'Conflict' bash -c "k get configmap settings -o json | sed 's/\"resourceVersion\": \"[0-9]*\"/\"resourceVersion\": \"1\"/' | k replace -f -"
check "apply (client side) creates"          says 'deployment.apps/web created' k apply -f "$work/deployment.yaml"
check "apply again changes nothing"          says 'unchanged' k apply -f "$work/deployment.yaml"
sed 's/nginx:1/nginx:2/' "$work/deployment.yaml" >"$work/deployment2.yaml"
check "diff shows the change"                bash -c "k diff -f $work/deployment2.yaml; [ \$? -eq 1 ]"
check "apply changes"                        says 'configured' k apply -f "$work/deployment2.yaml"
check "generation counts"                    says '^2$' k get deployment web -o 'jsonpath={.metadata.generation}{"\n"}'
check "diff shows nothing"                   k diff -f "$work/deployment2.yaml"
check "apply --server-side"                  says 'serverside-applied' k apply --server-side --force-conflicts -f "$work/deployment2.yaml"
check "apply --server-side by another conflicts" refuses 'conflict' k apply --server-side --field-manager=other -f "$work/deployment.yaml"
check "managed fields know the manager"      says 'manager: kubectl' k get deployment web -o yaml --show-managed-fields
check "apply --dry-run=server changes nothing" says 'server dry run' k apply --dry-run=server -f "$work/deployment.yaml"
check "dry run changed nothing"              says 'nginx:2' k get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}{"\n"}'
check "set image"                            says 'image updated' k set image deployment/web web=nginx:3
check "scale"                                says 'scaled' k scale deployment web --replicas=5
check "scale is there"                       says '^5$' k get deployment web -o 'jsonpath={.spec.replicas}{"\n"}'
check "a wrong field is refused"             refuses 'unknown field' bash -c "sed 's/replicas: 2/replicaz: 2/' $work/deployment.yaml | k apply --validate=strict -f -"
check "a wrong type is refused"              refuses . bash -c "sed 's/replicas: 2/replicas: two/' $work/deployment.yaml | k apply --validate=false -f -"

echo "# follow"
k get configmaps -w --output-watch-events >"$work/watch" 2>&1 &
children+=($!)
check "get -w shows what is there"           eventually 'ADDED +settings' "$work/watch"
check "create while watching"                says created k create configmap seen --from-literal=a=1
check "get -w shows the creation"            eventually 'ADDED +seen' "$work/watch"
check "change while watching"                says labeled k label configmap seen a=b
check "get -w shows the change"              eventually 'MODIFIED +seen' "$work/watch"
check "delete while watching"                says deleted k delete configmap seen
check "get -w shows the deletion"            eventually 'DELETED +seen' "$work/watch"
(sleep 1; k patch deployment web --subresource=status --type=merge -p "{\"status\":{\"observedGeneration\":$(k get deployment web -o 'jsonpath={.metadata.generation}'),\"replicas\":5,\"updatedReplicas\":5,\"readyReplicas\":5,\"availableReplicas\":5,\"conditions\":[{\"type\":\"Available\",\"status\":\"True\",\"reason\":\"T\",\"message\":\"m\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\",\"lastUpdateTime\":\"2026-01-01T00:00:00Z\"}]}}" >"$work/status" 2>&1) &
check "rollout status follows the status"    says 'successfully rolled out' k rollout status deployment/web --timeout=20s
check "wait --for=condition"                 says 'condition met' k wait --for=condition=Available deployment/web --timeout=20s
check "wait --for=jsonpath"                  says 'condition met' k wait --for=jsonpath='{.status.readyReplicas}'=5 deployment/web --timeout=20s
check "the table of deployments"             says '^web +5/5 +5 +5 ' k get deployments
(sleep 1; k delete configmap settings >/dev/null 2>&1) &
check "wait --for=delete"                    says 'condition met' k wait --for=delete configmap/settings --timeout=20s

echo "# delete"
check "a finalizer holds"                    says 'patched' k patch secret hidden --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'
check "delete does not end while it holds"   refuses . timeout 3 kubectl -n "$ns" delete secret hidden --wait
(sleep 1; k patch secret hidden --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null 2>&1) &
check "delete --wait ends when it is gone"   says . k delete secret hidden --wait --ignore-not-found --timeout=20s
check "delete by label"                      says 'deleted' k delete pods -l app=one --grace-period=0 --force
check "delete a file's objects"              says 'deleted' k delete -f "$work/deployment.yaml"
check "delete --ignore-not-found"            k delete configmap nobody --ignore-not-found
check "run, and delete again"                bash -c "k run tmp --image=busybox --restart=Never && k delete pod tmp --force --grace-period=0"
check "expose makes a service"               bash -c "k create deployment e --image=nginx --port=80 && k expose deployment e --port=80 && k get service e"
check "create job, cronjob, role, rolebinding, serviceaccount, ingress, quota, pdb, hpa" bash -c "
  k create job j --image=busybox && k create cronjob c --image=busybox --schedule='* * * * *' &&
  k create role r --verb=get --resource=pods && k create rolebinding rb --role=r --user=alice &&
  k create serviceaccount s && k create ingress i --rule='a.example.com/*=e:80' && k create quota q --hard=pods=3 &&
  k create poddisruptionbudget p --selector=app=e --min-available=1 && k autoscale deployment e --min=1 --max=3 --cpu-percent=50"
check "get all"                              says 'cronjob.batch/c' k get all
check "auth can-i for somebody else"         says '^yes$' k auth can-i get pods --as alice
check "auth can-i says no"                   refuses '^no$' k auth can-i delete pods --as alice
check "events are kept"                      says . k get events
check "delete namespace empties and ends it" says 'deleted' kubectl delete namespace "$ns" --timeout=40s
check "the namespace is gone"                refuses 'NotFound' kubectl get namespace "$ns"

if [ $failed -gt 0 ]; then
  echo "$failed checks failed"
  exit 1
fi
echo "all checks passed"
