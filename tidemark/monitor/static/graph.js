// The dataflow graph: nodes are buttons, edges are curves beneath them.

import { html, setClass, setText, svg, sync } from "./dom.js";
import { rate } from "./text.js";

const NODE_HEIGHT = 62;
const GAP = { across: 58, along: 18, narrow: 34 };
const WIDTH = { least: 132, most: 210 };
const PHONE = 720;
const DEAD = "dead";

export const MARKS = { good: "●", waits: "◔", warn: "▲", bad: "✖", plain: "○" };
export const WORDS = { good: "works", waits: "waits", warn: "has an alert", bad: "does not work", plain: "" };

export class Graph {
  constructor(frame, onChoose) {
    this.frame = frame;
    this.onChoose = onChoose;
    this.chosen = "";
    this.edges = svg("svg", { "aria-hidden": "true" });
    this.nodes = html("div", { class: "nodes" });
    frame.replaceChildren(html("div", { class: "canvas" }, this.edges, this.nodes));
    new ResizeObserver(() => this.shown && this.draw()).observe(frame);
  }

  update(graph) {
    this.shown = graph;
    this.draw();
  }

  choose(id) {
    this.chosen = id;
    if (this.shown) this.draw();
  }

  draw() {
    const places = placed(this.shown.nodes, this.frame.clientWidth - 32);
    const canvas = this.nodes.parentElement;
    canvas.style.width = `${places.width}px`;
    canvas.style.height = `${places.height}px`;
    sync(this.nodes, this.shown.nodes, (node) => node.id, (node) => this.created(node), (button, node) =>
      this.updated(button, node, places));
    this.edges.setAttribute("width", places.width);
    this.edges.setAttribute("height", places.height);
    const kinds = new Map(this.shown.nodes.map((node) => [node.id, node]));
    sync(this.edges, this.shown.edges, (edge) => `${edge.from} ${edge.to}`, createdEdge, (group, edge) =>
      updatedEdge(group, edge, kinds.get(edge.to), places));
  }

  created(node) {
    const button = html("button", { type: "button" },
      html("span", { class: "mark", "aria-hidden": "true" }),
      html("span", { class: "name" }),
      html("span", { class: "about" }));
    button.addEventListener("click", () => this.onChoose(node.id));
    return button;
  }

  updated(button, node, places) {
    const [mark, name, about] = button.children;
    const place = places.of.get(node.id);
    setClass(button, `node ${node.kind} ${node.health}`);
    button.style.left = `${place.x}px`;
    button.style.top = `${place.y}px`;
    button.style.width = `${places.nodeWidth}px`;
    setText(mark, MARKS[node.health]);
    setText(name, node.title);
    setText(about, node.why || (node.service ? `${node.service === node.title ? "" : `${node.service} · `}${node.text}` : node.text));
    button.title = `${node.title}: ${node.why || node.text}`;
    button.setAttribute("aria-pressed", String(node.id === this.chosen));
    button.setAttribute("aria-label", [node.kind, node.title, WORDS[node.health], node.why].filter(Boolean).join(", "));
  }
}

// From left to right; on a phone from top to bottom, with two nodes side by side at most.
function placed(nodes, width) {
  const columns = [];
  for (const node of nodes) (columns[node.column] ??= []).push(node);
  return width < PHONE ? downwards(columns, width) : rightwards(columns, width);
}

function rightwards(columns, width) {
  const gaps = GAP.across * (columns.length - 1);
  const nodeWidth = Math.floor(Math.min(WIDTH.most, Math.max(WIDTH.least, (width - gaps) / columns.length)));
  const spare = (width - nodeWidth * columns.length) / Math.max(1, columns.length - 1);
  const gap = Math.max(GAP.across, Math.min(spare, 110));
  const tallest = Math.max(...columns.map((column) => column.length));
  const height = tallest * NODE_HEIGHT + (tallest - 1) * GAP.along;
  const of = new Map();
  columns.forEach((column, index) => {
    const used = column.length * NODE_HEIGHT + (column.length - 1) * GAP.along;
    column.forEach((node, row) => of.set(node.id, {
      x: index * (nodeWidth + gap),
      y: (height - used) / 2 + row * (NODE_HEIGHT + GAP.along),
    }));
  });
  return { of, nodeWidth, height, width: columns.length * nodeWidth + (columns.length - 1) * gap, down: false };
}

function downwards(all, width) {
  // Dead letters stand beside the ends of the dataflow, out of the way of results.
  const dead = all.flat().filter((node) => node.id === DEAD);
  const columns = all.map((column) => column.filter((node) => node.id !== DEAD)).filter((column) => column.length);
  columns[columns.length - 1].push(...dead);
  const side = GAP.along;
  const nodeWidth = Math.floor((width - side) / 2);
  const of = new Map();
  let y = 0;
  for (const column of columns) {
    for (let first = 0; first < column.length; first += 2) {
      const pair = column.slice(first, first + 2);
      const used = pair.length * nodeWidth + (pair.length - 1) * side;
      pair.forEach((node, index) => of.set(node.id, { x: (width - used) / 2 + index * (nodeWidth + side), y }));
      y += NODE_HEIGHT + (first + 2 < column.length ? side : GAP.narrow);
    }
  }
  return { of, nodeWidth, width, height: y - GAP.narrow, down: true };
}

// From the bottom of a node to the left of one below, under all that lies between.
function beneath(a, b, half) {
  const y = b.y + NODE_HEIGHT / 2;
  const turn = Math.min(16, y - a.y - NODE_HEIGHT);
  if (turn <= 0) return `M${a.x + 2 * half} ${a.y + NODE_HEIGHT / 2} L${b.x} ${y}`;
  return `M${a.x + half} ${a.y + NODE_HEIGHT} V${y - turn} Q${a.x + half} ${y} ${a.x + half + turn} ${y} H${b.x}`;
}

function createdEdge() {
  return svg("g", {}, svg("path", { fill: "none" }), svg("text", { "text-anchor": "middle" }));
}

function updatedEdge(group, edge, target, places) {
  const [path, label] = group.children;
  const a = places.of.get(edge.from);
  const b = places.of.get(edge.to);
  const half = places.nodeWidth / 2;
  const [x1, y1, x2, y2] = places.down
    ? [a.x + half, a.y + NODE_HEIGHT, b.x + half, b.y]
    : [a.x + places.nodeWidth, a.y + NODE_HEIGHT / 2, b.x, b.y + NODE_HEIGHT / 2];
  const [dx, dy] = places.down ? [0, (y2 - y1) / 2] : [Math.min(90, (x2 - x1) / 2), 0];
  path.setAttribute("d", target.id === DEAD && !places.down ? beneath(a, b, half) : `M${x1} ${y1} C${x1 + dx} ${y1 + dy} ${x2 - dx} ${y2 - dy} ${x2} ${y2}`);
  path.setAttribute("stroke-width", String(1.5 + Math.min(3, Math.log10(1 + (edge.rate ?? 0)))));
  setClass(group, `edge ${edge.rate > 0 ? "flows" : ""} ${target.health}`);
  // In the middle of an edge to the next column; a longer one passes nodes, so beside its target.
  const isShort = !places.down && x2 - x1 < places.nodeWidth;
  label.setAttribute("x", places.down ? x2 : isShort ? (x1 + x2) / 2 : x2 - GAP.across / 2);
  label.setAttribute("y", places.down ? y2 - 8 : (isShort ? (y1 + y2) / 2 : y2) - 6);
  setText(label, edge.rate === null ? "" : rate(edge.rate));
}
