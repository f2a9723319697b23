// Charts of the past, drawn as SVG, with a cursor for the pointer and for the arrow keys.

import { html, setText, svg, sync } from "./dom.js";
import { duration, figure, instant, rate, timeOfDay } from "./text.js";

export const RINGS = [["15m", "15 min", 5000], ["6h", "6 h", 60000], ["7d", "7 days", 300000]];

const CHARTS = [
  { title: "Rows a second", prefix: "rate:", text: rate, names: { taken: "taken", published: "published", late: "late", dead: "dead letters" } },
  { title: "Lag, records", prefix: "lag:", text: figure },
  { title: "Latency of results, 99th percentile", prefix: "latency:", text: duration },
  { title: "Event time behind now", prefix: "behind:", text: duration },
];
const HEIGHT = 150;
const PAD = { left: 72, right: 8, top: 8, bottom: 20 };
const MOST = 6;

export class Charts {
  constructor(frame) {
    this.frame = frame;
    this.charts = CHARTS.map((kind) => new Chart(kind));
    frame.replaceChildren(...this.charts.map((chart) => chart.card));
    new ResizeObserver(() => this.draw()).observe(frame);
  }

  update(past) {
    this.past = past;
    this.draw();
  }

  draw() {
    if (this.past) for (const chart of this.charts) chart.update(this.past);
  }
}

class Chart {
  constructor(kind) {
    this.kind = kind;
    this.cursor = null;
    this.plot = svg("svg", { height: HEIGHT, role: "img", tabindex: "0" });
    this.legend = html("ul", { class: "legend" });
    this.when = html("span", { class: "dim" });
    this.card = html("figure", { class: "card chart" },
      html("figcaption", {}, html("strong", {}, kind.title), this.when), this.plot, this.legend);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.move(null));
    this.plot.addEventListener("blur", () => this.move(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  update(past) {
    this.past = past;
    const { prefix } = this.kind;
    const all = Object.entries(past.series).filter(([name]) => name.startsWith(prefix));
    if (this.kind.names) {
      const order = Object.keys(this.kind.names);
      all.sort(([a], [b]) => order.indexOf(a.slice(prefix.length)) - order.indexOf(b.slice(prefix.length)));
    }
    const worst = ([, values]) => Math.max(...values.map((value) => value ?? -Infinity));
    this.series = all.length > MOST ? all.sort((a, b) => worst(b) - worst(a)).slice(0, MOST) : all;
    this.left = all.length - this.series.length;
    this.card.hidden = all.length === 0;
    if (all.length) this.draw();
  }

  get count() {
    return this.series[0][1].length;
  }

  draw() {
    const width = Math.max(200, this.card.clientWidth - 24);
    const values = this.series.flatMap(([, each]) => each).filter((value) => value !== null);
    const top = scaleTop(Math.max(...values, 0), this.kind.text === duration);
    const x = (index) => PAD.left + (index / (this.count - 1)) * (width - PAD.left - PAD.right);
    const y = (value) => HEIGHT - PAD.bottom - (Math.max(0, value) / top) * (HEIGHT - PAD.top - PAD.bottom);
    this.x = x;
    this.plot.setAttribute("width", width);
    this.plot.replaceChildren(
      ...[0, 0.5, 1].map((part) => svg("g", { class: "grid" },
        svg("line", { x1: PAD.left, x2: width - PAD.right, y1: y(part * top), y2: y(part * top) }),
        svg("text", { x: PAD.left - 6, y: y(part * top) + 4, "text-anchor": "end" }, this.kind.text(part * top)))),
      ...[[0, "start"], [(this.count - 1) / 2, "middle"], [this.count - 1, "end"]].map(([index, anchor]) =>
        svg("text", { class: "time", x: x(index), y: HEIGHT - 4, "text-anchor": anchor }, this.shortTime(index))),
      ...this.series.map(([, each], number) => svg("path", { class: `line line-${number}`, d: curve(each, x, y) })),
      svg("line", { class: "cursor", y1: PAD.top, y2: HEIGHT - PAD.bottom, x1: -9, x2: -9 }));
    this.move(this.cursor);
  }

  timeAt(index) {
    return this.past.begin_ms + Math.round(index) * this.past.step_ms;
  }

  shortTime(index) {
    const at = this.timeAt(index);
    return this.past.ring === "7d" ? instant(at).slice(5, 16) : timeOfDay(at).slice(0, 5);
  }

  move(index) {
    this.cursor = index;
    if (!this.series?.length) return;
    const cursor = this.plot.querySelector(".cursor");
    const at = index === null ? -9 : this.x(index);
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    setText(this.when, index === null ? "" : ` ${instant(this.timeAt(index))} UTC`);
    const shown = ([, each]) => this.kind.text(index === null ? each.findLast((value) => value !== null) : each[index]);
    sync(this.legend, this.series, ([name]) => name,
      () => html("li", {}, html("span", { "aria-hidden": "true" }, ""), html("span", {}), html("b", {})),
      (item, each) => {
        item.children[0].setAttribute("class", `swatch line-${this.series.indexOf(each)}`);
        setText(item.children[1], this.name(each[0]));
        setText(item.children[2], shown(each));
      });
    const said = this.series.map((each) => `${this.name(each[0])} ${shown(each)}`).join(", ");
    const more = this.left ? `, and ${this.left} lower ones` : "";
    this.plot.setAttribute("aria-label", `${this.kind.title}${this.when.textContent}: ${said}${more}`);
  }

  name(series) {
    const name = series.slice(this.kind.prefix.length);
    return this.kind.names?.[name] ?? name;
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    const part = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    this.move(Math.round(Math.min(1, Math.max(0, part)) * (this.count - 1)));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.series?.length) return;
    event.preventDefault();
    this.move(Math.min(this.count - 1, Math.max(0, (this.cursor ?? this.count - 1) + step)));
  }
}

function scaleTop(highest, isDuration) {
  if (highest <= 0) return isDuration ? 1000 : 1;
  if (isDuration) {
    const steps = [1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 21600, 43200, 86400].map((s) => s * 1000);
    const found = steps.find((step) => step >= highest);
    return found ?? Math.ceil(highest / 86400000) * 86400000;
  }
  const unit = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= highest);
}

// One missing value is bridged: a sample may come a little late.  Longer gaps stay open.  A point
// without neighbours is a short stroke.
function curve(values, x, y) {
  let path = "";
  let before = -9;
  values.forEach((value, index) => {
    if (value === null) return;
    const starts = index - before > 2;
    path += `${starts ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    if (starts) path += "h0.5";
    before = index;
  });
  return path;
}
