// JSON values as YAML text, in the order in which the server sent the fields.

const PLAIN = /^[A-Za-z_/][\w ./@-]*$/;
const RESERVED = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

/** Returns a value as YAML. */
export function toYaml(value, indent = "") {
  if (Array.isArray(value)) return value.length ? sequence(value, indent) : "[]";
  if (value !== null && typeof value === "object") return Object.keys(value).length ? mapping(value, indent) : "{}";
  return scalar(value, indent);
}

const isBlock = (value) =>
  value !== null && typeof value === "object" && (Array.isArray(value) ? value.length : Object.keys(value).length) > 0;

function mapping(value, indent) {
  const entries = Object.entries(value).map(([key, child]) => {
    const name = quoted(key);
    if (!isBlock(child)) return `${name}: ${scalarOrEmpty(child, indent)}`;
    const deeper = Array.isArray(child) ? indent : `${indent}  `;
    return `${name}:\n${deeper}${toYaml(child, deeper)}`;
  });
  return entries.join(`\n${indent}`);
}

const sequence = (value, indent) => value.map((child) => `- ${toYaml(child, `${indent}  `)}`).join(`\n${indent}`);

const scalarOrEmpty = (value, indent) =>
  value !== null && typeof value === "object" ? toYaml(value) : scalar(value, indent);

function scalar(value, indent) {
  if (typeof value !== "string") return String(value);
  if (value.includes("\n") && !/^\s|[^\S\n]\n|\s\s$/.test(value)) {
    const mark = value.endsWith("\n") ? "|" : "|-";
    const body = value.replace(/\n$/, "").split("\n");
    return `${mark}\n${body.map((line) => (line ? `${indent}  ${line}` : "")).join("\n")}`;
  }
  return quoted(value);
}

const quoted = (text) => (PLAIN.test(text) && !RESERVED.test(text) && !text.endsWith(" ") ? text : JSON.stringify(text));
