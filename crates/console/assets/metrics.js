// Prometheus text to numbers, and rates between two readings.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Parses the text exposition format into `[{name, labels, value}]`. */
export function parse(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const match = line[0] === "#" ? null : LINE.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, key, value] of (match[2] ?? "").matchAll(LABEL)) labels[key] = value;
    samples.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return samples;
}

/** Sums the samples of a metric that a predicate on labels accepts. */
export function sum(samples, name, accepts = () => true) {
  let total = 0;
  for (const sample of samples) if (sample.name === name && accepts(sample.labels)) total += sample.value;
  return total;
}

/**
 * Returns the quantile of a histogram between two readings as text; "–" without samples. Of one in the lowest bucket, all that is
 * known is that it is less than the bound.
 */
export function quantile(before, now, name, q, accepts = () => true) {
  const counts = new Map();
  const add = (samples, sign) => {
    for (const { name: found, labels, value } of samples) {
      if (found !== `${name}_bucket` || !accepts(labels)) continue;
      const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value);
    }
  };
  add(now, 1);
  add(before, -1);
  return at([...counts].sort((a, b) => a[0] - b[0]), q);
}

function at(buckets, q) {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total <= 0) return "–";
  if (buckets[0][1] >= q * total) return `< ${millis(buckets[0][0])}`;
  let lower = 0;
  let below = 0;
  for (const [bound, count] of buckets) {
    if (count >= q * total) {
      if (bound === Infinity) return millis(lower);
      return millis(lower + ((q * total - below) / Math.max(count - below, 1)) * (bound - lower));
    }
    lower = bound;
    below = count;
  }
  return millis(lower);
}

/** Formats a rate or count for people: 1,234 or 12.3k. */
export function short(value) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

export const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
};

export const millis = (seconds) =>
  seconds >= 1 ? `${seconds.toFixed(2)} s` : `${(seconds * 1e3).toFixed(seconds < 0.01 && !Number.isInteger(seconds * 1e3) ? 2 : 0)} ms`;
