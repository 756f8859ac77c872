// The console: log in, choose a kind, look at it. Every page is a file of its own; this one has the frame around them.

import { ApiError, resources, token, whoAmI } from "./api.js";
import { h } from "./dom.js";
import { flowPage } from "./page_flow.js";
import { listPage } from "./page_list.js";
import { objectPage } from "./page_object.js";

const root = document.getElementById("app");
const FAVOURITES = ["pods", "deployments.apps", "services", "configmaps", "namespaces", "nodes", "events"];
const HELP = [
  ["g", "choose a kind"], ["f", "flow"], ["/", "search"], ["j k ↓ ↑", "move"], ["Enter", "open"], ["Esc", "back"],
  ["t", "light or dark"], ["?", "this help"],
];

let page = null;
let kinds = [];

/** Reads the address: `#/KIND`, `#/KIND/NAMESPACE/NAME` (`-` for no namespace), `#/flow`. */
function route() {
  const [path, search = ""] = location.hash.slice(2).split("?");
  const [kind = "", namespace, name] = path.split("/").map(decodeURIComponent);
  const query = Object.fromEntries(new URLSearchParams(search));
  if (kind === "flow") return { page: "flow" };
  if (name) return { page: "object", kind, namespace: namespace === "-" ? "" : namespace, name };
  return { page: "list", kind: kind || "pods", ...query };
}

function navigate(to) {
  const part = encodeURIComponent;
  if (to.page === "flow") location.hash = "#/flow";
  else if (to.page === "object") location.hash = `#/${part(to.kind)}/${part(to.namespace || "-")}/${part(to.name)}`;
  else {
    const filled = Object.entries({ namespace: to.namespace, labels: to.labels, search: to.search }).filter(([, value]) => value);
    const query = new URLSearchParams(filled).toString();
    location.hash = `#/${part(to.kind)}${query ? `?${query}` : ""}`;
  }
}

function open() {
  const to = route();
  const resource = kinds.find((kind) => kind.id === to.kind);
  page?.leave();
  if (to.page === "flow") page = flowPage();
  else if (!resource) page = { element: h("section.page", h("p.quiet", `This server does not serve ${to.kind}.`)), leave() {}, keys: {} };
  else page = to.page === "object" ? objectPage(resource, to, navigate) : listPage(resource, to, navigate);
  document.querySelector("main").replaceChildren(page.element);
  for (const link of document.querySelectorAll("nav a")) {
    link.classList.toggle("here", link.dataset.kind === (to.page === "flow" ? "flow" : to.kind));
  }
}

function frame(user) {
  const filter = h("input", { id: "kinds", type: "search", placeholder: "kind (g)", "aria-label": "choose a kind" });
  const links = h("div.links");
  const fill = () => {
    const word = filter.value.toLowerCase();
    const matches = kinds.filter((kind) => [kind.id, kind.kind.toLowerCase(), ...kind.shortNames].some((name) => name.includes(word)));
    const first = word ? [] : FAVOURITES.map((id) => kinds.find((kind) => kind.id === id)).filter(Boolean);
    links.replaceChildren(...group("", first), ...groups(word ? matches : kinds.filter((kind) => !first.includes(kind))));
  };
  filter.addEventListener("input", fill);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Enter") links.querySelector("a")?.click(), filter.blur();
  });
  fill();
  const flow = h("a", { href: "#/flow" }, "Flow");
  flow.dataset.kind = "flow";
  const leave = h("button.link", { onclick: logOut }, "log out");
  const nav = h("nav", h("div.brand", "listwatch"), flow, filter, links, h("div.user", user.username, " ", leave));
  root.replaceChildren(nav, h("main"));
}

const link = (kind) => {
  const element = h("a", { href: `#/${kind.id}`, title: kind.id }, kind.kind);
  element.dataset.kind = kind.id;
  return element;
};

const group = (name, members) => (members.length ? [name && h("div.group", name), ...members.map(link)].filter(Boolean) : []);

function groups(members) {
  const names = [...new Set(members.map((kind) => kind.group))];
  return names.flatMap((name) => group(name || "core", members.filter((kind) => kind.group === name)));
}

function logIn(message = "") {
  page?.leave();
  page = null;
  const input = h("input", { type: "password", autocomplete: "off", placeholder: "bearer token", "aria-label": "bearer token" });
  const submit = (event) => {
    event.preventDefault();
    token.set(input.value.trim());
    start();
  };
  root.replaceChildren(h("form.login", { onsubmit: submit }, h("h1", "listwatch"),
    h("p", "Paste a bearer token. It stays in this tab and is forgotten when the tab closes."), input,
    h("button", { type: "submit" }, "Log in"), h("p.error", { role: "alert" }, message)));
  input.focus();
}

function logOut() {
  token.clear();
  logIn();
}

async function start() {
  if (!token.get()) return logIn();
  try {
    const user = await whoAmI();
    kinds = await resources();
    frame(user);
    open();
  } catch (error) {
    if (error instanceof ApiError && error.code === 401) token.clear();
    logIn(error instanceof ApiError ? error.message : `The server does not answer: ${error.message}`);
  }
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

function toggleHelp() {
  const shown = document.querySelector("dialog");
  if (shown) return shown.remove();
  const dialog = h("dialog", h("h2", "Keys"), h("dl", HELP.map(([key, what]) => [h("dt", key), h("dd", what)])));
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

const KEYS = { "?": toggleHelp, t: toggleTheme, f: () => navigate({ page: "flow" }), g: () => document.getElementById("kinds")?.focus() };

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const action = page?.keys[event.key] ?? (page && KEYS[event.key]);
  if (!action) return;
  event.preventDefault();
  action();
});
addEventListener("hashchange", () => page && open());
start();
