// The differences of two JSON values as a list of changed paths. Used to show what an update changed.

/** Returns `[{path, before, after}]`, at most `limit` entries, in the order of the fields. */
export function differences(before, after, limit = 200) {
  const found = [];
  walk(before, after, "", found, limit);
  return found;
}

const isObject = (value) => value !== null && typeof value === "object";

function walk(before, after, path, found, limit) {
  if (found.length >= limit || Object.is(before, after)) return;
  if (!isObject(before) || !isObject(after) || Array.isArray(before) !== Array.isArray(after)) {
    if (JSON.stringify(before) !== JSON.stringify(after)) found.push({ path: path || ".", before, after });
    return;
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const step = Array.isArray(before) ? `[${key}]` : `.${key}`;
    walk(before[key], after[key], path + step, found, limit);
  }
}
