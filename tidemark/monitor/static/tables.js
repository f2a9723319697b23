// Alerts, restores, and the tables of processes, clocks and sources.

import { byId, html, setClass, setText, sync } from "./dom.js";
import { MARKS } from "./graph.js";
import { bytes, count, duration, instant, rate } from "./text.js";

const PHONE = "(max-width: 720px)";
const BAD = ["silent", "not ready"];

// A column: its head, the text of a row's cell, and the class of the cell.
const PROCESSES = [
  ["process", (p) => p.process, "name"],
  ["state", (p) => (p.ready ? ["ready", ...p.reasons].join("; ") : p.reasons.join("; ") || "not ready"), (p) => (p.ready ? "good" : "bad")],
  ["lag", (p) => count(p.lag), "n"],
  ["in", (p) => rate(p.rates.rows_in), "n"],
  ["out", (p) => rate(p.rates.rows_out), "n"],
  ["rows in", (p) => count(p.rows_in), "n"],
  ["rows out", (p) => count(p.rows_out), "n"],
  ["late", (p) => count(p.late), "n"],
  ["dead letters", (p) => count(p.dead_letters), "n"],
  ["mean commit", (p) => duration(p.commit_mean_ms), "n"],
  ["waits for", (p) => waits(p.waits), "n"],
  ["restarts", (p) => count(p.restarts), "n"],
  ["runs for", (p, now) => duration(now - p.started_at_ms), "n"],
];
const CLOCKS = [
  ["operator", (c) => c.operator, "name"],
  ["partition", (c) => String(c.partition), "n"],
  ["clock (UTC)", (c) => instant(c.clock_ms), "t"],
  ["behind now", (c, now) => (c.clock_ms === null ? "" : duration(now - c.clock_ms)), "n"],
  ["stands for", (c, now) => duration(Math.max(0, now - c.unmoved_since_ms)), "n"],
  ["open windows", (c) => count(c.open_windows), "n"],
  ["state", (c) => bytes(c.state_bytes), "n"],
  ["what the clock waits for", (c) => c.why, "why"],
];
const WINDOWS = [
  ["operator", (w) => w.operator, "name"],
  ["open", (w) => count(w.open_windows), "n"],
  ["oldest begins (UTC)", (w) => instant(w.oldest_begin_ms), "t"],
  ["it ends (UTC)", (w) => instant(w.oldest_end_ms), "t"],
  ["in partition", (w) => (w.partition === null ? "" : String(w.partition)), "n"],
  ["how many of which age", (w) => ages(w.ages), "why"],
];
const LATE = [
  ["operator", (l) => l.operator, "name"],
  ["late by at most", (l) => (l.late_by_ms === null ? "more" : duration(l.late_by_ms)), "n"],
  ["rows", (l) => count(l.rows), "n"],
  ["saved up to here", (l) => `${((100 * l.saved) / l.all).toFixed(1)} %`, "n"],
];
const SOURCES = [
  ["raw partition", (s) => s.source, "name"],
  ["watermark (UTC)", (s) => instant(s.watermark_ms), "t"],
  ["lag", (s) => count(s.lag), "n"],
  ["last record", (s, now) => (s.silent_since_ms ? `${duration(Math.max(0, now - s.silent_since_ms))} ago` : ""), "n"],
  ["state", (s) => (s.idle ? "idle" : s.loading ? `is loaded, at most ${count(s.loading)} records are left` : "awake"), ""],
];

function waits(shares) {
  const found = ["input", "broker", "sink"].map((name) => [name, Math.round(shares[`${name}_share`] * 100)]);
  return found.filter(([, share]) => share > 0).map(([name, share]) => `${name} ${share} %`).join(", ");
}

// The number of windows in each range of ages that has some; the buckets are finer than the ranges.
const AGES_MS = [1000, 10000, 60000, 300000, 1800000, 3600000, 21600000, 86400000, null];

function ages(buckets) {
  const found = AGES_MS.map((most, index) => {
    const above = index ? AGES_MS[index - 1] : -1;
    const inside = buckets.filter(({ up_to_ms: bound }) => (bound === null ? most === null : bound > above && (most === null || bound <= most)));
    return [inside.reduce((all, each) => all + each.windows, 0), most === null ? "older" : `up to ${duration(most)}`];
  });
  return found.filter(([windows]) => windows > 0).map(([windows, range]) => `${count(windows)} ${range}`).join(", ");
}

let latest = null;

export function showTables(status) {
  latest = status;
  const at = status.at_ms;
  worst(byId("processes"), PROCESSES, status.processes, (p) => p.process, at, (p) => (p.ready ? 0 : 1));
  worst(byId("clocks"), CLOCKS, status.clocks, (c) => `${c.operator}/${c.partition}`, at, (c) => -(c.clock_ms ?? -Infinity));
  worst(byId("windows"), WINDOWS, status.open_windows, (w) => w.operator, at, (w) => w.open_windows);
  worst(byId("sources"), SOURCES, status.sources, (s) => s.source, at, (s) => -(s.watermark_ms ?? -Infinity));
  showAlerts(status);
  showRestores(status);
  showLate(status.late);
}

// One entry for each lateness: the greatest share that it saves; the least one that none saves.
function cures(saves) {
  const shares = new Map();
  for (const [share, more] of Object.entries(saves).sort(([a], [b]) => a - b)) {
    if (more !== null || !shares.has(more)) shares.set(more, share);
  }
  return [...shares].map(([more, share]) => [share, more]);
}

function showLate(late) {
  byId("late-section").hidden = late.length === 0;
  const rows = late.flatMap(({ operator, buckets }) => buckets.map((each) => ({ operator, all: buckets.at(-1).saved, ...each })));
  table(byId("late"), LATE, rows, (l) => `${l.operator} ${l.late_by_ms}`, 0);
  const notes = late.flatMap(({ operator, rows: all, saves_ms: saves, reasons }) => [
    `${operator}: ${count(all)} late rows`,
    ...cures(saves).map(([share, more]) => `${operator}: ${more === null ? `${100 * share} % of them need more than a day` : `${100 * share} % of them count if the lateness is larger by more than ${duration(more - 1)}`}`),
    ...Object.entries(reasons).map(([reason, number]) => `${operator}: ${count(number)} rows: ${reason}; no lateness saves them`),
  ]);
  sync(byId("late-notes"), notes, (note) => note, (note) => html("li", {}, note), () => {});
}

// A table of the rows that need attention most, in their order, and a button for all of them.
function worst(frame, columns, rows, keyOf, now, badness) {
  const most = matchMedia(PHONE).matches ? 4 : 12;
  const isWhole = rows.length <= most || frame.dataset.whole === "yes";
  let shown = rows;
  if (!isWhole) {
    const chosen = new Set(rows.toSorted((a, b) => badness(b) - badness(a) || 0).slice(0, most));
    shown = rows.filter((row) => chosen.has(row));
  }
  table(frame, columns, shown, keyOf, now);
  let button = frame.querySelector(".more");
  if (!button) {
    button = html("button", { type: "button", class: "more" });
    button.addEventListener("click", () => {
      frame.dataset.whole = frame.dataset.whole === "yes" ? "" : "yes";
      showTables(latest);
    });
    frame.append(button);
  }
  button.hidden = rows.length <= most;
  setText(button, isWhole ? "Show fewer" : `Show all ${count(rows.length)}`);
}

export function table(frame, columns, rows, keyOf, now) {
  if (!frame.querySelector("table")) {
    const heads = columns.map(([head, , kind]) => html("th", { scope: "col", role: "columnheader", class: kind === "n" ? "n" : null }, head));
    frame.replaceChildren(
      html("p", { class: "dim none" }, "None yet."),
      // Roles are explicit: on a phone the style shows rows as cards, and they would get lost.
      html("table", { role: "table", "aria-labelledby": frame.getAttribute("aria-labelledby") },
        html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, ...heads)), html("tbody", { role: "rowgroup" })));
  }
  frame.querySelector(".none").hidden = rows.length > 0;
  frame.querySelector("table").hidden = rows.length === 0;
  sync(frame.querySelector("tbody"), rows, keyOf, () => html("tr", { role: "row" }, ...columns.map(([head]) => html("td", { role: "cell", "data-head": head }))), (row, item) => {
    columns.forEach(([, text, kind], index) => {
      const cell = row.children[index];
      setText(cell, text(item, now));
      setClass(cell, typeof kind === "function" ? kind(item) : kind);
    });
  });
}

function showAlerts(status) {
  byId("alerts-section").hidden = status.alerts.length === 0;
  const worstFirst = status.alerts.toSorted((a, b) => BAD.includes(b.kind) - BAD.includes(a.kind));
  sync(byId("alerts"), worstFirst, (alert) => `${alert.process} ${alert.kind} ${alert.subject}`, () =>
    html("li", {},
      html("span", { class: "mark", "aria-hidden": "true" }),
      html("div", {}, html("p", {}, html("strong"), " ", html("span")), html("p", { class: "dim" })),
      html("a", {}, "Show in the graph")),
  (item, alert) => {
    const health = BAD.includes(alert.kind) ? "bad" : "warn";
    const [mark, body, link] = item.children;
    setClass(item, `card ${health}`);
    setText(mark, MARKS[health]);
    const [first, todo] = body.children;
    const about = alert.kind === "clock stuck" ? alert.subject.replace(/^op:/, "operator ") : alert.process;
    setText(first.children[0], `${about}: ${alert.kind} for ${duration(Math.max(0, status.at_ms - alert.since_ms))}.`);
    setText(first.children[1], alert.text);
    setText(todo, `What to do: ${alert.todo}.`);
    link.href = `#node=${encodeURIComponent(alert.node)}`;
    link.setAttribute("aria-label", `Show ${alert.process} in the graph`);
  });
}

function showRestores(status) {
  const all = status.restores;
  byId("restores-section").hidden = all.length === 0;
  sync(byId("restores"), all, (each) => `${each.process} ${each.topic}/${each.partition}`, () =>
    html("li", {}, html("span"), html("progress", { max: 1 }), html("span", { class: "dim" })),
  (item, each) => {
    const name = `${each.process}: ${each.kind} of ${each.operator}, partition ${each.partition}`;
    setText(item.children[0], name);
    item.children[1].value = each.total ? each.done / each.total : 1;
    item.children[1].setAttribute("aria-label", name);
    const left = each.left_s === null ? "" : `, ${duration(each.left_s * 1000)} left`;
    setText(item.children[2], `${count(each.done)} of ${count(each.total)} offsets of ${each.topic}${left}`);
  });
}
