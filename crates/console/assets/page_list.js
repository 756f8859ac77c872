// The live table of one kind: the server's own columns, kept current by a watch.

import { follow } from "./api.js";
import { h } from "./dom.js";
import { RowTable } from "./rows.js";

/** Shows a kind. `navigate` changes the address; returns an object with `element`, `keys` and `leave`. */
export function listPage(resource, state, navigate) {
  const rows = new Map();
  const status = h("span.status", { role: "status" });
  const search = h("input", { type: "search", placeholder: "search (/)", "aria-label": "search", value: state.search ?? "" });
  const selector = h("input", { placeholder: "label selector", "aria-label": "label selector", value: state.labels ?? "" });
  const namespace = h("input", { placeholder: "all namespaces", "aria-label": "namespace", value: state.namespace ?? "" });
  const table = new RowTable((row) => navigate({ page: "object", kind: resource.id, namespace: row.namespace, name: row.name }));
  const apply = () => navigate({ page: "list", kind: resource.id, namespace: namespace.value, labels: selector.value, search: search.value });
  for (const input of [namespace, selector]) input.addEventListener("change", apply);

  let shown = null;
  // The keys of all rows in order. A change of an object keeps it: sorting ten thousand rows for each one would be felt.
  let sorted = null;
  const refresh = () => {
    shown ??= requestAnimationFrame(() => {
      shown = null;
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      sorted ??= [...rows.keys()].sort();
      const matches = sorted.map((key) => rows.get(key)).filter((row) => words.every((word) => row.text.includes(word)));
      table.setRows(matches);
      count.textContent = matches.length === rows.size ? `${rows.size}` : `${matches.length} of ${rows.size}`;
    });
  };
  search.addEventListener("input", refresh);
  const count = h("span.count");

  const stop = follow(resource.path(state.namespace), state.labels ? { labelSelector: state.labels } : {}, {
    columns: (definitions) => table.setColumns(columnsOf(definitions, resource.namespaced && !state.namespace)),
    reset: () => (rows.clear(), (sorted = null)),
    row: (type, row) => {
      const entry = entryOf(row);
      if (type === "DELETED" || !rows.has(entry.order)) sorted = null;
      if (type === "DELETED") rows.delete(entry.order);
      else rows.set(entry.order, entry);
      refresh();
    },
    synced: (revision) => ((status.className = "status live"), (status.textContent = `live at ${revision}`), refresh()),
    state: (text, error) => {
      status.className = `status ${error ? "broken" : ""}`;
      status.textContent = error ? `${text}: ${error.message}` : text;
    },
  });

  const bar = h("div.bar", h("h1", resource.kind), count, resource.namespaced && namespace, selector, search, status);
  return {
    element: h("section.page", bar, table.scroller),
    leave: stop,
    keys: {
      "/": () => search.focus(),
      j: () => table.move(1),
      k: () => table.move(-1),
      ArrowDown: () => table.move(1),
      ArrowUp: () => table.move(-1),
      PageDown: () => table.move(20),
      PageUp: () => table.move(-20),
      Enter: () => table.openSelected(),
    },
  };
}

function entryOf(row) {
  const meta = row.object?.metadata ?? {};
  return {
    name: meta.name,
    namespace: meta.namespace,
    order: `${meta.namespace ?? ""}/${meta.name}`,
    cells: row.cells,
    changed: performance.now(),
    created: meta.creationTimestamp,
    text: `${meta.namespace ?? ""} ${row.cells.join(" ")}`.toLowerCase(),
  };
}

function columnsOf(definitions, withNamespace) {
  const columns = definitions
    .map((definition, index) => ({ ...definition, index }))
    .filter((definition) => definition.priority === 0)
    .map(({ name, description, index }) => ({
      name,
      description,
      width: index === 0 ? "minmax(14rem, 2fr)" : "minmax(5rem, 1fr)",
      value: name === "Age" ? (row) => age(row.created) : (row) => row.cells[index] ?? "",
    }));
  const namespace = { name: "Namespace", width: "minmax(7rem, 1fr)", value: (row) => row.namespace ?? "" };
  return withNamespace ? [namespace, ...columns] : columns;
}

/** Returns how long ago a timestamp was, in the largest two units. */
export function age(timestamp) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(timestamp)) / 1000));
  if (Number.isNaN(seconds)) return "";
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0s";
  const [name, size] = units[first];
  const whole = Math.floor(seconds / size);
  const next = units[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return rest && whole < 10 ? `${whole}${name}${rest}${next[0]}` : `${whole}${name}`;
}
