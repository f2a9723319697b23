// Figures as text.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const UNKNOWN = "–";

export function count(value) {
  return value === null || value === undefined ? UNKNOWN : whole.format(value);
}

export function figure(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (Math.abs(value) >= 10000) return short.format(value);
  return value > 0 && value < 10 ? String(Math.round(value * 10) / 10) : whole.format(Math.round(value));
}

export function rate(value) {
  return value === null || value === undefined ? UNKNOWN : `${figure(value)}/s`;
}

export function bytes(value) {
  if (value >= 2 ** 30) return `${(value / 2 ** 30).toFixed(1)} GiB`;
  return value >= 2 ** 20 ? `${(value / 2 ** 20).toFixed(1)} MiB` : `${(value / 2 ** 10).toFixed(1)} KiB`;
}

const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];

export function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const at = UNITS.findIndex(([unit]) => ms >= unit);
  const [unit, name] = UNITS[at];
  const first = Math.floor(ms / unit);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((ms - first * unit) / next[0]) : 0;
  return rest && first < 10 ? `${first} ${name} ${rest} ${next[1]}` : `${first} ${name}`;
}

const LATEST_MS = 8.64e15;

export function instant(ms) {
  if (ms === null || ms === undefined) return "none yet";
  if (Math.abs(ms) > LATEST_MS) return String(ms);
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

export function timeOfDay(ms) {
  return instant(ms).slice(11);
}
