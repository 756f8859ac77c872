// One object: its YAML, its field managers, and what each change did to it: those that the server's history has, then live ones.

import { follow, json, objectPath } from "./api.js";
import { differences } from "./diff.js";
import { h } from "./dom.js";
import { age } from "./page_list.js";
import { toYaml } from "./yaml.js";

// Changes kept on the page. Older ones are in the server's history, if it keeps one.
const MAX_CHANGES = 100;

export function objectPage(resource, state, navigate) {
  const yaml = h("pre.yaml", { tabindex: "0" });
  const managers = h("div");
  const changes = h("ol.changes", { reversed: true });
  const status = h("span.status", { role: "status" });
  const path = objectPath(resource, state.namespace, state.name);
  let current = null;

  const show = (object) => {
    const { managedFields, ...metadata } = object.metadata;
    yaml.textContent = toYaml({ ...object, metadata });
    managers.replaceChildren(managerTable(managedFields ?? []));
    if (current) record(changes, current, object);
    current = object;
  };
  const load = async () => {
    try {
      show(await json(path));
      status.textContent = "live";
      status.className = "status live";
    } catch (error) {
      status.textContent = error.code === 404 ? "deleted" : error.message;
      status.className = "status broken";
    }
  };
  const query = { fieldSelector: `metadata.name=${state.name}` };
  const stop = follow(resource.path(state.namespace), query, {
    columns: () => {},
    reset: () => {},
    row: (type, row) => {
      if (type === "DELETED") return (status.textContent = "deleted"), (status.className = "status broken");
      if (row.object?.metadata?.resourceVersion !== current?.metadata.resourceVersion) load();
    },
    synced: () => {},
    state: (text, error) => error && ((status.textContent = `${text}: ${error.message}`), (status.className = "status broken")),
  });
  load();
  loadHistory(resource, state, changes);

  const back = () => navigate({ page: "list", kind: resource.id, namespace: state.namespace });
  const title = h("h1", h("a", { href: `#/${resource.id}` }, resource.kind), " ", state.namespace ? `${state.namespace}/` : "", state.name);
  return {
    element: h("section.page", h("div.bar", title, status), h("div.columns",
      h("div.pane", h("h2", "YAML"), yaml),
      h("div.pane", h("h2", "Changes"), changes, h("h2", "Field managers"), managers))),
    leave: stop,
    keys: { Escape: back, Backspace: back },
  };
}

/** Adds the versions that the server's history still has; a server without that endpoint answers 404. */
async function loadHistory(resource, state, list) {
  const query = new URLSearchParams({ group: resource.group, version: resource.version, resource: resource.plural, name: state.name, ...(state.namespace && { namespace: state.namespace }) });
  let versions;
  try {
    versions = (await json(`/listwatch/v1/history?${query}`)).versions ?? [];
  } catch {
    return;
  }
  const known = versions.filter((version) => version.object);
  // Newest first; the oldest one has nothing to be compared with.
  for (let i = 0; i + 1 < known.length; i++) {
    const changed = differences(strip(known[i + 1].object), strip(known[i].object));
    list.append(entry(known[i].resourceVersion, known[i].manager ?? "", known[i].time ?? "", changed));
  }
}

function record(list, before, after) {
  const changed = differences(strip(before), strip(after));
  const manager = newest(after.metadata.managedFields ?? []);
  list.prepend(entry(after.metadata.resourceVersion, manager?.manager ?? "", new Date().toISOString(), changed));
  while (list.children.length > MAX_CHANGES) list.lastChild.remove();
}

const strip = ({ metadata: { managedFields, resourceVersion, ...metadata } = {}, ...object }) => ({ ...object, metadata });

const newest = (fields) => fields.reduce((last, field) => (!last || (field.time ?? "") >= (last.time ?? "") ? field : last), null);

function entry(revision, manager, time, changed) {
  const lines = changed.map(({ path, before, after }) =>
    h("div.change", h("code", path), " ", before !== undefined && h("del", brief(before)), " ", after !== undefined && h("ins", brief(after))));
  return h("li", h("div.when", `${revision} `, h("b", manager), time && ` ${time.replace(/\.\d+Z$/, "Z")}`), lines.length ? lines : h("div.change", "metadata only"));
}

const brief = (value) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 160 ? `${text.slice(0, 157)}…` : text;
};

function managerTable(fields) {
  if (!fields.length) return h("p.quiet", "none recorded");
  const rows = fields.map((field) =>
    h("tr", h("td", field.manager), h("td", field.operation), h("td", field.subresource ?? ""), h("td", field.time ? `${age(field.time)} ago` : ""), h("td", owned(field.fieldsV1 ?? {}))));
  return h("table.plain", h("thead", h("tr", ["manager", "operation", "subresource", "when", "fields"].map((name) => h("th", name)))), h("tbody", rows));
}

/** Returns the paths of the first two levels that a manager owns. */
function owned(fields) {
  const paths = [];
  for (const [key, inner] of Object.entries(fields)) {
    const children = Object.keys(inner).filter((name) => name.startsWith("f:"));
    if (!key.startsWith("f:")) continue;
    if (!children.length) paths.push(key.slice(2));
    for (const child of children) paths.push(`${key.slice(2)}.${child.slice(2)}`);
  }
  return paths.length > 6 ? `${paths.slice(0, 6).join(", ")} and ${paths.length - 6} more` : paths.join(", ");
}
