// The flow from a write to its watchers: rates and latencies, every open watch with its lag, storage, failed requests.

import { json, pause, text } from "./api.js";
import { h, svg } from "./dom.js";
import { bytes, millis, parse, quantile, short, sum } from "./metrics.js";

const INTERVAL_MS = 2000;
// Points of the sparklines: two minutes.
const HISTORY = 60;
const WRITES = new Set(["POST", "PUT", "PATCH", "DELETE", "APPLY", "DELETECOLLECTION"]);

export function flowPage() {
  const stop = new AbortController();
  const stages = h("div.flow");
  const watches = h("div");
  const storage = h("div");
  const recent = h("div");
  const errors = h("div");
  const status = h("span.status", { role: "status" });
  poll(stop.signal, { stages, watches, storage, recent, errors, status });
  return {
    element: h("section.page.scroll", h("div.bar", h("h1", "Flow"), status), stages,
      h("h2", "Watches"), watches, h("h2", "Recent errors"), recent, h("h2", "Storage and cache"), storage, h("h2", "Failed requests since the start"), errors),
    leave: () => stop.abort(),
    keys: {},
  };
}

async function poll(signal, view) {
  let before = null;
  const trail = { writes: [], reads: [], events: [], latency: [] };
  while (!signal.aborted) {
    try {
      const now = { at: performance.now(), samples: parse(await text("/metrics", { signal })) };
      const [open, cache, recent] = await Promise.all(["watches", "cache", "errors"].map((page) => json(`/debug/listwatch/${page}`, { signal })));
      if (before) drawStages(view.stages, trail, before, now, open, cache);
      drawWatches(view.watches, open);
      drawStorage(view.storage, now.samples, cache);
      drawRecent(view.recent, recent);
      drawErrors(view.errors, now.samples);
      view.status.textContent = `at ${open.position}`;
      view.status.className = "status live";
      before = now;
    } catch (error) {
      if (signal.aborted) return;
      view.status.textContent = error.code === 403 ? "this user may not read /metrics and /debug" : `reconnecting: ${error.message}`;
      view.status.className = "status broken";
      before = null;
    }
    await pause(INTERVAL_MS, signal);
  }
}

function drawStages(element, trail, before, now, open, cache) {
  const seconds = (now.at - before.at) / 1000;
  const rate = (name, accepts) => Math.max(0, (sum(now.samples, name, accepts) - sum(before.samples, name, accepts)) / seconds);
  const isWrite = (labels) => WRITES.has(labels.verb);
  const isRead = (labels) => labels.verb === "GET" || labels.verb === "LIST";
  const latency = quantile(before.samples, now.samples, "apiserver_request_duration_seconds", 0.99, isWrite);
  const writes = remember(trail.writes, rate("apiserver_request_total", isWrite));
  const reads = remember(trail.reads, rate("apiserver_request_total", isRead));
  const events = remember(trail.events, rate("apiserver_watch_events_total"));
  const objects = cache.collections.reduce((all, one) => all + one.objects, 0);
  element.replaceChildren(
    stage("Writes", `${short(writes)}/s`, `p99 ${latency}`, trail.writes),
    arrow(),
    stage("Cache", short(objects), "objects", null),
    arrow(),
    stage("Watches", short(open.count), `${short(behind(open))} behind`, null),
    arrow(),
    stage("Events", `${short(events)}/s`, "delivered", trail.events),
    stage("Reads", `${short(reads)}/s`, "get and list", trail.reads),
  );
}

const behind = (open) => open.watches.filter((watch) => watch.lagRevisions > 0).length;

function remember(points, value) {
  points.push(value);
  if (points.length > HISTORY) points.shift();
  return value;
}

const stage = (name, value, detail, points) =>
  h("div.stage", h("div.name", name), h("div.value", value), h("div.detail", detail), points && sparkline(points));

const arrow = () => h("div.arrow", { "aria-hidden": "true" }, "→");

function sparkline(points) {
  const top = Math.max(...points, 1);
  const path = points.map((value, i) => `${(i * 120) / (HISTORY - 1)},${30 - (28 * value) / top}`).join(" ");
  return svg("svg", { viewBox: "0 0 120 32", class: "spark", role: "img", "aria-label": "the last two minutes" },
    svg("polyline", { points: path, fill: "none", "stroke-width": "1.5" }));
}

function drawWatches(element, open) {
  const sorted = [...open.watches].sort((a, b) => b.lagSeconds - a.lagSeconds || b.events - a.events).slice(0, 200);
  const rows = sorted.map((watch) =>
    h("tr", watch.lagSeconds > 1 ? { class: "late" } : {},
      h("td", watch.user), h("td", watch.group ? `${watch.resource}.${watch.group}` : watch.resource), h("td", watch.namespace ?? "all"),
      h("td", [watch.labelSelector, watch.fieldSelector].filter(Boolean).join(" ")), h("td.number", watch.position),
      h("td.number", watch.readsHistory ? "reads history" : watch.waitingEvents), h("td.number", `${watch.lagSeconds.toFixed(1)} s`),
      h("td.number", short(watch.events)), h("td.number", bytes(watch.bytes))));
  const names = ["user", "resource", "namespace", "selectors", "position", "waiting", "lag", "events", "sent"];
  element.replaceChildren(rows.length ? table(names, rows) : h("p.quiet", "no watch is open"));
}

function drawStorage(element, samples, cache) {
  const rows = [...cache.collections].sort((a, b) => b.bytes - a.bytes).slice(0, 50).map((one) =>
    h("tr", h("td", one.collection), h("td.number", short(one.objects)), h("td.number", bytes(one.bytes)), h("td.number", one.newest), h("td.number", short(one.events)), h("td.number", one.views)));
  const synced = quantile([], samples, "listwatch_storage_sync_duration_seconds", 0.99);
  const facts = [["fsync p99 since start", synced], ["store on disk", bytes(sum(samples, "apiserver_storage_size_bytes"))], ["process memory", bytes(sum(samples, "process_resident_memory_bytes"))], ["position", cache.position]];
  element.replaceChildren(h("dl.facts", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
    table(["collection", "objects", "bytes", "newest", "events kept", "watch views"], rows));
}

/** Failures of the server first: they are few, and rejections can be many. */
function drawRecent(element, recent) {
  const rows = [...recent.failed, ...recent.rejected].slice(0, 50).map((one) =>
    h("tr", one.code >= 500 ? { class: "late" } : {},
      h("td", new Date(one.time).toLocaleTimeString()), h("td.number", one.code), h("td", one.method), h("td", one.path),
      h("td", one.user || "–"), h("td", one.message), h("td.number", millis(one.seconds))));
  element.replaceChildren(rows.length ? table(["time", "code", "method", "path", "user", "message", "took"], rows) : h("p.quiet", "none"));
}

function drawErrors(element, samples) {
  const failed = samples.filter(({ name, labels }) => name === "apiserver_request_total" && Number(labels.code) >= 400);
  const rows = failed.sort((a, b) => b.value - a.value).slice(0, 30).map(({ labels, value }) =>
    h("tr", h("td.number", labels.code), h("td", labels.verb), h("td", labels.group ? `${labels.resource}.${labels.group}` : labels.resource), h("td.number", short(value))));
  element.replaceChildren(rows.length ? table(["code", "verb", "resource", "requests"], rows) : h("p.quiet", "none since the server started"));
}

const table = (names, rows) => h("table.plain", h("thead", h("tr", names.map((name) => h("th", name)))), h("tbody", rows));
