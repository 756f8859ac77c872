// Requests to the API server: credentials, JSON, lists as Tables, and watches that resume.
//
// The token lives in sessionStorage: it is gone when the tab closes and no other tab sees it. Nothing here knows
// about pages; see app.js for those.

const TOKEN_KEY = "listwatch-token";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

// Delays between attempts to reach a server that does not answer, in milliseconds. The last one repeats.
const RETRY_DELAYS = [250, 500, 1000, 2000, 4000];

export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN_KEY, value),
  clear: () => sessionStorage.removeItem(TOKEN_KEY),
};

/** Sends a request with the tab's token and throws an ApiError for anything but a success. */
export async function request(path, { accept = "application/json", signal, method = "GET" } = {}) {
  const headers = { Accept: accept };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const response = await fetch(path, { method, headers, signal, cache: "no-store", credentials: "omit" });
  if (!response.ok) throw new ApiError(response.status, await failure(response));
  return response;
}

async function failure(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).message || response.statusText;
  } catch {
    return text.slice(0, 300) || response.statusText;
  }
}

export const json = async (path, options) => (await request(path, options)).json();
export const text = async (path, options) => (await request(path, options)).text();

/** Returns who the token belongs to, or throws. */
export async function whoAmI() {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const body = JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
  const response = await fetch("/apis/authentication.k8s.io/v1/selfsubjectreviews", { method: "POST", headers, body });
  if (!response.ok) throw new ApiError(response.status, await failure(response));
  return (await response.json()).status.userInfo;
}

/** Returns every resource that can be listed and watched, sorted by group and name. */
export async function resources() {
  const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
  const [core, groups] = await Promise.all([json("/api", { accept }), json("/apis", { accept })]);
  const found = [];
  for (const group of [...core.items, ...groups.items]) {
    const version = group.versions[0];
    for (const resource of version?.resources ?? []) {
      const verbs = resource.verbs ?? [];
      if (!verbs.includes("list") || !verbs.includes("watch")) continue;
      found.push(describe(group.metadata?.name ?? "", version.version, resource));
    }
  }
  return found.sort((a, b) => a.group.localeCompare(b.group) || a.plural.localeCompare(b.plural));
}

function describe(group, version, resource) {
  const base = group ? `/apis/${group}/${version}` : `/api/${version}`;
  return {
    group,
    version,
    plural: resource.resource,
    kind: resource.responseKind?.kind ?? resource.resource,
    namespaced: resource.scope === "Namespaced",
    shortNames: resource.shortNames ?? [],
    id: group ? `${resource.resource}.${group}` : resource.resource,
    path: (namespace) =>
      namespace && resource.scope === "Namespaced"
        ? `${base}/namespaces/${encodeURIComponent(namespace)}/${resource.resource}`
        : `${base}/${resource.resource}`,
  };
}

/** Returns the path of one object. */
export const objectPath = (resource, namespace, name) => `${resource.path(namespace)}/${encodeURIComponent(name)}`;

/**
 * Follows a collection as Table rows: lists it in pages, then watches from the list's resourceVersion.
 *
 * A broken connection resumes from the last version seen. 410 Gone, and nothing else, leads to a new list. The
 * callbacks are `columns(definitions)`, `reset()`, `row(type, row)` with type ADDED, MODIFIED or DELETED,
 * `synced(revision)` and `state(text, error)`. Returns a function that stops it.
 */
export function follow(path, query, callbacks) {
  const stop = new AbortController();
  run(path, query, callbacks, stop.signal);
  return () => stop.abort();
}

async function run(path, query, on, signal) {
  let revision = null;
  let failures = 0;
  while (!signal.aborted) {
    try {
      if (revision === null) revision = await list(path, query, on, signal);
      on.synced(revision);
      for await (const event of watch(path, query, revision, signal)) {
        failures = 0;
        if (event.type === "ERROR") throw new ApiError(event.object.code, event.object.message);
        revision = deliver(event, on) ?? revision;
        on.synced(revision);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.code === 410) revision = null;
      if (error.code === 401 || error.code === 403) return on.state("refused", error);
      on.state("reconnecting", error);
      await pause(RETRY_DELAYS[Math.min(failures++, RETRY_DELAYS.length - 1)], signal);
    }
  }
}

async function list(path, query, on, signal) {
  on.state("listing");
  on.reset();
  let next = "";
  for (;;) {
    const search = new URLSearchParams({ ...query, limit: "500", ...(next && { continue: next }) });
    const table = await json(`${path}?${search}`, { accept: TABLE, signal });
    if (table.columnDefinitions) on.columns(table.columnDefinitions);
    for (const row of table.rows ?? []) on.row("ADDED", row);
    next = table.metadata.continue ?? "";
    if (!next) return table.metadata.resourceVersion;
  }
}

async function* watch(path, query, resourceVersion, signal) {
  const search = new URLSearchParams({ ...query, watch: "true", allowWatchBookmarks: "true", resourceVersion });
  const response = await request(`${path}?${search}`, { accept: TABLE, signal });
  yield* lines(response.body);
}

/** Splits a stream into lines and parses each as JSON. */
async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

function deliver(event, on) {
  const table = event.object;
  if (table.columnDefinitions?.length && event.type !== "BOOKMARK") on.columns(table.columnDefinitions);
  let revision = table.metadata?.resourceVersion || null;
  for (const row of table.rows ?? []) {
    revision = row.object?.metadata?.resourceVersion ?? revision;
    if (event.type !== "BOOKMARK") on.row(event.type, row);
  }
  return revision;
}

export const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
