// A small real program on the official JavaScript client, its informer included, against the server that KUBECONFIG
// points to. Run by `cargo xtask test javascript`, which says where the client's modules are.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.LISTWATCH_NODE_MODULES + '/');
const k8s = await import(pathToFileURL(require.resolve('@kubernetes/client-node')));

const config = new k8s.KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = `javascript-${process.pid}`;

const configMap = (name, data) => ({ metadata: { name, labels: { 'made-by': 'javascript' } }, data });

async function refused(code, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code, String(error));
    return true;
  });
}

// Resolves when the condition holds; a deadline turns a missing event into a failure instead of a hang.
async function eventually(what, condition) {
  const deadline = Date.now() + 15_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `not within 15 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const checks = {
  async 'create, read, update, delete'() {
    const made = await core.createNamespacedConfigMap({ namespace, body: configMap('a', { x: '1' }) });
    assert.ok(made.metadata.uid && made.metadata.resourceVersion);
    const read = await core.readNamespacedConfigMap({ namespace, name: 'a' });
    assert.equal(read.data.x, '1');
    read.data.x = '2';
    await core.replaceNamespacedConfigMap({ namespace, name: 'a', body: read });
    await refused(409, () => core.replaceNamespacedConfigMap({ namespace, name: 'a', body: read }));
    await refused(404, () => core.readNamespacedConfigMap({ namespace, name: 'nobody' }));
    await core.deleteNamespacedConfigMap({ namespace, name: 'a' });
    await refused(404, () => core.readNamespacedConfigMap({ namespace, name: 'a' }));
  },

  async 'patches and server-side apply'() {
    const objects = k8s.KubernetesObjectApi.makeApiClient(config);
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'p' }, data: { a: '1' } };
    await objects.create(body);
    const merged = await objects.patch({ ...body, data: { a: null, b: '2' } }, undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
    assert.deepEqual(merged.data, { b: '2' });
    const applied = await objects.patch({ ...body, data: { c: '3' } }, undefined, undefined, 'javascript', true, k8s.PatchStrategy.ServerSideApply);
    assert.equal(applied.data.c, '3');
    assert.ok(applied.metadata.managedFields.some((entry) => entry.manager === 'javascript' && entry.operation === 'Apply'));
    await objects.delete(body);
  },

  async 'a list in pages'() {
    for (let i = 0; i < 5; i++) await core.createNamespacedConfigMap({ namespace, body: configMap(`page-${i}`, {}) });
    const names = [];
    let _continue;
    do {
      const page = await core.listNamespacedConfigMap({ namespace, labelSelector: 'made-by=javascript', limit: 2, _continue });
      names.push(...page.items.map((item) => item.metadata.name));
      _continue = page.metadata._continue;
    } while (_continue);
    assert.deepEqual(names, [0, 1, 2, 3, 4].map((i) => `page-${i}`));
    await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'made-by=javascript' });
  },

  async 'a plain watch'() {
    const seen = [];
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const list = await core.listNamespacedConfigMap({ namespace });
    const query = { resourceVersion: list.metadata.resourceVersion, labelSelector: 'made-by=javascript' };
    const controller = await new k8s.Watch(config).watch(path, query, (type, object) => seen.push(`${type} ${object.metadata.name}`), () => {});
    await core.createNamespacedConfigMap({ namespace, body: configMap('w', { n: '0' }) });
    await core.deleteNamespacedConfigMap({ namespace, name: 'w' });
    await eventually('two events', () => seen.length >= 2);
    controller.abort();
    assert.deepEqual(seen, ['ADDED w', 'DELETED w']);
  },

  async 'the informer follows and comes back after a break'() {
    const seen = [];
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const labelSelector = 'made-by=javascript';
    await core.createNamespacedConfigMap({ namespace, body: configMap('before', { n: '0' }) });
    const informer = k8s.makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace, labelSelector }), labelSelector);
    for (const verb of ['add', 'update', 'delete']) informer.on(verb, (object) => seen.push(`${verb} ${object.metadata.name}`));
    await informer.start();
    await eventually('the initial add', () => seen.includes('add before'));
    const made = await core.createNamespacedConfigMap({ namespace, body: configMap('during', { n: '0' }) });
    await eventually('the add', () => seen.includes('add during'));
    made.data.n = '1';
    await core.replaceNamespacedConfigMap({ namespace, name: 'during', body: made });
    await eventually('the update', () => seen.includes('update during'));
    await informer.stop();
    await core.deleteNamespacedConfigMap({ namespace, name: 'during' });
    await informer.start();
    await eventually('the deletion that was missed', () => seen.includes('delete during'));
    assert.deepEqual(informer.list().map((object) => object.metadata.name), ['before']);
    await informer.stop();
    await core.deleteNamespacedConfigMap({ namespace, name: 'before' });
  },

  async 'typed workloads'() {
    const labels = { app: 'web' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'web', image: 'nginx' }] } };
    const spec = { replicas: 2, selector: { matchLabels: labels }, template };
    const made = await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: 'web' }, spec } });
    assert.equal(made.metadata.generation, 1);
    const scale = await apps.readNamespacedDeploymentScale({ namespace, name: 'web' });
    scale.spec.replicas = 3;
    await apps.replaceNamespacedDeploymentScale({ namespace, name: 'web', body: scale });
    const read = await apps.readNamespacedDeployment({ namespace, name: 'web' });
    assert.equal(read.spec.replicas, 3);
    await apps.deleteNamespacedDeployment({ namespace, name: 'web' });
  },
};

await core.createNamespace({ body: { metadata: { name: namespace } } });
let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${String(error.stack ?? error).slice(0, 600)}`);
  }
}
await core.deleteNamespace({ name: namespace });
if (failed) console.log(`${failed} checks failed`);
process.exit(failed ? 1 : 0);
