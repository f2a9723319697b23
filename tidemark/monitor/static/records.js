// The newest records of a topic, with a search by key.

import { byId, html, setText, sync } from "./dom.js";
import { table } from "./tables.js";
import { count, instant } from "./text.js";

const EVERY_MS = 10000;
const GROUPS = [["results", "Results"], ["late", "Late rows"], ["dead", "Dead letters"]];
const COLUMNS = [
  ["written (UTC)", (r) => instant(r.at_ms), "t"],
  ["key", (r) => r.key, "name"],
  ["reason", (r) => r.reason, "why"],
  ["value", (r) => r.value, "value"],
  ["record", (r) => r.place ?? `${r.partition}/${r.offset}`, "t"],
];

export class Records {
  constructor() {
    this.asked = 0;
    this.onScreen = false;
    byId("records-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.load();
    });
    byId("topic").addEventListener("change", () => this.load());
    new IntersectionObserver(([entry]) => {
      this.onScreen = entry.isIntersecting;
      if (this.onScreen && !this.asked) this.load();
    }).observe(byId("records-section"));
    setInterval(() => {
      if (this.onScreen && !document.hidden) this.load();
    }, EVERY_MS);
  }

  update(topics) {
    const groups = GROUPS.filter(([kind]) => topics.some((each) => each.kind === kind));
    sync(byId("topic"), groups, ([kind]) => kind, ([, label]) => html("optgroup", { label }), (group, [kind]) => {
      const its = topics.filter((each) => each.kind === kind);
      sync(group, its, (each) => each.topic, (each) => html("option", { value: each.topic }, each.topic), () => {});
    });
  }

  show(topic) {
    byId("topic").value = topic;
    byId("key").value = "";
    this.load();
  }

  async load() {
    const topic = byId("topic").value;
    if (!topic) return;
    const number = ++this.asked;
    byId("records").setAttribute("aria-busy", "true");
    const asked = new URLSearchParams({ topic, key: byId("key").value });
    let found;
    try {
      const answer = await fetch(`/api/records?${asked}`);
      found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
    } catch (error) {
      if (number === this.asked) this.done(`Not read: ${error.message}`);
      return;
    }
    if (number !== this.asked) return; // a later question is under way
    table(byId("records"), COLUMNS, found.records, (each) => `${topic} ${each.partition}/${each.offset}`, 0);
    const extent = found.complete ? "all" : "the newest";
    this.done(`${count(found.records.length)} shown; ${extent} ${count(found.searched)} records searched`);
  }

  done(note) {
    setText(byId("records-note"), note);
    byId("records").setAttribute("aria-busy", "false");
  }
}
