// A small helper to make elements. Text always becomes text nodes, so no value from the server is read as HTML.

/** Makes an element: `h("a.link", {href: "#/"}, "text", child)`. Listeners are `onclick` and the like. */
export function h(selector, ...rest) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const part of rest) append(element, part);
  return element;
}

function append(element, part) {
  if (part === null || part === undefined || part === false) return;
  if (Array.isArray(part)) part.forEach((one) => append(element, one));
  else if (part instanceof Node) element.append(part);
  else if (typeof part === "object") set(element, part);
  else element.append(String(part));
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
}

export const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
