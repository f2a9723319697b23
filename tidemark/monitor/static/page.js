// The page: takes live events and shows them.

import { Charts, RINGS } from "./charts.js";
import { byId, html, setClass, setText, sync } from "./dom.js";
import { Graph, WORDS } from "./graph.js";
import { Records } from "./records.js";
import { Search } from "./search.js";
import { showTables } from "./tables.js";
import { count, duration, instant, rate } from "./text.js";

const SILENT_MS = 5000;
const HASH = "#node=";

let status = null;
let heardAt = performance.now();
let ring = RINGS[0];
let loadedAt = 0;

const graph = new Graph(byId("graph"), choose);
const charts = new Charts(byId("charts"));
const records = new Records();
const search = new Search();

function choose(id) {
  graph.choose(id === graph.chosen ? "" : id);
  if (status) showDetails();
}

function take(event) {
  status = JSON.parse(event.data);
  heardAt = performance.now();
  setText(byId("pipeline"), status.pipeline);
  setText(byId("clock"), `${instant(status.at_ms)} UTC`);
  showHealth();
  showTiles();
  graph.update(status.graph);
  showDetails();
  showTables(status);
  records.update(status.topics);
  search.update(status.graph.nodes.filter((each) => each.kind === "operator").map((each) => each.title));
}

function showHealth() {
  const ill = status.graph.nodes.filter((node) => node.health === "bad");
  const alerts = status.alerts.length;
  const waits = status.holders.filter(({ source }) => !source.startsWith("op:"));
  const [health, text] = ill.length
    ? ["bad", `${ill.length === 1 ? ill[0].title : `${ill.length} parts`} ${ill.length === 1 ? "does" : "do"} not work`]
    : alerts ? ["warn", alerts === 1 ? "1 alert" : `${alerts} alerts`]
    : waits.length ? ["plain", `waits for ${waits[0].source}`] : ["good", "all works"];
  setClass(byId("health"), `pill ${health}`);
  setText(byId("health"), text);
  document.title = `${health === "good" ? "" : `(${text}) `}${status.pipeline} – Tidemark`;
}

function total(of, name) {
  const found = of.map((process) => process.rates[name]).filter((value) => value !== undefined);
  return found.length ? found.reduce((sum, value) => sum + value, 0) : null;
}

function serviceOf(process) {
  return process.process.replace(/\/[^/]*$/, "");
}

function showTiles() {
  const operators = new Set(status.graph.nodes.filter((node) => node.kind === "operator").map((node) => node.service));
  const ingest = status.processes.filter((process) => serviceOf(process) === "ingest");
  const keyed = status.processes.filter((process) => operators.has(serviceOf(process)));
  const lags = status.processes.map((process) => process.lag);
  const clocks = status.clocks.map((clock) => clock.clock_ms).filter((clock) => clock !== null);
  const sum = (name) => status.processes.reduce((all, process) => all + process[name], 0);
  const tiles = [
    ["records taken", rate(total(ingest, "rows_in"))],
    ["results", rate(total(keyed, "rows_out"))],
    ["lag", lags.includes(null) ? count(null) : count(lags.reduce((all, lag) => all + lag, 0))],
    ["lowest clock behind now", clocks.length ? duration(status.at_ms - Math.min(...clocks)) : count(null)],
    ["late rows", count(sum("late"))],
    ["dead letters", count(sum("dead_letters"))],
  ];
  sync(byId("tiles"), tiles, ([name]) => name,
    ([name]) => html("div", { class: "card" }, html("dt", {}, name), html("dd")),
    (tile, [, value]) => setText(tile.children[1], value));
}

function showDetails() {
  const panel = byId("details");
  const node = status.graph.nodes.find((each) => each.id === graph.chosen);
  panel.hidden = !node;
  if (!node) return;
  if (panel.dataset.node !== node.id) {
    panel.dataset.node = node.id;
    const close = html("button", { type: "button", "aria-label": "Close the details" }, "Close");
    close.addEventListener("click", () => choose(node.id));
    const title = html("h3", {}, node.title, " ", html("span", { class: "pill" }));
    panel.replaceChildren(html("div", { class: "title-row" }, title, close), html("dl"));
    if (status.topics.some((each) => each.topic === node.topic)) {
      const link = html("a", { href: "#records-section" }, "Newest records");
      link.addEventListener("click", () => records.show(node.topic));
      panel.append(link);
    }
  }
  const pill = panel.querySelector(".pill");
  setClass(pill, `pill ${node.health}`);
  setText(pill, WORDS[node.health] || node.kind);
  sync(panel.querySelector("dl"), facts(node), ([name]) => name,
    ([name]) => html("div", {}, html("dt", {}, name), html("dd")),
    (row, [, value]) => setText(row.children[1], value));
}

function percentiles({ p50_ms: half, p99_ms: most }) {
  return half === null ? "" : `half within ${duration(half)}, 99 % within ${duration(most)}`;
}

function facts(node) {
  const edges = status.graph.edges;
  const named = new Map(status.graph.nodes.map((each) => [each.id, each.title]));
  const side = (from, to) => edges.filter((edge) => edge[to] === node.id).map((edge) => `${named.get(edge[from])} ${edge.rate === null ? "" : rate(edge.rate)}`.trim()).join(", ");
  const clocks = status.clocks.filter((clock) => node.kind === "operator" && clock.operator === node.title);
  const processes = status.processes.filter((process) => serviceOf(process) === node.service);
  const operators = status.operators.filter((each) => node.kind === "operator" && each.operator === node.title);
  const sources = status.sources.filter((source) => node.kind === "source" && source.source.replace(/\/\d+$/, "") === node.title);
  return [
    ["what is wrong", node.why],
    ["is", node.text],
    ["topic", node.topic],
    ["reads", side("from", "to")],
    ["feeds", side("to", "from")],
    ["processes", processes.map((process) => `${process.process} (${process.ready ? "ready" : process.reasons.join("; ")})`).join(", ")],
    ["dead letters", processes.flatMap((process) => process.dead_reasons.map((each) => `${each.stage}: ${each.reason} (${count(each.count)})`)).join("; ")],
    ...operators.map((each) => [`latency in ${each.process}`, percentiles(each.latency)]),
    ...operators.map((each) => [`late rows in ${each.process}`, [...each.late_reasons.map((why) => `${why.reason} (${count(why.count)})`), percentiles(each.late_by)].filter(Boolean).join("; ")]),
    ["open windows", clocks.length ? count(clocks.reduce((all, clock) => all + clock.open_windows, 0)) : ""],
    ...clocks.map((clock) => [`clock of partition ${clock.partition}`, `${instant(clock.clock_ms)}: ${clock.why}`]),
    ...sources.map((source) => [source.source, `watermark ${instant(source.watermark_ms)}, lag ${count(source.lag)}`]),
  ].filter(([, value]) => value);
}

function followHash() {
  if (!location.hash.startsWith(HASH)) return;
  graph.choose(decodeURIComponent(location.hash.slice(HASH.length)));
  if (status) showDetails();
  byId("graph-title").scrollIntoView();
}

async function loadPast() {
  loadedAt = performance.now();
  try {
    const answer = await fetch(`/api/history?ring=${ring[0]}`);
    if (answer.ok) charts.update(await answer.json());
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the monitor is away, and the pill says so
  }
}

function showRanges() {
  sync(byId("ranges"), RINGS, ([name]) => name, (each) => {
    const button = html("button", { type: "button" }, each[1]);
    button.addEventListener("click", () => {
      ring = each;
      showRanges();
      loadPast();
    });
    return button;
  }, (button, each) => button.setAttribute("aria-pressed", String(each === ring)));
}

// A page that hears nothing must not look as if all were well.
function watch() {
  const silentMs = performance.now() - heardAt;
  const away = silentMs > SILENT_MS;
  document.body.classList.toggle("stale", away);
  if (away) {
    setClass(byId("health"), "pill bad");
    setText(byId("health"), `no word from the monitor for ${duration(silentMs)}`);
  }
}

new EventSource("/api/events").addEventListener("message", take);
addEventListener("hashchange", followHash);
document.addEventListener("visibilitychange", () => document.hidden || loadPast());
showRanges();
followHash();
loadPast();
setInterval(watch, 1000);
setInterval(() => {
  if (!document.hidden && performance.now() - loadedAt >= ring[2]) loadPast();
}, 1000);
